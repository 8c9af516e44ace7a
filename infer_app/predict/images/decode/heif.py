"""Decoders of HEIC and AVIF: pillow-heif (libheif, libde265) and Pillow's own (libavif), each with one thread.

Both are optional, and imported when the first such file is opened.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from struct import unpack
from typing import Any, BinaryIO

from PIL import Image, ImageFile, features

from infer_app.base.domain import Reason
from infer_app.predict.images.read.bad_image import BadImage

MAX_AVIF_SIDE, MAX_AVIF_PIXELS = 1 << 15, 1 << 28  # of libavif, which calls a larger file damaged
_SIZE = re.compile(rb"ispe\0{4}(.{8})", re.DOTALL)
# What libheif says of a file whose pictures are only in a sequence, or are not coded as HEVC.
_NO_PICTURE = re.compile(r"primary item|'pitm' box|compression format has not been built in")


def open_heic(file: BinaryIO) -> ImageFile.ImageFile:
    """Open the primary picture of a HEIC file, upright and of 8 bits. Raises BadImage without a decoder."""
    return _HeicFile(file)


def open_avif(file: BinaryIO) -> ImageFile.ImageFile:
    """Open the first picture of an AVIF file, whose rotation is in its EXIF data. Raises BadImage without a decoder."""
    if not has_avif():
        raise BadImage(Reason.AVIF_DECODER_MISSING, "AVIF; no decoder for it is installed")
    from PIL import AvifImagePlugin

    AvifImagePlugin.DEFAULT_MAX_THREADS = 1
    try:
        return AvifImagePlugin.AvifImageFile(file)
    except SyntaxError as error:
        file.seek(0)
        for width, height in (unpack(">II", one[1]) for one in _SIZE.finditer(file.read())):
            if max(width, height) > MAX_AVIF_SIDE or width * height > MAX_AVIF_PIXELS:
                detail = f"an AVIF of {width}x{height} pixels: libavif reads 16384x16384, and sides of 32768, at most"
                raise BadImage(Reason.TOO_MANY_PIXELS, detail) from error
        raise


def read_heic_exif(data: bytes) -> Image.Exif:
    """Return the EXIF data of the primary picture, or none.

    Raises BadImage without a decoder, and what pillow-heif raises for a damaged file.
    """
    exif = Image.Exif()
    for block in (one["data"] for one in _primary_picture(data).metadata if one["type"] == "Exif"):
        exif.load(block[4 + int.from_bytes(block[:4], "big") :])  # the number says where its TIFF header begins
    return exif


def heif_decoder_names() -> list[str]:
    """Return the decoders that are installed, with their versions."""
    names = [f"libavif {features.version('avif')}"] if has_avif() else []
    if has_heic():
        import pillow_heif

        names.append(f"pillow-heif {pillow_heif.__version__} (libheif {pillow_heif.libheif_version()})")
    return names


def has_heic() -> bool:
    return is_importable("_pillow_heif")


def has_avif() -> bool:
    return is_importable("PIL._avif")


@cache
def is_importable(module: str) -> bool:
    """Return whether a module, a library of its own, is installed and can be loaded."""
    try:
        import_module(module)
    except ImportError:
        return False
    return True


class _HeicFile(ImageFile.ImageFile):
    """The primary picture of a HEIC file, by pillow-heif's C module alone.

    pillow-heif's own class for Pillow also reads metadata, profiles and thumbnails, and crashed on damaged ones.
    """

    format = "HEIC"

    def _open(self) -> None:
        assert self.fp is not None
        with _no_picture_refused():
            self._picture = _primary_picture(self.fp.read())
        self._size, self._mode = self._picture.size_mode

    def load(self) -> Any:
        if self._picture is not None:
            with _no_picture_refused():
                data = self._picture.data
            self._size, self._mode = self._picture.size_mode  # may be others than the header's
            self.load_prepare()
            self.frombytes(data, "raw", (self._mode, self._picture.stride))
            self._picture = None
        return super().load()


def _primary_picture(data: bytes) -> Any:
    """Return pillow-heif's primary picture of a file, whose pixels and metadata are read once they are asked for."""
    if not has_heic():
        raise BadImage(Reason.HEIC_DECODER_MISSING, "HEIC; no decoder for it is installed")
    import _pillow_heif

    # data, threads, convert to 8 bits, BGR, without stride, scale to 16 bits, decoder, without libheif's limits
    found, _ = _pillow_heif.load_file(data, 1, True, False, False, True, "", False)
    picture = next((picture for picture in found if picture is not None and picture.primary), None)
    if picture is None:
        raise ValueError("no primary item")
    return picture


@contextmanager
def _no_picture_refused() -> Iterator[None]:
    """Turn libheif's error for a file without a picture that libde265 decodes into a BadImage that says what to do."""
    try:
        yield
    except (ValueError, RuntimeError) as error:
        if not _NO_PICTURE.search(str(error)):
            raise
        detail = "no primary picture in HEVC, as in an image sequence; save one picture of it as HEIC or JPEG"
        raise BadImage(Reason.UNSUPPORTED_FORMAT, detail) from error
