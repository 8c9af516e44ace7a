"""HEIC and AVIF files made in code; a test without the encoder or the decoder is skipped."""

import struct
from base64 import b85decode
from collections.abc import Callable
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from tests.support.jpegs import encoded

# smooth(32, 32), since Pillow writes AVIF of 8 bits only: imagecodecs.avif_encode(rint(pixels * (2**bits - 1) / 255),
# level=90, speed=0, bitspersample=bits, pixelformat="444", primaries=1, transfer=13, matrix=6)
_DEEP_AVIF = {
    10: (
        "0000WW^{RQVRmU|00000VRmU|ZE0pPZE0a<O+hh10002%ZDn*}000000000XXk=`10000000000aA{+7000000000000000000004sdC7Z2$lO"
        "000310016oY;R)#0000)000310RR910RR926951JZU6uPC~0YKW&i*H00031000_kZf0cy000000RRADb}%tRZ)|UJ00000YH4tCZ~y=ROKEUp"
        "ZvX%Q6lrsCWdHyG00000AOHXWAOHXW5O8UDX#fBK00RmN3IG5A3}JRLLxCVb000006Ju{|a&BX6cmM$a4FCp!0000NX>e^}0000000001009I6"
        "0)qqq004GvWMOm?015~=5kL0u5YTBdU=jjDN`L_J0001sH9N1DlR}g4Vxd)?V`zh>R;Pxxgs>=~bjQWWEU$VwX<6Nd|Mg3}Q+dIvs!RS3Xir$f"
        "XKo03>3O23JLBmluommdq@<3cvkALMNB$*vDt2F!U;"
    ),
    12: (
        "0000SW^{RQVRmU|00000VRmU|ZE0pPZE0a<0002%ZDn*}000000000XXk=`10000000000aA{+7000000000000000000004sdC7Z2$lO00031"
        "0016oY;R)#0000)000310RR910RR924*&oFZvX%QC~0YKW&i*H00031000_kZf0cy000000RRADb}%tRZ)|UJ00000YH4tCZ~y=ROKEUpZvX%Q"
        "6lrsCWdHyG00000AOHXWAOHXW5O8UDX#fBK00RsR3;+NC3}JRLLxDhG000006Ju{|a&BX6cmM$a4FCp!0000NX>e^}0000000001009I60)qqq"
        "004JwWMOm?0163M5kK~{1T-2TGGGz{LrQ=E@&EvfGHc~E>LxB|&K76n|Js66s>q%uXePU-8L4-B)tmFEsX{Bb;|y#Ag||P~ImDhrb4Q$LwlOqP"
        "E_97Wa)8^~UjK$@8>B})R%u$+@&Q*+aRp;+vvB"
    ),
}
_ORIENTATION, _RESOLUTION_UNIT = 0x0112, 0x0128


def smooth(width: int = 96, height: int = 64) -> Image.Image:
    """Different in every corner, without detail that an encoder drops."""
    y, x = np.mgrid[0:height, 0:width]
    channels = (255 * x / width, 255 * y / height, 120 + 100 * np.sin(x / 9) * np.cos(y / 11))
    return Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8))


def heic(first: Image.Image, *others: Image.Image, bits: int = 8, primary: int = 0, **options: object) -> bytes:
    """Pictures of mode L, RGB or RGBA; an orientation in `exif` becomes the container's too."""
    pillow_heif = pytest.importorskip("pillow_heif")
    file = pillow_heif.HeifFile()
    for image in (first, *others):
        if bits == 8:
            file.add_from_pillow(image)
        else:
            file.add_frombytes(f"{image.mode};16", image.size, (np.asarray(image).astype(np.uint16) * 257).tobytes())
    pillow_heif.options.SAVE_HDR_TO_12_BIT = bits == 12
    buffer = BytesIO()
    file.save(buffer, **{"quality": 95, "chroma": 444, "primary_index": primary} | options)
    return buffer.getvalue()


def avif(first: Image.Image, *others: Image.Image, exif: bytes = b"", quality: int = 95) -> bytes:
    pytest.importorskip("PIL._avif")
    several = {"save_all": True, "append_images": others} if others else {}
    return encoded(first, "AVIF", quality=quality, subsampling="4:4:4", exif=exif, max_threads=1, **several)


def deep_avif(bits: int) -> bytes:
    """smooth(32, 32) in 10 or 12 bits."""
    pytest.importorskip("PIL._avif")
    return b85decode("".join(_DEEP_AVIF[bits]))


def with_orientations(make: Callable[..., bytes], image: Image.Image, container: int, in_exif: int) -> bytes:
    """A file whose container says one orientation and whose EXIF data another."""
    tags = Image.Exif()
    tags[_ORIENTATION], tags[_RESOLUTION_UNIT] = container, 1
    data = make(image, exif=tags.tobytes())
    kept, other = _entry(_ORIENTATION, container), _entry(_RESOLUTION_UNIT, 1)
    replaced = kept if kept in data else other  # pillow-heif writes the orientation to both, Pillow to the container
    assert data.count(replaced) == 1
    return data.replace(replaced, _entry(_ORIENTATION, in_exif))


def _entry(tag: int, value: int) -> bytes:
    return struct.pack(">HHIHH", tag, 3, 1, value, 0)
