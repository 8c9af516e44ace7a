"""Check a model with golden images: it must still give the outputs of the build before it may write."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from infer_app.errors import ModelChanged, ModelError, PixelsChanged
from infer_app.images.read.bad_image import BadImage
from infer_app.model_variants import variant_of
from infer_app.models.artifact.activation import check_activation, class_scores
from infer_app.models.artifact.artifact import Artifact
from infer_app.models.artifact.manifest import GOLDEN_OUTPUTS_FILE, GOLDEN_PIXELS_FILE
from infer_app.models.artifact.specs import OutputSpec, Tolerance
from infer_app.models.detection.heads import class_outputs, comparable_parts
from infer_app.models.detection.object_decoder import split_outputs
from infer_app.models.verification.object_parity import (
    EXACT_OBJECT,
    SAME_OBJECT,
    compared_score,
    count_found,
    find_missing,
    find_objects,
    measure_agreement,
)
from infer_app.models.verification.outputs import decode_outputs

CHECK_BATCH = 4  # images
LABEL_MARGIN = 0.05  # relative to the largest output: 2 levels of a pixel may swap two classes that are closer
OBJECT_SCORE = 0.01  # largest difference of an object's score in fp32, for the same pixels
BEST_OBJECTS = 10  # of an image, whose boxes are compared whatever their scores
FEWEST_BEST = 5  # of all golden images; of fewer, one whose score is at the network's own minimum decides
# How much less of them than at the build may be found, in fp32 and in another dtype: close scores may swap.
BEST_LOST, BEST_LOST_ROUNDED = 0.2, 0.5
LOWEST_SCORE = 1e-3  # of these; rows with less fill up the outputs
_SMALLEST_SCALE = 0.01  # of a part of a detector's outputs; lower scores than this are never stored

_HINT = "nothing was written; try `infer model verify`, then rebuild the model or the variant on this machine"


@dataclass(frozen=True)
class Parity:
    """How near outputs are to the expected ones."""

    num_images: int
    cosine: float  # of the worst image
    label_agreement: float | None  # share of images whose largest output is the same, 0-1; None for detectors
    worst_difference: float  # absolute; of a detector relative to the largest of its part of the outputs
    relative_difference: float  # worst_difference divided by the largest expected output
    worst_score_difference: float | None = None  # of the expected label or objects, 0-1; None without classes
    p99_score_difference: float | None = None  # its 99th percentile
    num_objects: int | None = None  # expected from COMPARED_SCORE on; None unless the model detects objects
    object_agreement: float | None = (
        None  # share of them that is kept, or 1 less the share that is new; None: no objects
    )
    best_kept: float | None = None  # share of the golden images' best objects; None: too few, or not compared

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Parity:
        return cls(**{"label_agreement": None, **values})


def measure_parity(
    expected: Tensor, actual: Tensor, artifact: Artifact | None = None, min_iou: float = SAME_OBJECT
) -> Parity:
    """Compare (n, D) outputs, and the scores and objects of the `artifact` if it is a classifier or a detector.

    NaN in either gives NaN figures, which pass no tolerance. Objects are the same if they overlap by `min_iou`.
    """
    output = artifact.manifest.output if artifact else None
    theirs, ours, scale = _comparable(expected, actual, output)
    worst = (ours - theirs).abs().max().item()
    agreement, figures = None, dict[str, Any]()
    if artifact is not None and output is not None and output.detection is not None:
        figures = _object_figures(artifact, expected, actual, min_iou)
    else:
        agreement = (theirs.argmax(1) == ours.argmax(1)).double().mean().item()
        figures = _score_differences(theirs, ours, output)
    return Parity(
        num_images=expected.shape[0],
        cosine=_cosines(theirs, ours).min().item(),
        label_agreement=agreement,
        worst_difference=worst,
        relative_difference=worst / max(scale, 1e-12),
        **figures,
    )


def golden_parity(artifact: Artifact, actual: Tensor, min_iou: float = SAME_OBJECT) -> Parity:
    """Compare a variant's outputs for the golden pixels with the source's; the best objects with what runs require."""
    expected = golden_outputs(artifact)
    parity = measure_parity(expected, actual, artifact, min_iou)
    if not _compares_best_objects(artifact.manifest.output):
        return parity
    found, num_best = _count_best_objects(artifact, expected, actual, is_exact=min_iou == EXACT_OBJECT)
    return replace(parity, best_kept=found / num_best) if num_best >= FEWEST_BEST else parity


def _comparable(expected: Tensor, actual: Tensor, output: OutputSpec | None) -> tuple[Tensor, Tensor, float]:
    """Return the numbers to compare, and what their difference is relative to.

    A detector's rows mix pixels and scores, so each part is divided by the largest number expected in it.
    """
    expected, actual = expected.double(), actual.double()
    if output is None or output.detection is None:
        return expected, actual, expected.abs().max().item()
    detection = output.detection
    theirs, ours = (
        comparable_parts(split_outputs(rows, detection.shapes), detection, output.activation)
        for rows in (expected, actual)
    )
    scales = [part.abs().max().clamp_min(_SMALLEST_SCALE) for part in theirs]
    first, second = (
        torch.cat([part / scale for part, scale in zip(parts, scales, strict=True)], 1) for parts in (theirs, ours)
    )
    return first, second, 1.0


def _object_figures(artifact: Artifact, expected: Tensor, actual: Tensor, min_iou: float) -> dict[str, Any]:
    assert artifact.manifest.output.detection is not None
    theirs, ours = (find_objects(artifact, rows) for rows in (expected, actual))
    found = measure_agreement(theirs, ours, compared_score(artifact.manifest.output.detection), min_iou)
    figures = {"num_objects": found.num_objects, "object_agreement": found.agreement}
    return figures | _differences(torch.tensor(found.score_differences)) if found.score_differences else figures


def _score_differences(expected: Tensor, actual: Tensor, output: OutputSpec | None) -> dict[str, float]:
    if output is None or output.kind != "classification":
        return {}
    best = expected.argmax(1, keepdim=True)
    theirs, ours = (class_scores(rows, output.activation).gather(1, best) for rows in (expected, actual))
    return _differences((ours - theirs).flatten())


def _differences(differences: Tensor) -> dict[str, float]:
    sizes = differences.double().abs()
    return {
        "worst_score_difference": sizes.max().item(),
        "p99_score_difference": sizes.quantile(0.99).item(),
    }


def check_golden(
    artifact: Artifact,
    load_pixels: Callable[[bytes], Tensor],
    predict: Callable[[Tensor], Tensor],
    variant: str | None = None,
    batch_size: int = CHECK_BATCH,
) -> None:
    """Raise PixelsChanged or ModelChanged if the path from bytes to labels or objects gives other ones than at build.

    `load_pixels` is the caller's own decoding and transform, bytes to (H, W, 3) uint8; `predict` is its model, at
    most `batch_size` rows of them to (n, D). There are three steps, so that a small difference of the pixels can't hide
    a difference of the model: the pixels; the outputs for the golden pixels; the labels or objects for the pixels as
    loaded, which differ only if these pixels do.
    """
    tolerance = artifact.manifest.tolerance_of(variant)
    levels = tolerance.pixel_levels
    expected_pixels, expected = golden_pixels(artifact), golden_outputs(artifact)
    pixels = torch.stack(
        [
            _checked_pixels(_loaded(load_pixels, artifact.read(path), number), expected_pixels[number], levels, number)
            for number, path in enumerate(artifact.manifest.golden)
        ]
    )
    output, is_detector = artifact.manifest.output, artifact.manifest.output.detection is not None
    if is_detector and (classes := golden_classes(artifact)) is not None and output.activation == "none":
        check_activation(classes, "none")  # an earlier release took it for a softmax, under the same id
    actual = predict_all(predict, expected_pixels, batch_size)
    _check_outputs(expected, actual, output, tolerance)
    is_exact = variant_of(variant or "").is_exact
    if is_detector and is_exact:
        _check_objects(artifact, expected, actual, OBJECT_SCORE, ModelChanged, is_exact=True)
    if _compares_best_objects(output):
        _check_best_objects(artifact, expected, actual, variant, is_exact=is_exact)
    actual = predict_all(predict, pixels, batch_size)
    margin = max(LABEL_MARGIN, tolerance.relative)
    if is_detector:
        _check_objects(artifact, expected, actual, margin, PixelsChanged)
    else:
        _check_labels(expected, actual, output, artifact.labels, margin)


def predict_all(predict: Callable[[Tensor], Tensor], pixels: Tensor, batch_size: int) -> Tensor:
    """Compute the outputs for any number of pictures with a model that takes at most `batch_size`: (n, D)."""
    return torch.cat([predict(batch) for batch in torch.split(pixels, batch_size)]).cpu()


def golden_pixels(artifact: Artifact) -> Tensor:
    """Return the pixels of the golden images as Pillow decodes them, (n, H, W, 3) uint8."""
    return torch.from_numpy(load_array(artifact.read(GOLDEN_PIXELS_FILE)))


def golden_outputs(artifact: Artifact) -> Tensor:
    """Return the source's outputs for the golden pixels, (n, num_outputs) float32."""
    return torch.from_numpy(load_array(artifact.read(GOLDEN_OUTPUTS_FILE)))


