"""The frozen types that are passed between packages, with the meaning, shape and unit of each field."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class Reason(StrEnum):
    """Why an image has no prediction: a closed list, documented in docs/reasons.md."""

    # about the content: final
    EMPTY = "empty"
    TOO_LARGE_BYTES = "too_large_bytes"
    TOO_MANY_PIXELS = "too_many_pixels"
    UNSUPPORTED_FORMAT = "unsupported_format"
    HEIC_DECODER_MISSING = "heic_decoder_missing"  # until it is installed, then retried
    AVIF_DECODER_MISSING = "avif_decoder_missing"  # likewise
    TRUNCATED = "truncated"
    CORRUPT = "corrupt"
    DECODE_TIMEOUT = "decode_timeout"
    DECODER_CRASH = "decoder_crash"
    NON_FINITE_OUTPUT = "non_finite_output"
    MODEL_ERROR = "model_error"
    NOT_REGULAR_FILE = "not_regular_file"
    LOCATION_NOT_ALLOWED = "location_not_allowed"
    # about the environment: retried
    NOT_FOUND = "not_found"
    PERMISSION_DENIED = "permission_denied"
    READ_TIMEOUT = "read_timeout"
    READ_ERROR = "read_error"
    OUT_OF_MEMORY = "out_of_memory"
    WRITE_ERROR = "write_error"


# What a failure means. A worker that ends is judged by workers/retry_policy; what is rejected then, or was from the
# start, passes two filters before it is written:
# - READ_FAILURES may be the storage's fault: pipeline/outage_guard holds them back until something is read again.
# - `Broken.may_be_models_fault`: pipeline/model_run holds them back until enough other images were seen.
READ_FAILURES = frozenset({Reason.NOT_FOUND, Reason.PERMISSION_DENIED, Reason.READ_TIMEOUT, Reason.READ_ERROR})
NOT_READ = READ_FAILURES | {Reason.LOCATION_NOT_ALLOWED}  # nothing is known of the file's content
TRANSIENT_REASONS = READ_FAILURES | {Reason.OUT_OF_MEMORY, Reason.WRITE_ERROR}  # a later run tries again
# Final until this module is there; then every image that was rejected for it is new again (versions.retried_reasons).
DECODER_MODULES = {Reason.HEIC_DECODER_MISSING: "_pi_heif", Reason.AVIF_DECODER_MISSING: "PIL._avif"}
INSTALL_DECODER = "pip install 'infer_app[heic]'"
MAX_ATTEMPTS = 3  # of a transient reason; `not_found` has no limit while the look-back reaches its day


ROW = "row:"  # prefix, before the id, of the location of an image whose bytes are in a column of the source


@dataclass(frozen=True, slots=True)
class ImageRef:
    """The reference to an image, which is all that is sent to a worker."""

    image_id: str
    location: str


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The facts of an image's file; None where they could not be read."""

    size: int | None = None  # bytes
    modified: float | None = None  # seconds since the epoch
    sha256: str | None = None
    picture: Size | None = None  # of the upright picture, once it was decoded


@dataclass(frozen=True, slots=True)
class Sample:
    """A loaded image with its pixels, ready for the model."""

    ref: ImageRef
    pixels: Tensor  # (H, W, 3) uint8, channels as the recipe orders them
    file: FileFacts
    num_bytes: int = 0  # of the file, if `pixels` begins with its bytes, which a GPU will decode


@dataclass(frozen=True, slots=True)
class Broken:
    """An image that can't be predicted, with the reason."""

    ref: ImageRef
    reason: Reason
    detail: str
    stage: str  # read, decode, transform, model, outputs or write
    file: FileFacts = FileFacts()
    decoder: str = ""
    model_index: int | None = None  # in the handler's models, of the one that failed; None: it failed before any model

    @property
    def may_be_models_fault(self) -> bool:
        """Return whether the model or its preprocess function failed on the image."""
        return self.stage in ("transform", "model", "outputs") or self.reason is Reason.MODEL_ERROR


@dataclass(frozen=True, slots=True)
class Batch:
    """The collated samples of a chunk. Broken images have no row, so n may be 0."""

    pixels: Tensor  # (n, H, W, 3) uint8; row i belongs to samples[i]
    samples: tuple[Sample, ...]
    broken: tuple[Broken, ...]


