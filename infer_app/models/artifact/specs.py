"""Define the input, the output and the tolerance of a model as frozen types, which the manifest stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infer_app.errors import UsageError

INPUT_KINDS = ("float-nchw", "uint8-nhwc")
OUTPUT_KINDS = ("classification", "embedding", "regression", "raw")
ACTIVATIONS = ("softmax", "sigmoid", "none")
VECTOR_DTYPES = ("float32", "float16")


@dataclass(frozen=True)
class InputSpec:
    """The input of the source module.

    float-nchw: normalised float32 (n, 3, H, W); uint8-nhwc: (n, H, W, 3) as decoded, the module normalises by itself.
    """

    kind: str = "float-nchw"
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)  # per channel, on the 0-1 scale
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        _one_of("input", self.kind, INPUT_KINDS)
        if not all(0 < value <= 1 for value in self.std) or not all(0 <= value <= 1 for value in self.mean):
            raise UsageError(
                f"mean {self.mean} and std {self.std} are not on the 0-1 scale",
                "divide values of the 0-255 scale by 255; std must not be zero",
            )


@dataclass(frozen=True)
class OutputSpec:
    """The meaning of one row of the model's output."""

    kind: str = "classification"
    activation: str = "softmax"  # classification; none: the module gives probabilities already
    threshold: float = 0.5  # classification with sigmoid: labels with at least this score are listed
    top_k: int = 5  # classification with softmax or none
    vector_dtype: str = "float32"  # embedding and raw
    shape: tuple[int, ...] | None = None  # raw: the shape of one image's output, found at build

    def __post_init__(self) -> None:
        _one_of("output", self.kind, OUTPUT_KINDS)
        _one_of("activation", self.activation, ACTIVATIONS)
        _one_of("vector dtype", self.vector_dtype, VECTOR_DTYPES)
        if not 0 < self.threshold < 1:
            raise UsageError(f"threshold {self.threshold} is not between 0 and 1")
        if self.top_k < 1:
            raise UsageError(f"top-k {self.top_k} is less than 1")


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


def _one_of(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"unknown {what} {value!r}", f"choose one of: {', '.join(allowed)}")
