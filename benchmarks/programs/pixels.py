"""Load a photo as the network's 224×224 pixels by EfficientNet's recipe: a centre square, then bicubic resizing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from turbojpeg import TJPF_RGB, TurboJPEG

SIZE, CROP = 224, 0.875
MEAN, STD = 127.0, 128.0


def pillow_floats(location: str) -> torch.Tensor:
    """Load with Pillow and normalise each image, as most scripts do; (3, SIZE, SIZE) float32."""
    with Image.open(location) as image:
        ImageOps.exif_transpose(image, in_place=True)
        rgb = image.convert("RGB")
    left, top, side = _square(*rgb.size)
    rgb = rgb.crop((left, top, left + side, top + side)).resize((SIZE, SIZE), Image.Resampling.BICUBIC)
    pixels = torch.from_numpy(np.array(rgb)).permute(2, 0, 1).float()
    return (pixels - MEAN) / STD


def turbo_bytes(location: str) -> torch.Tensor:
    """Load with libjpeg-turbo and torch's antialiased uint8 resize, without normalising; (SIZE, SIZE, 3) uint8."""
    return _resized(turbo_rgb(Path(location).read_bytes()))


def turbo_rgb(data: bytes) -> np.ndarray:
    """Decode a JPEG with libjpeg-turbo; (height, width, 3) uint8."""
    return _turbo().decode(data, TJPF_RGB)


def scaled_bytes(location: str) -> torch.Tensor:
    """Load like turbo_bytes, but decode at 1/2, 1/4 or 1/8 as long as the square has twice the target size."""
    data = Path(location).read_bytes()
    width, height, *_ = _turbo().decode_header(data)
    side = _square(width, height)[2]
    denominator = next((part for part in (8, 4, 2) if side // part >= 2 * SIZE), 1)
    return _resized(_turbo().decode(data, TJPF_RGB, scaling_factor=(1, denominator)))


def ffmpeg_bytes(location: str) -> torch.Tensor:
    """Load with SPDL's decoder, which crops and resizes inside FFmpeg; (SIZE, SIZE, 3) uint8."""
    import spdl.io

    side = f"floor({CROP}*min(iw,ih))"
    crop = f"crop=w='{side}':h='{side}':x='floor((iw-ow+1)/2)':y='floor((ih-oh+1)/2)':exact=1"
    filters = f"format=pix_fmts=rgb24,{crop},scale={SIZE}:{SIZE}:flags=bicubic,format=pix_fmts=rgb24"
    return spdl.io.to_torch(spdl.io.load_image(location, filter_desc=filters))


DECODERS: dict[str, Callable[[str], torch.Tensor]] = {
    "pillow": pillow_floats,
    "turbo": turbo_bytes,
    "scaled": scaled_bytes,
    "ffmpeg": ffmpeg_bytes,
}


def _resized(rgb: np.ndarray) -> torch.Tensor:
    left, top, side = _square(rgb.shape[1], rgb.shape[0])
    square = torch.from_numpy(rgb[top : top + side, left : left + side]).permute(2, 0, 1).unsqueeze(0)
    resized = torch.nn.functional.interpolate(square, (SIZE, SIZE), mode="bicubic", antialias=True)
    return resized.squeeze(0).permute(1, 2, 0).contiguous()


def _square(width: int, height: int) -> tuple[int, int, int]:
    """Return left, top and side of the centre square, rounded as in the original recipe."""
    side = int(CROP * min(width, height))
    return (width - side + 1) // 2, (height - side + 1) // 2, side


@cache
def _turbo() -> TurboJPEG:
    try:
        return TurboJPEG("libturbojpeg.so.0")
    except OSError:
        return TurboJPEG()
