"""Check a model with golden images: it must still give the outputs of the build before it may write."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from infer_app.errors import ModelError
from infer_app.images.read.bad_image import BadImage
from infer_app.models.artifact.artifact import Artifact
from infer_app.models.artifact.manifest import GOLDEN_OUTPUTS_FILE, GOLDEN_PIXELS_FILE
from infer_app.models.artifact.specs import OutputSpec, Tolerance
from infer_app.models.verification.outputs import class_scores, decode_outputs

CHECK_BATCH = 4  # images
LABEL_MARGIN = 0.05  # relative to the largest output: 2 levels of a pixel may swap two classes that are closer

_HINT = "nothing was written; try `infer model verify`, then rebuild the model or the variant on this machine"


@dataclass(frozen=True)
class Parity:
    """How near outputs are to the expected ones."""

    num_images: int
    cosine: float  # of the worst image
    label_agreement: float  # share of images whose largest output is the same, 0-1
    worst_difference: float  # absolute
    relative_difference: float  # worst_difference divided by the largest expected output
    worst_score_difference: float | None = None  # of the expected label's score, 0-1; None without classes
    p99_score_difference: float | None = None  # its 99th percentile

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}


def measure_parity(expected: Tensor, actual: Tensor, output: OutputSpec | None = None) -> Parity:
    """Compare (n, D) outputs, and their scores if `output` is a classification.

    NaN in either gives NaN figures, which pass no tolerance.
    """
    expected, actual = expected.double(), actual.double()
    worst = (actual - expected).abs().max().item()
    scale = expected.abs().max().item()
    return Parity(
        num_images=expected.shape[0],
        cosine=_cosines(expected, actual).min().item(),
        label_agreement=(expected.argmax(1) == actual.argmax(1)).double().mean().item(),
        worst_difference=worst,
        relative_difference=worst / max(scale, 1e-12),
        **_score_differences(expected, actual, output),
    )


def _score_differences(expected: Tensor, actual: Tensor, output: OutputSpec | None) -> dict[str, float]:
    if output is None or output.kind != "classification":
        return {}
    best = expected.argmax(1, keepdim=True)
    theirs, ours = (class_scores(rows, output.activation).gather(1, best) for rows in (expected, actual))
    differences = (ours - theirs).abs().flatten()
    return {
        "worst_score_difference": differences.max().item(),
        "p99_score_difference": differences.quantile(0.99).item(),
    }


def check_golden(
    artifact: Artifact,
    load_pixels: Callable[[bytes], Tensor],
    predict: Callable[[Tensor], Tensor],
    variant: str | None = None,
    batch_size: int = CHECK_BATCH,
    pixel_levels: int | None = None,
) -> None:
    """Raise ModelError if the whole path, from bytes to label, no longer gives what it gave at build.

    `load_pixels` is the caller's own decoding and transform, bytes to (H, W, 3) uint8; `predict` is its model, at
    most `batch_size` rows of them to (n, D). There are three steps, so that a small difference of the pixels can't hide
    a difference of the model: the pixels; the outputs for the golden pixels; the labels for the pixels as loaded.
    `pixel_levels` may be more than the model's own if another decoder is known to differ.
    """
    tolerance = artifact.manifest.tolerance_of(variant)
    levels = tolerance.pixel_levels if pixel_levels is None else pixel_levels
    expected_pixels, expected = golden_pixels(artifact), golden_outputs(artifact)
    pixels = torch.stack(
        [
            _checked_pixels(_loaded(load_pixels, artifact.read(path), number), expected_pixels[number], levels, number)
            for number, path in enumerate(artifact.manifest.golden)
        ]
    )
    _check_outputs(expected, predict_all(predict, expected_pixels, batch_size), tolerance)
    actual = predict_all(predict, pixels, batch_size)
    _check_labels(expected, actual, artifact.manifest.output, artifact.labels, max(LABEL_MARGIN, tolerance.relative))


def predict_all(predict: Callable[[Tensor], Tensor], pixels: Tensor, batch_size: int) -> Tensor:
    """Compute the outputs for any number of pictures with a model that takes at most `batch_size`: (n, D)."""
    return torch.cat([predict(batch) for batch in torch.split(pixels, batch_size)]).cpu()


def golden_pixels(artifact: Artifact) -> Tensor:
    """Return the pixels of the golden images as Pillow decodes them, (n, H, W, 3) uint8."""
    return torch.from_numpy(load_array(artifact.read(GOLDEN_PIXELS_FILE)))


def golden_outputs(artifact: Artifact) -> Tensor:
    """Return the source's outputs for the golden pixels, (n, num_outputs) float32."""
    return torch.from_numpy(load_array(artifact.read(GOLDEN_OUTPUTS_FILE)))


