"""Load a photo as the network's pixels.

That is 224×224 by EfficientNet's recipe, a centre square and bicubic resizing; or a detector's letterbox of 1280×1280.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image, ImageOps
from turbojpeg import TJPF_RGB, TurboJPEG


class Input(NamedTuple):
    """What a network takes: (pixels - mean) / std of a square."""

    size: int
    mean: float
    std: float


CLASSIFIER, DETECTOR = Input(224, 127.0, 128.0), Input(1280, 0.0, 255.0)
SIZE, CROP = CLASSIFIER.size, 0.875
PAD = 114  # level of the pixels around a letterbox's picture


def pillow_floats(location: str) -> torch.Tensor:
    """Load with Pillow and normalise each image, as most scripts do; (3, SIZE, SIZE) float32."""
    with Image.open(location) as image:
        ImageOps.exif_transpose(image, in_place=True)
        rgb = image.convert("RGB")
    left, top, side = _square(*rgb.size)
    rgb = rgb.crop((left, top, left + side, top + side)).resize((SIZE, SIZE), Image.Resampling.BICUBIC)
    pixels = torch.from_numpy(np.array(rgb)).permute(2, 0, 1).float()
    return (pixels - CLASSIFIER.mean) / CLASSIFIER.std


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


def letterbox_floats(location: str) -> torch.Tensor:
    """Load with Pillow, letterbox by OpenCV and normalise, as a detector's own runner does; (3, size, size) float32."""
    with Image.open(location) as image:
        rgb = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    pixels = torch.from_numpy(_letterboxed(rgb)).permute(2, 0, 1).float()
    return (pixels - DETECTOR.mean) / DETECTOR.std


def letterbox_bytes(location: str) -> torch.Tensor:
    """Load with libjpeg-turbo and letterbox by OpenCV, without normalising; (size, size, 3) uint8."""
    return torch.from_numpy(_letterboxed(turbo_rgb(Path(location).read_bytes())))


DECODERS: dict[str, Callable[[str], torch.Tensor]] = {
    "pillow": pillow_floats,
    "turbo": turbo_bytes,
    "scaled": scaled_bytes,
    "ffmpeg": ffmpeg_bytes,
    "letterbox": letterbox_floats,
    "letterbox-turbo": letterbox_bytes,
}


def input_of(decoder: str) -> Input:
    return DETECTOR if decoder.startswith("letterbox") else CLASSIFIER


def _letterboxed(rgb: np.ndarray) -> np.ndarray:
    import cv2

    height, width = rgb.shape[:2]
    ratio = DETECTOR.size / max(width, height)
    width, height = round(width * ratio), round(height * ratio)
    left, top = (DETECTOR.size - width) // 2, (DETECTOR.size - height) // 2
    pixels = np.full((DETECTOR.size, DETECTOR.size, 3), PAD, np.uint8)
    pixels[top : top + height, left : left + width] = cv2.resize(rgb, (width, height))
    return pixels


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