def golden_classes(artifact: Artifact) -> Tensor | None:
    """Return the golden outputs that the model's activation is for, (…, classes); None if it is for none."""
    output = artifact.manifest.output
    if output.kind == "classification":
        return golden_outputs(artifact)
    if output.detection is None or output.detection.head != "detr":
        return None
    return class_outputs(split_outputs(golden_outputs(artifact), output.detection.shapes), output.detection.head)


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
    """Load a golden image. Raises PixelsChanged if a decoder or the preprocess function does not work here."""
    try:
        return load_pixels(data)
    except BadImage as bad:
        raise _failed(number, bad.detail or str(bad.reason), PixelsChanged) from bad


def _checked_pixels(actual: Tensor, expected: Tensor, allowed: int, number: int) -> Tensor:
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        raise _failed(number, f"pixels are {_describe(actual)} instead of {_describe(expected)}", PixelsChanged)
    levels = int((actual.short() - expected.short()).abs().max())
    if levels > allowed:
        raise _failed(number, f"a pixel differs by {levels} levels, {allowed} are allowed", PixelsChanged)
    return actual


def _check_outputs(expected: Tensor, actual: Tensor, output: OutputSpec, tolerance: Tolerance) -> None:
    if actual.shape != expected.shape:
        raise ModelChanged(
            f"golden check failed: outputs are {_describe(actual)} instead of {_describe(expected)}", _HINT
        )
    expected, actual, scale = _comparable(expected, actual, output)
    relative = ((actual - expected).abs().amax(1) / max(scale, 1e-12)).tolist()
    for number, (difference, cosine) in enumerate(zip(relative, _cosines(expected, actual).tolist(), strict=True)):
        if not difference <= tolerance.relative:  # written so that NaN fails
            what = f"outputs differ by {difference:.2g} of the largest, not {tolerance.relative:g} at most"
            raise _failed(number, what, ModelChanged)
        if not cosine >= tolerance.cosine:
            what = f"outputs have cosine {cosine:.5f}, at least {tolerance.cosine:g} is needed"
            raise _failed(number, what, ModelChanged)


