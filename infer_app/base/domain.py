"""The frozen types that are passed between packages, with the meaning, shape and unit of each field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Flag, StrEnum, auto
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from infer_app.base.size import Size

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    import numpy as np


class ReasonFact(Flag):
    """What a reason says of the images that are rejected for it."""

    RETRIED = auto()  # transient: a later run tries again
    NOT_READ = auto()  # nothing is known of the file's content
    IN_CONTENT = auto()  # found in the content; a broken decoder, or a server's error page, gives it to good files too
    HASHED = auto()  # size and checksum of the file are known
    NOT_SHOWN = auto()  # a report does not decode the file again: it may crash, take too long or can't be read


class ReasonClass(StrEnum):
    """Where the cause of a rejection lies, and so what helps."""

    CONTENT = "content"  # of the file
    MODEL = "model"  # or a function of its own
    SETTING = "setting"  # a limit, or what this machine has
    STORAGE = "storage"  # of files or of rows


_Is, _Of = ReasonFact, ReasonClass
_UNREAD = ReasonFact.RETRIED | ReasonFact.NOT_READ  # which may be the storage's fault


class Reason(StrEnum):
    """Why an image has no prediction: a closed list, documented in docs/reasons.md.

    A worker that ends is judged by workers/retry_policy. What is rejected then, or was from the start, passes two
    filters before it is written: what the storage may be to blame for is held back by run/flow/outage_guard until
    something is read again, what the model or the decoder may be to blame for by run/flow/failure_budget until enough
    other images were seen.
    """

    of: ReasonClass
    meaning: str  # as a report says it
    facts: ReasonFact

    def __new__(cls, value: str, of: ReasonClass, meaning: str, facts: ReasonFact) -> Reason:
        reason = str.__new__(cls, value)
        reason._value_, reason.of, reason.meaning, reason.facts = value, of, meaning, facts
        return reason

    # final
    EMPTY = "empty", _Of.CONTENT, "the file has no bytes", _Is.IN_CONTENT | _Is.NOT_SHOWN
    TOO_LARGE_BYTES = "too_large_bytes", _Of.SETTING, "more bytes than allowed", _Is.NOT_SHOWN
    TOO_MANY_PIXELS = "too_many_pixels", _Of.SETTING, "more pixels than allowed", _Is.NOT_SHOWN
    UNSUPPORTED_FORMAT = (
        "unsupported_format",
        _Of.CONTENT,
        "not of a supported format",
        _Is.IN_CONTENT | _Is.HASHED,
    )
    # until the decoder is installed, then retried
    HEIC_DECODER_MISSING = "heic_decoder_missing", _Of.SETTING, "HEIC, whose decoder is not installed", _Is.HASHED
    AVIF_DECODER_MISSING = "avif_decoder_missing", _Of.SETTING, "AVIF, whose decoder is not installed", _Is.HASHED
    TRUNCATED = "truncated", _Of.CONTENT, "the file ends early", _Is.IN_CONTENT | _Is.HASHED
    CORRUPT = "corrupt", _Of.CONTENT, "damaged data", _Is.IN_CONTENT | _Is.HASHED
    DECODE_TIMEOUT = "decode_timeout", _Of.SETTING, "decoding took too long", _Is.IN_CONTENT | _Is.NOT_SHOWN
    DECODER_CRASH = "decoder_crash", _Of.CONTENT, "the decoder crashed", _Is.IN_CONTENT | _Is.NOT_SHOWN
    NON_FINITE_OUTPUT = "non_finite_output", _Of.MODEL, "the model's output is not finite", _Is.HASHED
    MODEL_ERROR = "model_error", _Of.MODEL, "the model failed on it", ReasonFact(0)
    NOT_REGULAR_FILE = "not_regular_file", _Of.CONTENT, "a folder, device or socket", ReasonFact(0)
    LOCATION_NOT_ALLOWED = (
        "location_not_allowed",
        _Of.SETTING,
        "outside the allowed folders, or a row without a location",
        _Is.NOT_READ | _Is.NOT_SHOWN,
    )
    # retried
    NOT_FOUND = "not_found", _Of.STORAGE, "no such file; retried", _UNREAD | _Is.NOT_SHOWN
    PERMISSION_DENIED = "permission_denied", _Of.STORAGE, "permission denied; retried", _UNREAD
    READ_TIMEOUT = "read_timeout", _Of.STORAGE, "reading took too long; retried", _UNREAD | _Is.NOT_SHOWN
    READ_ERROR = "read_error", _Of.STORAGE, "storage error; retried", _UNREAD
    OUT_OF_MEMORY = "out_of_memory", _Of.SETTING, "out of memory; retried", _Is.RETRIED | _Is.NOT_SHOWN
    WRITE_ERROR = "write_error", _Of.STORAGE, "its row could not be written; retried", _Is.RETRIED
    OTHER_FILE = "other_file", _Of.CONTENT, "not the file its objects were found in; retried", _Is.RETRIED | _Is.HASHED


def reasons_with(fact: ReasonFact) -> frozenset[Reason]:
    return frozenset(reason for reason in Reason if fact in reason.facts)


TRANSIENT_REASONS = reasons_with(ReasonFact.RETRIED)
NOT_READ = reasons_with(ReasonFact.NOT_READ)
IN_CONTENT = reasons_with(ReasonFact.IN_CONTENT)
_OF_MODEL = frozenset(reason for reason in Reason if reason.of is ReasonClass.MODEL)
READ_FAILURES = reasons_with(_UNREAD)
# Final until this module is there; then every image that was rejected for it is new again (packages.retried_reasons).
DECODER_MODULES = {Reason.HEIC_DECODER_MISSING: "_pillow_heif", Reason.AVIF_DECODER_MISSING: "PIL._avif"}
MAX_ATTEMPTS = 3  # of a transient reason, but for those below
# A look at the file costs nothing, and no time or size of it tells that it may be read again: each run that covers the
# day tries.
WITHOUT_LIMIT = frozenset({Reason.NOT_FOUND, Reason.PERMISSION_DENIED})
ATTEMPT_INTERVAL_H = 12  # runs within it are one attempt: an outage lasts longer than a few retries


def may_be_models_fault(reason: str, stage: str) -> bool:
    """Return whether the model or its preprocess function failed on an image that was rejected so."""
    return stage in ("transform", "model", "outputs") or reason in _OF_MODEL


class OutputKind(StrEnum):
    """The meaning of one output of a model, as docs/outputs.md documents it."""

    CLASSIFICATION = "classification"
    DETECTION = "detection"
    EMBEDDING = "embedding"
    REGRESSION = "regression"
    RAW = "raw"


MAX_CLASS = 99_999  # of a detector, so that a wrong column is not taken for classes
MULTI_LABEL = ("sigmoid", "sigmoid-applied")  # activations of classifiers that give a score of its own to each label


ROW = "row:"  # begins the location, row:ID@TIME, of an image whose bytes are in a column of the source


@dataclass(frozen=True, slots=True)
class ImageRef:
    """The reference to an image, which is all that is sent to a worker."""

    image_id: str
    location: str


class TimeOrigin(StrEnum):
    """Name what states when a picture was taken."""

    COLUMN = "column"  # of the source, named by [source] taken
    EXIF = "exif"  # DateTimeOriginal
    DIGITIZED = "digitized"  # EXIF's DateTimeDigitized
    NAME = "name"  # of the file
    SOURCE = "source"  # the time that decides its day, in a table of the user's: no time of its own
    NOTHING = "none"


class CaptureTime(NamedTuple):
    """When a picture was taken, as it is stated."""

    at: datetime | None  # by the camera's own clock, without a zone
    offset: timedelta | None = None  # of that clock from UTC, if it is stated too
    origin: TimeOrigin = TimeOrigin.EXIF

    @property
    def is_of_file(self) -> bool:
        """Return whether the file itself states it."""
        return self.origin in (TimeOrigin.EXIF, TimeOrigin.DIGITIZED)

    def timestamp(self, zone: ZoneInfo) -> float | None:
        """Return seconds since the epoch; a time without an offset is one of `zone`."""
        if self.at is None or self.offset is None:
            return None if self.at is None else self.at.replace(tzinfo=zone).timestamp()
        return self.at.replace(tzinfo=UTC).timestamp() - self.offset.total_seconds()  # of any year


NO_TIME = CaptureTime(None, None, TimeOrigin.NOTHING)  # of a file that states none


class PictureFigures(NamedTuple):
    """Describes what a decoded picture looks like, whatever the model and its recipe."""

    brightness: float  # mean, 0-255; this and the two below are of green
    contrast: float  # standard deviation
    sharpness: float  # mean absolute difference of points that are 1/200 of the width apart
    look: int  # signed 64 bits: whether each of 8 x 8 parts is brighter than the one left of it


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The facts of an image's file; None where they could not be read."""

    size: int | None = None  # bytes
    modified: float | None = None  # seconds since the epoch
    sha256: str | None = None
    picture: Size | None = None  # of the upright picture, once it was decoded
    taken: CaptureTime | None = None  # None: it was not read
    figures: PictureFigures | None = None  # None: not measured, or the picture is too small