class DetectedObject(NamedTuple):
    """An object that a detector found. Its box is a share, 0-1, of the upright picture, from the top left."""

    label: str
    class_index: int
    score: float
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Output:
    """The decoded output of the model for one image."""

    label: str | None = None  # the best class, or that of the best object
    score: float | None = None  # of the best class or object, or the number of a regression
    details: str = "{}"  # JSON, documented per kind in docs/outputs.md; encoded in the workers, which share the work
    vector: bytes | None = None  # little-endian, contiguous
    vector_dtype: str | None = None  # float32 or float16
    vector_dim: int | None = None
    objects: tuple[DetectedObject, ...] | None = None  # the best first; None unless the model detects objects


@dataclass(frozen=True, slots=True)
class Prediction:
    """The output of one model for one image."""

    ref: ImageRef
    output: Output
    sha256: str | None  # of the bytes that were predicted
    model_index: int = 0  # in the handler's models
    picture: Size | None = None  # of the upright picture


@dataclass(frozen=True, slots=True)
class NewImage:
    """An image to predict, with the indices of the run's models that it is new for."""

    ref: ImageRef
    model_indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A group of images that is dispatched, retried and committed together."""

    number: int
    refs: tuple[ImageRef, ...]
    model_indices: tuple[int, ...] = (0,)  # indices of the handler's models that the refs are new for
    slot: int | None = None  # of the ring, for its pixels
    files: tuple[FileFacts, ...] = ()  # of each ref, after it was read
    num_bytes: tuple[int, ...] = ()  # of the file in each row of its slot; 0: the row has pixels

    def of(self, refs: Iterable[ImageRef]) -> Chunk:
        """Return a chunk of some of its refs, without a slot, to be read again."""
        return Chunk(self.number, tuple(refs), self.model_indices)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A chunk whose good images are in its slot, with ref i in row i, and the result for its broken images."""

    chunk: Chunk  # its good images
    result: ChunkResult  # its broken images, and the time of loading all of them


@dataclass(frozen=True, slots=True)
class Span:
    """The time of one pass through a stage, for a trace."""

    stage: str
    start_s: float  # time.monotonic(), one clock for all processes of a machine
    wall_s: float
    cpu_s: float
    image_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """The predictions and broken images of a chunk: every ref is in one of the two, once for each model."""

    number: int
    predictions: tuple[Prediction, ...]
    broken: tuple[Broken, ...]
    model_indices: tuple[int, ...] = (0,)  # those of the chunk
    cpu_seconds: dict[str, float] = field(default_factory=dict)  # by stage, summed over the chunk
    wall_seconds: dict[str, float] = field(default_factory=dict)  # by stage, summed over the chunk
    wait_seconds: dict[str, float] = field(
        default_factory=dict
    )  # the part of the wall seconds spent waiting for storage
    worker: int = 0  # pid of its process, on a cluster with the node's number; 0: the process died
    node: str = ""  # of a cluster; empty on one machine
    spans: tuple[Span, ...] = ()  # empty unless the run is traced
    num_loaded: int | None = None  # after loading only: images whose predictions follow in another result
    num_dim: int = 0  # images of 16 bits that use at most 12 of them, and were read by depth full

    @property
    def num_images(self) -> int:
        """Return the number of images, each counted once for all models."""
        return len({ref.image_id for ref in self.refs})

    def of_model(self, model_index: int) -> ChunkResult:
        """Return the results of one model, with the measurements of the whole chunk."""
        if self.model_indices == (model_index,):
            return self
        if model_index not in self.model_indices:
            return ChunkResult(self.number, (), (), (model_index,))
        return replace(
            self,
            predictions=tuple(prediction for prediction in self.predictions if prediction.model_index == model_index),
            broken=tuple(broken for broken in self.broken if broken.model_index in (None, model_index)),
            model_indices=(model_index,),
        )

    @property
    def refs(self) -> tuple[ImageRef, ...]:
        return (*(prediction.ref for prediction in self.predictions), *(broken.ref for broken in self.broken))


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
    decode: str = "exact"  # scaled: large JPEGs at a half, a quarter or an eighth of their size; gpu: JPEGs by a GPU
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


@dataclass(frozen=True, slots=True)
class DayCounts:
    """The counts of rows for one day and model: eligible = predicted + rejected + pending."""

    eligible: int
    predicted: int
    rejected: int
    pending: int

    @property
    def balanced(self) -> bool:
        return self.eligible == self.predicted + self.rejected + self.pending

    def __add__(self, others: DayCounts) -> DayCounts:
        return DayCounts(
            self.eligible + others.eligible,
            self.predicted + others.predicted,
            self.rejected + others.rejected,
            self.pending + others.pending,
        )