def _check_labels(
    expected: Tensor, actual: Tensor, spec: OutputSpec, labels: tuple[str, ...], margin_share: float
) -> None:
    if spec.kind != "classification":
        return
    margin = margin_share * expected.abs().max()
    rows = zip(decode_outputs(expected, spec, labels), decode_outputs(actual, spec, labels), strict=True)
    for number, (theirs, ours) in enumerate(rows):
        if theirs is None or ours is None:
            raise _failed(number, "outputs are not finite", PixelsChanged)
        best = expected[number].max()
        if theirs.label != ours.label and best - expected[number, actual[number].argmax()] > margin:
            raise _failed(number, f"labelled {ours.label!r} instead of {theirs.label!r}", PixelsChanged)


def _check_objects(
    artifact: Artifact,
    expected: Tensor,
    actual: Tensor,
    margin: float,
    error: type[ModelError],
    *,
    is_exact: bool = False,
) -> None:
    """Raise `error` for an object that is expected and not found, or found and not expected."""
    detection, labels = artifact.manifest.output.detection, artifact.labels
    assert detection is not None
    images = zip(find_objects(artifact, expected), find_objects(artifact, actual), strict=True)
    for number, (theirs, ours) in enumerate(images):
        if theirs is None or ours is None:
            raise _failed(number, "outputs are not finite, or the head fails on them", error)
        for first, second, what in ((theirs, ours, "is not found any more"), (ours, theirs, "was not found at build")):
            found = find_missing(first, second, detection, margin, is_exact=is_exact)
            if found is not None:
                index = int(found[5])
                label = labels[index] if index < len(labels) else str(index)
                raise _failed(number, f"an object {label!r} with score {found[4]:.2f} {what}", error)