class ImageFile(NamedTuple):
    """A file or object, or the location under which it is registered."""

    location: str
    size: int | None = None  # bytes
    modified: float | None = None  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class Sample:
    """A loaded image with its pixels, ready for the model."""

    ref: ImageRef
    pixels: np.ndarray | None  # (H, W, 3) uint8, channels as the recipe orders them; None: no network takes the picture
    file: FileFacts
    picture: np.ndarray | None = None  # (height, width, 3) uint8 RGB, upright and whole; only for second networks


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
    def problem(self) -> str:
        """Return the reason and the detail, for people."""
        return f"{self.reason}: {self.detail}"

    @property
    def may_be_models_fault(self) -> bool:
        """Return whether the model or its preprocess function failed on the image."""
        return may_be_models_fault(self.reason, self.stage)

    def for_second_network(self, model_index: int, detector: str) -> Broken:
        """Return why a second network has no result of an image that its detector rejected.

        The detail names the detector if its network failed, and not if the picture can't be loaded for any model.
        """
        detail = f"{detector}: {self.detail}" if self.stage in ("model", "outputs") else self.detail
        return replace(self, detail=detail, model_index=model_index)


@dataclass(frozen=True, slots=True)
class Batch:
    """The collated samples of a chunk. Broken images have no row, so n may be 0."""

    pixels: np.ndarray  # (n, H, W, 3) uint8; row i belongs to samples[i]
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