def save_array(array: np.ndarray) -> bytes:
    """Return an array as the bytes of a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def load_array(data: bytes) -> np.ndarray:
    """Return the array in the bytes of a .npy file."""
    array: np.ndarray = np.load(io.BytesIO(data), allow_pickle=False)
    return array


def _loaded(load_pixels: Callable[[bytes], Tensor], data: bytes, number: int) -> Tensor:
    """Load a golden image. Raises ModelError if that fails: a decoder or the preprocess function does not work here."""
    try:
        return load_pixels(data)
    except BadImage as bad:
        raise _failed(number, bad.detail or str(bad.reason)) from bad


def _checked_pixels(actual: Tensor, expected: Tensor, allowed: int, number: int) -> Tensor:
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        raise _failed(number, f"pixels are {_describe(actual)} instead of {_describe(expected)}")
    levels = int((actual.short() - expected.short()).abs().max())
    if levels > allowed:
        raise _failed(number, f"a pixel differs by {levels} levels, {allowed} are allowed")
    return actual


def _check_outputs(expected: Tensor, actual: Tensor, tolerance: Tolerance) -> None:
    if actual.shape != expected.shape:
        raise ModelError(
            f"golden check failed: outputs are {_describe(actual)} instead of {_describe(expected)}", _HINT
        )
    scale = expected.abs().max().clamp_min(1e-12)
    relative = ((actual - expected).abs().amax(1) / scale).tolist()
    for number, (difference, cosine) in enumerate(zip(relative, _cosines(expected, actual).tolist(), strict=True)):
        if not difference <= tolerance.relative:  # written so that NaN fails
            raise _failed(
                number, f"outputs differ by {difference:.2g} of the largest, not {tolerance.relative:g} at most"
            )
        if not cosine >= tolerance.cosine:
            raise _failed(number, f"outputs have cosine {cosine:.5f}, at least {tolerance.cosine:g} is needed")


def _check_labels(
    expected: Tensor, actual: Tensor, spec: OutputSpec, labels: tuple[str, ...], margin_share: float
) -> None:
    if spec.kind != "classification":
        return
    margin = margin_share * expected.abs().max()
    rows = zip(decode_outputs(expected, spec, labels), decode_outputs(actual, spec, labels), strict=True)
    for number, (theirs, ours) in enumerate(rows):
        if theirs is None or ours is None:
            raise _failed(number, "outputs are not finite")
        best = expected[number].max()
        if theirs.label != ours.label and best - expected[number, actual[number].argmax()] > margin:
            raise _failed(number, f"labelled {ours.label!r} instead of {theirs.label!r}")


def _cosines(expected: Tensor, actual: Tensor) -> Tensor:
    """Return the cosine of each row, (n,); 1 for rows of a single number, which have no direction."""
    if expected.shape[1] == 1:
        return torch.where(actual.isfinite(), 1.0, torch.nan).flatten()
    return torch.nn.functional.cosine_similarity(expected.double(), actual.double(), dim=1)


def _describe(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def _failed(number: int, what: str) -> ModelError:
    return ModelError(f"golden check failed: image {number + 1}: {what}", _HINT)