def _compares_best_objects(output: OutputSpec) -> bool:
    """Return whether the order of the outputs decides nothing; of other detectors all numbers are compared in place."""
    return output.detection is not None and not (output.detection.suppresses or output.detection.is_own)


def _check_best_objects(
    artifact: Artifact, expected: Tensor, actual: Tensor, variant: str | None, *, is_exact: bool
) -> None:
    """Raise ModelChanged if fewer of the golden images' best objects are found again than at the build.

    Golden images without any object still have boxes of low scores, which tell other coordinates or classes. Where
    scores are that close, rounding may choose another box, so a few may be missing. A variant of which the build
    measured no share is compared in fp32 only.
    """
    found, num_best = _count_best_objects(artifact, expected, actual, is_exact=is_exact)
    parity = artifact.manifest.variants.get(variant or "", {}).get("parity", {})
    kept = parity.get("best_kept", 1.0 if is_exact else 0.0)
    if num_best >= FEWEST_BEST and found < (kept - (BEST_LOST if is_exact else BEST_LOST_ROUNDED)) * num_best:
        what = "boxes, scores and classes" if is_exact else "boxes"
        raise ModelChanged(
            f"golden check failed: of the golden images' {num_best} best objects {found} have the same {what}", _HINT
        )


def _count_best_objects(artifact: Artifact, expected: Tensor, actual: Tensor, *, is_exact: bool) -> tuple[int, int]:
    """Return how many of the best objects are found again, whatever their scores, and how many there are.

    Raises ModelChanged for outputs without a finite value.
    """
    num_found = num_best = 0
    pairs = zip(*(find_objects(artifact, rows, LOWEST_SCORE) for rows in (expected, actual)), strict=True)
    for number, (theirs, ours) in enumerate(pairs):
        if theirs is None or ours is None:
            raise _failed(number, "outputs are not finite, or the head fails on them", ModelChanged)
        best = theirs[:BEST_OBJECTS]
        num_best += len(best)
        num_found += count_found(best, ours, OBJECT_SCORE, is_exact=is_exact)
    return num_found, num_best


def _cosines(expected: Tensor, actual: Tensor) -> Tensor:
    """Return the cosine of each row, (n,); 1 for rows of a single number, which have no direction."""
    if expected.shape[1] == 1:
        return torch.where(actual.isfinite(), 1.0, torch.nan).flatten()
    cosines = torch.nn.functional.cosine_similarity(expected.double(), actual.double(), dim=1)
    return cosines.where(expected.any(1) | actual.any(1), 1.0)  # no direction either: a detector that finds nothing


def _describe(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def _failed(number: int, what: str, error: type[ModelError]) -> ModelError:
    return error(f"golden check failed: image {number + 1}: {what}", _HINT)
