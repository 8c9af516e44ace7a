"""How a decoded image becomes the input of a model."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple


class Size(NamedTuple):
    """A width and a height in pixels, written as `640x480`, and those of a square as one number."""

    width: int
    height: int

    @classmethod
    def square(cls, side: int) -> Size:
        return cls(side, side)

    @classmethod
    def of(cls, value: Size | int | str) -> Size:
        """Return a size by any of its forms: `to_json` gives a number or a text. Raises ValueError."""
        if isinstance(value, Size):
            return value
        lengths = re.fullmatch(r"([1-9][0-9]*)(?:x([1-9][0-9]*))?", str(value))
        if lengths is None:
            raise ValueError(f"{value!r} is not a size such as 224 or 640x480")
        return cls(int(lengths[1]), int(lengths[2] or lengths[1]))

    @property
    def is_square(self) -> bool:
        return self.width == self.height

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return the shape of the pixels of an image: (height, width, 3)."""
        return self.height, self.width, 3

    @property
    def num_bytes(self) -> int:
        """Return the number of bytes of an image, uint8."""
        return self.height * self.width * 3

    def to_json(self) -> int | str:
        return self.width if self.is_square else str(self)

    def __str__(self) -> str:
        return f"{self.width}" if self.is_square else f"{self.width}x{self.height}"


@dataclass(frozen=True, slots=True)
class Recipe:
    """The transformation from decoded pixels to the model's input, which is part of the model's id.

    `kind`: resize-crop (torchvision, timm), crop-resize (EfficientNet), stretch, letterbox (detectors), or custom. A
    number or a text stands for a size, as in JSON.
    """

    kind: str
    size: Size  # of the model's input
    resize: Size | None = None  # before the crop; resize-crop: what the picture covers; stretch: its size
    crop: float | None = None  # crop-resize: the square's share of the shorter side, 0-1
    interpolation: str = "bicubic"  # bicubic or bilinear, antialiased
    exif: str = "apply"  # apply or ignore the EXIF orientation
    decode: str = "exact"  # scaled: large JPEGs at a half, a quarter or an eighth of their size; gpu: no longer run
    depth: str = "full"  # of 16 bits the upper 8; or window:LOW,HIGH; or percentile:LOW,HIGH of each image
    channels: str = "rgb"  # the order in which the network takes them: rgb or bgr
    crop_rounding: str = "nearest"  # or down: where a crop of an odd remainder begins
    pad: int = 0  # letterbox: the level of the pixels around the picture, 0-255

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", Size.of(self.size))
        if self.resize is not None:
            object.__setattr__(self, "resize", Size.of(self.resize))

    def to_json(self) -> dict[str, Any]:
        """Return its fields; those that older recipes lack only if they are set, so that models keep their ids."""
        values = {name: value.to_json() if isinstance(value, Size) else value for name, value in asdict(self).items()}
        return {name: value for name, value in values.items() if name not in _LATER or value != _LATER[name]}


# Fields of a recipe that were added after the first release, with their defaults.
_LATER = {"depth": "full", "channels": "rgb", "crop_rounding": "nearest", "pad": 0}