@dataclass(frozen=True, slots=True)
class DayState:
    """The state of a day and model, which `database.queries.day_state` decides and everything else only renders."""

    state: str  # done, pending, running, failed or never run
    level: str  # good, attention or failed
    exit_code: int | None  # how the day ended; None while no run has ended
    notes: tuple[str, ...]  # what is not as it should be, the most severe first

    @property
    def outcome(self) -> str:
        return self.notes[0] if self.notes else self.state


def precision_name(variant: str) -> str:
    """Return the precision of a variant by its name, as --precision names it: full, half or int8.

    Any name gives one, since rows may have variants of another version of this program.
    """
    return {"int8": "int8", "fp16": "half", "bf16": "half"}.get(variant.rpartition("-")[2], "full")


def with_precision(variant: str) -> str:
    """Return a variant with its precision, as text: `cpu-openvino-bf16 (half precision)`."""
    return f"{variant} ({precision_name(variant)} precision)"


@dataclass(frozen=True, slots=True)
class PrecisionTrial:
    """How much another precision changes in the outputs of the present variant, on images of the day."""

    precision: str  # half or int8
    variant: str
    num_images: int
    label_agreement: float | None  # share of the labels that stay, 0-1; None unless it is a classification
    cosine: float  # of the worst image
    p99_score_difference: float | None
    worst_score_difference: float | None
    min_agreement: float  # of the labels or objects, or of the cosine
    meets_min_agreement: bool
    object_agreement: float | None = None  # share of the objects that stay; None unless there are any


@dataclass(frozen=True, slots=True)
class Alternative:
    """A change that makes some stages cheaper, measured on this machine."""

    what: str  # description with its setting: "--precision int8 (keeps 97.4% of the labels of 256 of your images)"
    stages: tuple[str, ...]
    ms: float  # CPU milliseconds per image of these stages with it
    instead_of: float  # CPU milliseconds per image without it, measured at the same time
    precision: str | None = None  # half or int8, if it is another precision
    trial: PrecisionTrial | None = None  # on images of the day


@dataclass(frozen=True, slots=True)
class Speedup:
    """The gain of an alternative over all stages, at the costs of a run."""

    what: str
    speedup: float  # of the whole run's rate limit
    is_advised: bool  # it is faster by more than the measurement varies, and changes no more than is allowed
    trial: PrecisionTrial | None = None

    def __str__(self) -> str:
        return f"{self.speedup:.1f} × faster overall with {self.what}"


@dataclass(frozen=True, slots=True)
class RunReport:
    """The report of one model's run over one day, as `infer run --json` prints it. Keys are added, never renamed."""

    date: date
    model: str
    model_id: str
    variant: str
    run_id: str
    executor: str
    device: str
    selected: int
    predicted: int
    rejected: int
    reasons: dict[str, int]
    day: DayCounts
    seconds: float
    images_per_second: float  # over the total time, including start-up
    steady_images_per_second: float | None  # from the first result on; None when there was only one
    limit_images_per_second: float | None
    stages: dict[str, float]  # CPU milliseconds per image
    exit_code: int
    walls: dict[str, float] = field(default_factory=dict)  # milliseconds per image, other programs' included
    waits: dict[str, float] = field(default_factory=dict)  # milliseconds per image waiting for storage and database
    limits: dict[str, float] = field(default_factory=dict)  # images per second of cores, workers and database
    limited_by: str | None = None  # a stage, storage or database; None when there was nothing to measure
    share_of_limit: float | None = None  # of the steady rate, 0-1
    advice: str | None = None  # the change that would help most; None when none was measured to help
    alternatives: tuple[Speedup, ...] = ()  # all changes that were measured, the one that helps most first
    num_cores: int = 0
    num_workers: int = 0
    passed_over: dict[str, str] = field(default_factory=dict)  # variant: why it was not chosen
    nodes: dict[str, dict[str, Any]] = field(
        default_factory=dict
    )  # of a cluster, by name: images, images_per_second, stages
    stopped: str | None = None  # why the run stopped early and left images pending; exit code 3
    bottleneck: str | None = None  # `limited_by`, or other programs; None when there were too few images to judge
    nearly_black: int = 0  # images of 16 bits that use at most 12 of them, as they were read by depth full

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"date": self.date.isoformat(), "precision": precision_name(self.variant)}
