"""Define the input, the output and the tolerance of a model as frozen types, which the manifest stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from infer_app.artifact.recipe import CropRule, one_of
from infer_app.base.domain import MULTI_LABEL, DetectedObject, OutputKind
from infer_app.base.errors import UsageError

INPUT_KINDS = ("float-nchw", "uint8-nhwc")
WITH_LABELS = (OutputKind.CLASSIFICATION, OutputKind.DETECTION)  # a file of labels names their classes
ACTIVATIONS = ("softmax", "sigmoid", "none", "sigmoid-applied")
VECTOR_DTYPES = ("float32", "float16")
MAX_STD = 2.0  # on the 0-1 scale: (x - mean) / 256 divides by 256 / 255


@dataclass(frozen=True)
class InputSpec:
    """The input of the source module.

    float-nchw: normalised float32 (n, 3, H, W); uint8-nhwc: (n, H, W, 3) as decoded, the module normalises by itself.
    """

    kind: str = "float-nchw"
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)  # per channel, on the 0-1 scale
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)

    @property
    def takes_pixels(self) -> bool:
        return self.kind == "uint8-nhwc"

    def __post_init__(self) -> None:
        one_of("input", self.kind, INPUT_KINDS)
        if not all(0 < value <= MAX_STD for value in self.std) or not all(0 <= value <= 1 for value in self.mean):
            raise UsageError(
                f"mean {self.mean} and std {self.std} are not on the 0-1 scale",
                "divide values of the 0-255 scale by 255; std must not be zero",
            )


@dataclass(frozen=True, slots=True)
class HeadFacts:
    """Describe a family of detectors, whose outputs `predict/detection/heads.py` reads."""

    outputs: str  # of one image
    suppresses: bool = False  # overlapping objects are left to us; the other networks list the best ones, in any order
    takes_activation: bool = False


HEADS = {
    "boxes": HeadFacts("(n, 6): x1 y1 x2 y2 score class; or boxes (n, 4), scores (n) and classes (n)"),
    "yolo": HeadFacts("(4 + classes, n): centre x, centre y, width, height, a score for each class", suppresses=True),
    "yolo5": HeadFacts(
        "(n, 5 + classes): centre x, centre y, width, height, objectness, a score for each class", suppresses=True
    ),
    "yolox": HeadFacts(
        "the same as YOLOX's own export gives it: centres as offsets in cells, logarithms of sizes", suppresses=True
    ),
    "detr": HeadFacts(
        "logits (n, classes) and boxes (n, 4): centre x, centre y, width, height, 0-1", takes_activation=True
    ),
}
_OWN_HEAD = HeadFacts("what a function of the user's takes", suppresses=True)


@dataclass(frozen=True)
class DetectionSpec:
    """How objects are found in a detector's outputs."""

    # One of HEADS, or package.module:function; at the build several with commas, of which shapes tell one, or none.
    head: str = ""
    min_score: float = 0.05  # objects with at least this score are stored
    nms: float = 0.45  # of two objects of one class whose overlap (IoU) is larger, the better one stays
    max_objects: int = 300  # of an image
    shapes: tuple[tuple[int, ...], ...] = ()  # of one image's outputs, found at the build

    def __post_init__(self) -> None:
        object.__setattr__(self, "shapes", tuple(tuple(shape) for shape in self.shapes))
        if not self.is_own:
            for one in self.head.split(","):
                one_of("head", one, ("", *HEADS))
        if not 0 <= self.min_score <= 1:
            raise UsageError(f"min_score {self.min_score} is not between 0 and 1")
        if not 0 < self.nms <= 1:
            raise UsageError(f"nms {self.nms} is not an overlap between 0 and 1", "1 keeps all objects")
        if self.max_objects < 1:
            raise UsageError(f"max_objects {self.max_objects} is less than 1")

    @property
    def is_own(self) -> bool:
        """Return whether the head is a function of the user's."""
        return ":" in self.head

    @property
    def suppresses(self) -> bool:
        """Return whether objects are suppressed by their overlap."""
        return HEADS.get(self.head, _OWN_HEAD).suppresses and self.nms < 1

    @property
    def takes_activation(self) -> bool:
        """Return whether the network's class outputs may lack an activation; scores of all others are scores."""
        return any(HEADS.get(head, _OWN_HEAD).takes_activation for head in self.head.split(","))


@dataclass(frozen=True)
class OutputSpec:
    """The meaning of one row of the model's output."""

    kind: str = "classification"
    # Of classification and the head detr. The network gives already: none, probabilities that sum to 1;
    # sigmoid-applied, a score of 0 to 1 for each label.
    activation: str = "softmax"
    threshold: float = 0.5  # of several labels: those with at least this score are listed
    top_k: int = 5  # classification with one label
    vector_dtype: str = "float32"  # embedding and raw
    shape: tuple[int, ...] | None = None  # raw: the shape of one image's output, found at build
    detection: DetectionSpec | None = None  # of the kind detection alone

    def __post_init__(self) -> None:
        one_of("output", self.kind, tuple(OutputKind))
        one_of("activation", self.activation, ACTIVATIONS)
        one_of("vector_dtype", self.vector_dtype, VECTOR_DTYPES)
        if not 0 < self.threshold < 1:
            raise UsageError(f"threshold {self.threshold} is not between 0 and 1")
        if self.top_k < 1:
            raise UsageError(f"top_k {self.top_k} is less than 1")
        if (self.kind == "detection") != (self.detection is not None):
            raise UsageError(f"an output of the kind {self.kind} with {self.detection}")

    @property
    def is_multi_label(self) -> bool:
        """Return whether an image may have several labels."""
        return self.kind == "classification" and self.activation in MULTI_LABEL

    def to_json(self) -> dict[str, object]:
        """Return its fields; the detection only if there is one, so that older models keep their ids."""
        values = asdict(self)
        return values if self.detection else {name: value for name, value in values.items() if name != "detection"}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> OutputSpec:
        shape, detection = values.get("shape"), values.get("detection")
        return cls(
            **{
                **values,
                "shape": None if shape is None else tuple(shape),
                "detection": None if detection is None else DetectionSpec(**detection),
            }
        )


@dataclass(frozen=True)
class CropSpec:
    """Which objects of a detector are the pictures of a second network, and how they are cut out."""

    of: str  # the detector's name
    min_score: float  # objects with at least this score
    labels: tuple[str, ...] = ()  # empty: all
    rule: CropRule = field(default_factory=CropRule)

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", tuple(sorted(set(self.labels))))
        if not 0 <= self.min_score <= 1:
            raise UsageError(f"min_score {self.min_score} is not between 0 and 1")

    def takes(self, found: DetectedObject) -> bool:
        """Return whether an object is a picture of the second network."""
        return found.score >= self.min_score and (not self.labels or found.label in self.labels)

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> CropSpec:
        return cls(**{**values, "rule": CropRule(**values["rule"])})


@dataclass(frozen=True)
class Tolerance:
    """The largest distance of a variant from the golden outputs; the defaults are those of fp32."""

    pixel_levels: int = 2  # largest difference from Pillow's pixels, of 255
    cosine: float = 0.9999  # minimum for each image
    relative: float = 1e-3  # maximum of the worst difference divided by the largest golden output


def floats3(values: Any) -> tuple[float, float, float]:
    """Return three numbers as floats, because 0 and 0.0 must have the same hash.

    Raises UsageError unless there are three.
    """
    numbers = [float(value) for value in values]
    if len(numbers) != 3:
        raise UsageError(f"{numbers} are not three numbers", "give one each for red, green and blue")
    return numbers[0], numbers[1], numbers[2]
