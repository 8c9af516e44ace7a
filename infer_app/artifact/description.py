"""Describe a model by keys, as model.toml, the flags of a build and the model's source state them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator

from infer_app.artifact.manifest import Manifest
from infer_app.artifact.recipe import CropRule, Recipe, parse_depth
from infer_app.artifact.specs import WITH_LABELS, CropSpec, DetectionSpec, InputSpec, OutputSpec, floats3
from infer_app.base.domain import OutputKind
from infer_app.base.size import Size

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
MIN_SCORE = 0.05
CROP_PCT = 0.875
PAD = 114  # what YOLO's networks were trained with


def _names(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _three(value: object) -> object:
    parts = value.split(",") if isinstance(value, str) else value
    parts = parts if isinstance(parts, (list, tuple)) else [parts]
    if len(parts) not in (1, 3):
        raise ValueError("it is one number or three")
    return tuple(parts) * 3 if len(parts) == 1 else parts


Three = Annotated[tuple[float, float, float], BeforeValidator(_three)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Pixels = Annotated[Size, PlainValidator(Size.of)]


class Description(BaseModel):
    """The keys that a model is built from; one that is left out is what the source says, else its default.

    model_template.toml says what each key means.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    name: str = ""
    weights: Path | None = None
    labels: Path | tuple[str, ...] | None = None
    output: OutputKind = OutputKind.CLASSIFICATION
    recipe: Literal["resize-crop", "crop-resize", "stretch", "letterbox"] | None = None
    size: Pixels = Size.square(224)
    resize: Pixels | None = None
    crop_pct: float | None = Field(None, gt=0, le=1)
    centre: Literal["nearest", "down"] = "nearest"
    interpolation: Literal["bicubic", "bilinear", "area"] | None = None
    antialias: bool = True
    pad: int | None = Field(None, ge=0, le=255)
    place: Literal["centre", "corner", "pad-first"] = "centre"
    rounding: Literal["nearest", "down"] = "nearest"
    mean: Three | None = None
    std: Three | None = None
    channels: Literal["rgb", "bgr"] = "rgb"
    exif: Literal["apply", "ignore"] = "apply"
    decode: Literal["exact", "scaled"] = "exact"
    depth: Annotated[str, PlainValidator(lambda value: parse_depth(str(value)))] = "full"
    preprocess: str | None = None
    input: Literal["float-nchw", "uint8-nhwc"] = "float-nchw"
    output_name: str | None = None
    activation: Literal["softmax", "sigmoid", "none", "sigmoid-applied"] = "softmax"
    threshold: float = 0.5
    top_k: int = 5
    vector_dtype: Literal["float32", "float16"] = "float32"
    head: str = ""
    min_score: float | None = None
    nms: float = 0.45
    max_objects: int = 300
    of: str | None = None
    of_labels: Names = ()
    crop: str = "box"
    crop_margin: float = 0.0
    crop_margin_px: int = 0
    crop_min_px: int = 0
    crop_rounding: Literal["int", "nearest"] = "int"
    golden: Path | None = None

    @property
    def stated(self) -> dict[str, Any]:
        """Return the values of the keys that are not left out."""
        return {key: getattr(self, key) for key in self.model_fields_set}

    @property
    def is_detector(self) -> bool:
        return self.output == "detection"

    @property
    def recipe_kind(self) -> str:
        if self.preprocess is not None:
            return "custom"
        return self.recipe or ("letterbox" if self.is_detector else "resize-crop")

    def make_recipe(self) -> Recipe:
        kind = self.recipe_kind
        return Recipe(
            kind,
            self.size,
            resize=self._resize(),
            crop=(self.crop_pct or CROP_PCT) if kind == "crop-resize" else None,
            interpolation=self.interpolation or ("bilinear" if self.is_detector else "bicubic"),
            exif=self.exif,
            decode=self.decode,
            depth=self.depth,
            channels=self.channels,
            crop_rounding=self.centre,
            pad=(PAD if self.pad is None else self.pad) if kind == "letterbox" else 0,
            antialias=self.antialias,
            place=self.place,
            rounding=self.rounding,
        )

    def _resize(self) -> Size | None:
        """Return the size before the crop, None if nothing is cropped."""
        kind, size, resize = self.recipe_kind, self.size, self.resize
        if resize is None and (kind == "resize-crop" or (kind == "stretch" and self.crop_pct)):
            share = self.crop_pct or CROP_PCT
            resize = Size(int(size.width / share), int(size.height / share))  # timm rounds them down
        return None if kind == "stretch" and resize == size else resize

    def make_input(self) -> InputSpec:
        """Return the network's input; one that takes pixels as they are has neither mean nor std."""
        is_plain = self.is_detector or self.input == "uint8-nhwc"
        mean, std = (
            given or (usual if is_plain else imagenet[:: 1 if self.channels == "rgb" else -1])
            for given, usual, imagenet in ((self.mean, (0.0,) * 3, IMAGENET_MEAN), (self.std, (1.0,) * 3, IMAGENET_STD))
        )
        return InputSpec(self.input, floats3(mean), floats3(std))

    def make_output(self) -> OutputSpec:
        """Return what the outputs mean; of a detector maybe with several heads, of which their shapes tell one."""
        if not self.is_detector:
            return OutputSpec(self.output.value, self.activation, self.threshold, self.top_k, self.vector_dtype)
        min_score = MIN_SCORE if self.min_score is None else self.min_score
        detection = DetectionSpec(self.head, min_score, self.nms, self.max_objects)
        return OutputSpec(self.output.value, self.activation, detection=detection)

    def make_crop(self, detector: Manifest | None) -> CropSpec | None:
        """Return what a second network takes of its detector, None for a network that takes whole images."""
        if self.of is None:
            return None
        stored_from = detector.output.detection.min_score if detector and detector.output.detection else 0.0
        rule = CropRule(self.crop, self.crop_margin, self.crop_margin_px, self.crop_min_px, self.crop_rounding)
        name = detector.name if detector else self.of  # `of` may be an id
        return CropSpec(name, stored_from if self.min_score is None else self.min_score, self.of_labels, rule)

    def silent_defaults(self) -> dict[str, str]:
        """Return the keys that were left out and where a wrong guess gives no error, with what is taken for them."""
        recipe, spec = self.make_recipe(), self.make_input()
        needed = {"recipe": recipe.kind, "size": str(recipe.size)} if self.preprocess is None else {}
        if self.input != "uint8-nhwc":
            needed |= {"mean": _as_text(spec.mean), "std": _as_text(spec.std)}
        if self.output in WITH_LABELS:
            needed["labels"] = "(numbers)"
        if self.is_detector:
            needed |= {"head": "(none)", "channels": recipe.channels, "antialias": str(recipe.antialias).lower()}
        return {key: value for key, value in needed.items() if key not in self.model_fields_set}


def _as_text(values: tuple[float, float, float]) -> str:
    return f"{values[0]:g}" if len(set(values)) == 1 else ",".join(f"{value:g}" for value in values)