class FoundObject(NamedTuple):
    """An object with its place in the image, from 0 for the best, and its number of infer_objects once it is stored."""

    place: int
    one: DetectedObject
    number: int | None = None


Objects: TypeAlias = tuple[FoundObject, ...]  # of one image


class StoredObjects(NamedTuple):
    """The objects of an image that the detector has predicted before."""

    objects: Objects
    sha256: str | None  # of the bytes in which they were found


@dataclass(frozen=True, slots=True)
class Output:
    """The decoded output of the model for one image, or of a second network for one object."""

    label: str | None = None  # the best class, or that of the best object
    score: float | None = None  # of the best class or object, or the number of a regression
    details: str = "{}"  # JSON, as docs/outputs.md has it for each kind; encoded in the workers, which share the work
    vector: bytes | None = None  # little-endian, contiguous
    vector_dtype: str | None = None  # float32 or float16
    vector_dim: int | None = None
    objects: tuple[DetectedObject, ...] | None = None  # the best first; None unless the model detects objects
    crops: tuple[CropOutput, ...] | None = None  # by the object's place; None unless it is a second network

    @property
    def num_objects(self) -> int | None:
        """Return the number of objects that were found, or that a second network takes."""
        rows = self.crops if self.objects is None else self.objects
        return None if rows is None else len(rows)


