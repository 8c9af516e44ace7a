"""How a decoded image becomes the input of a model."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields

from infer_app.base.errors import UsageError
from infer_app.base.size import Size

MAX_MARGIN = 2  # share of a box's side: a larger one is a number of pixels that lacks its px
MAX_CROP_PX = 4096
CROP_KINDS = ("box", "square", "square-pad")  # of a second network; square-pad is MegaDetector's


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
    interpolation: str = "bicubic"  # bicubic, bilinear, or area, which is OpenCV's and goes without antialias
    exif: str = "apply"  # apply or ignore the EXIF orientation
    decode: str = "exact"  # scaled: large JPEGs at a half, a quarter or an eighth of their size
    depth: str = "full"  # of 16 bits the upper 8; or window:LOW,HIGH; or percentile:LOW,HIGH of each image
    channels: str = "rgb"  # the order in which the network takes them: rgb or bgr
    crop_rounding: str = "nearest"  # or down: where a crop of an odd remainder begins
    pad: int = 0  # letterbox: the level of the pixels around the picture, 0-255
    antialias: bool = True  # as Pillow; False: as OpenCV
    place: str = "centre"  # letterbox: where the picture lies; or corner, or pad-first
    rounding: str = "nearest"  # letterbox: how its sides become whole pixels; or down

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", Size.of(self.size))
        object.__setattr__(self, "antialias", self.antialias and self.interpolation != "area")
        if self.resize is not None:
            object.__setattr__(self, "resize", Size.of(self.resize))

    @property
    def is_own(self) -> bool:
        """Return whether a function of the user's makes the model's input."""
        return self.kind == "custom"

    def to_json(self) -> dict[str, object]:
        """Return its fields; those that were added later only if they are set, so that models keep their ids."""
        values = {name: value.to_json() if isinstance(value, Size) else value for name, value in asdict(self).items()}
        return {name: value for name, value in values.items() if name not in _LATER or value != _LATER[name]}


# Fields of a recipe that were added when there were models, with their defaults.
_ADDED = ("depth", "channels", "crop_rounding", "pad", "antialias", "place", "rounding")
_LATER = {one.name: one.default for one in fields(Recipe) if one.name in _ADDED}
MAX_SAMPLE = 0xFFFF  # of 16 bits


def parse_depth(text: str) -> str:
    """Return a depth in the form that a recipe has. Raises UsageError."""
    if text == "full":
        return text
    kind, _, limits = text.partition(":")
    most = {"window": MAX_SAMPLE, "percentile": 100}.get(kind, -1)
    with suppress(ValueError):
        low, high = (float(part) for part in limits.split(","))
        if 0 <= low < high <= most and (kind == "percentile" or (low.is_integer() and high.is_integer())):
            return f"{kind}:{low:.10g},{high:.10g}"
    raise UsageError(
        f"depth {text!r} is not known",
        "it is full, window:LOW,HIGH with whole numbers up to 65535, or percentile:LOW,HIGH with numbers up to 100; "
        "LOW is less than HIGH",
    )


@dataclass(frozen=True, slots=True)
class CropRule:
    """How an object's box is cut out of the picture, for a second network.

    `kind`: box; square, which is shifted into the picture; square-pad, with black where it leaves the picture; or
    package.module:function. Raises UsageError for values that are not allowed.
    """

    kind: str = "box"
    margin: float = 0.0  # share of each side of the box by which it grows in all, half of it at each edge
    margin_px: int = 0  # pixels by which each side grows in all
    least_px: int = 0  # the least side of what is cut out, pixels of the picture
    rounding: str = "int"  # left, top, width and height are truncated; nearest: the four edges are rounded

    @property
    def is_own(self) -> bool:
        """Return whether a function of the user's cuts out."""
        return ":" in self.kind

    def __post_init__(self) -> None:
        if self.is_own:
            if any(getattr(self, one.name) != one.default for one in fields(self) if one.name != "kind"):
                raise UsageError(
                    f"margins, a least side and a rounding do not belong to crop {self.kind}",
                    "leave them out: your function gets the whole picture and the box",
                )
            return
        one_of("crop", self.kind, CROP_KINDS)
        one_of("crop_rounding", self.rounding, ("int", "nearest"))
        if not 0 <= self.margin <= MAX_MARGIN:
            raise UsageError(
                f"crop_margin {self.margin:g} is not a share of 0 to {MAX_MARGIN}", "pixels are crop_margin_px"
            )
        if not (0 <= self.margin_px <= MAX_CROP_PX and 0 <= self.least_px <= MAX_CROP_PX):
            raise UsageError(f"crop_margin_px and crop_min_px are from 0 to {MAX_CROP_PX}")

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def one_of(what: str, value: str, allowed: Sequence[str]) -> None:
    """Raise UsageError for a value that is none of those allowed."""
    if value not in allowed:
        raise UsageError(f"unknown {what} {value!r}", f"choose one of: {', '.join(allowed)}")