class CropOutput(NamedTuple):
    """The output of a second network for one object of the detector that it belongs to."""

    object: int  # its place in the picture
    output: Output
    number: int | None = None  # of infer_objects, if it was stored before


@dataclass(frozen=True, slots=True)
class Prediction:
    """The output of one model for one image."""

    ref: ImageRef
    output: Output
    file: FileFacts = FileFacts()  # of the bytes that were predicted
    model_index: int = 0  # in the handler's models


@dataclass(frozen=True, slots=True)
class NewImage:
    """An image to predict, with the indices of the run's models that it is new for."""

    ref: ImageRef
    model_indices: tuple[int, ...]
    objects: StoredObjects | None = None  # for second networks, where the detector has predicted the image already
    picture: int | None = None  # the number of its picture; None: it has no row yet


@dataclass(frozen=True, slots=True)
class Chunk:
    """A group of images that is dispatched, retried and committed together."""

    number: int
    refs: tuple[ImageRef, ...]
    model_indices: tuple[int, ...] = (0,)  # indices of the handler's models that the refs are new for
    slot: int | None = None  # of the ring, for its pixels
    files: tuple[FileFacts, ...] = ()  # of each ref, after it was read
    objects: Mapping[ImageRef, StoredObjects] = field(default_factory=dict, hash=False)  # for second networks

    def of(self, refs: Iterable[ImageRef], model_indices: tuple[int, ...] = ()) -> Chunk:
        """Return a chunk of some of its refs, for all or some of its models, without a slot, to be read again."""
        refs = tuple(refs)
        objects = {ref: self.objects[ref] for ref in refs} if self.objects else {}
        return Chunk(self.number, refs, model_indices or self.model_indices, objects=objects)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A chunk whose good images are in its slot, with ref i in row i, and the result for its broken images."""

    chunk: Chunk  # its good images
    result: ChunkResult  # its broken images, and the time of loading all of them


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """The predictions and broken images of a chunk: every ref is in one of the two, once for each model."""

    number: int
    predictions: tuple[Prediction, ...]
    broken: tuple[Broken, ...]
    model_indices: tuple[int, ...] = (0,)  # those of the chunk
    cpu_seconds: dict[str, float] = field(default_factory=dict)  # by stage, summed over the chunk
    wall_seconds: dict[str, float] = field(default_factory=dict)  # by stage, summed over the chunk
    wait_seconds: dict[str, float] = field(default_factory=dict)  # of the wall seconds, those of waiting for storage
    worker: int = 0  # pid of its process, on a cluster with the node's number; 0: the process died
    node: str = ""  # of a cluster; empty on one machine
    num_loaded: int | None = None  # after loading only: images whose predictions follow in another result
    num_dim: int = 0  # images of 16 bits that use at most 12 of them, and were read by depth full

    @classmethod
    def of(
        cls, number: int, results: Sequence[Prediction | Broken], model_indices: tuple[int, ...] = (0,)
    ) -> ChunkResult:
        """Return the result of a chunk, without measurements."""
        predictions = tuple(one for one in results if isinstance(one, Prediction))
        return cls(number, predictions, tuple(one for one in results if isinstance(one, Broken)), model_indices)

    @property
    def num_images(self) -> int:
        """Return the number of images, each counted once for all models."""
        return len({*self.refs})

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

    def without(self, refs: frozenset[ImageRef]) -> ChunkResult:
        """Return the results of the other images, with the measurements of the whole chunk."""
        if not refs:
            return self
        predictions = tuple(one for one in self.predictions if one.ref not in refs)
        return replace(self, predictions=predictions, broken=tuple(one for one in self.broken if one.ref not in refs))

    @property
    def num_asked(self) -> int:
        """Return the number of images that a network was given: a second network gets none without an object."""
        return replace(self, predictions=tuple(one for one in self.predictions if one.output.crops != ())).num_images

    @property
    def refs(self) -> tuple[ImageRef, ...]:
        return (*(prediction.ref for prediction in self.predictions), *(broken.ref for broken in self.broken))
