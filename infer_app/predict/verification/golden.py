"""Check a model with golden images: it must still give the outputs of the build before it may write."""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.manifest import GOLDEN_OUTPUTS_FILE, GOLDEN_PIXELS_FILE
from infer_app.artifact.specs import OutputSpec, Tolerance
from infer_app.base.errors import ModelChanged, ModelError, PixelsChanged
from infer_app.base.model_variants import variant_of
from infer_app.predict.detection.heads import FAMILIES
from infer_app.predict.detection.object_decoder import split_outputs
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.verification.object_parity import (
    EXACT_OBJECT,
    SAME_OBJECT,
    Objects,
    count_found,
    find_missing,
    find_objects,
)
from infer_app.predict.verification.outputs import decode_outputs
from infer_app.predict.verification.parity import Parity, comparable, cosines, measure_parity

CHECK_BATCH = 4  # images
LABEL_MARGIN = 0.05  # relative to the largest output: 2 levels of a pixel may swap two classes that are closer
OBJECT_SCORE = 0.01  # largest difference of an object's score in fp32, for the same pixels
BEST_OBJECTS = 10  # of an image, whose boxes are compared whatever their scores
FEWEST_BEST = 5  # of all golden images; of fewer, one whose score is at the network's own minimum decides
# How much less of them than at the build may be found, in fp32 and in another dtype: close scores may swap.
BEST_LOST, BEST_LOST_ROUNDED = 0.2, 0.5
LOWEST_SCORE = 1e-3  # of these; rows with less fill up the outputs

_HINT = "nothing was written; try `infer model verify`, then rebuild the model or the variant on this machine"


def golden_parity(artifact: Artifact, actual: np.ndarray, min_iou: float = SAME_OBJECT) -> Parity:
    """Compare a variant's outputs for the golden pixels with the source's; the best objects with what runs require."""
    expected = golden_outputs(artifact)
    parity = measure_parity(expected, actual, artifact, min_iou)
    if not compares_best_objects(artifact.manifest.output):
        return parity
    found, num_best = _count_best_objects(artifact, expected, actual, is_exact=min_iou == EXACT_OBJECT)
    return replace(parity, best_kept=found / num_best) if num_best >= FEWEST_BEST else parity


def check_golden(
    artifact: Artifact,
    load_pixels: Callable[[bytes], np.ndarray],
    predict: Callable[[np.ndarray], np.ndarray],
    variant: str | None = None,
    batch_size: int = CHECK_BATCH,
    numbers: Sequence[int] | None = None,
) -> None:
    """Raise PixelsChanged or ModelChanged if the path from bytes to labels or objects gives other ones than at build.

    `load_pixels` is the caller's own decoding and transform, bytes to (H, W, 3) uint8; `predict` is its model, at
    most `batch_size` rows of them to (n, D). `numbers` are those of the images to check; None: all. There are three
    steps, so that a small difference of the pixels can't hide a difference of the model: the pixels; the outputs for
    the golden pixels; the labels or objects for the pixels as loaded, which are computed again only where these differ.
    """
    tolerance, output = artifact.manifest.tolerance_of(variant), artifact.manifest.output
    paths = artifact.manifest.golden
    numbers = range(len(paths)) if numbers is None else numbers
    of_build = golden_outputs(artifact)  # of all images, by which differences are judged
    expected_pixels, expected = golden_pixels(artifact)[numbers], of_build[numbers]
    loaded = [
        _load(load_pixels, artifact.read(paths[number]), pixels, tolerance.pixel_levels, number)
        for number, pixels in zip(numbers, expected_pixels, strict=True)
    ]
    actual = predict_all(predict, expected_pixels, batch_size)
    _check_outputs(expected, actual, output, tolerance, numbers, comparable(of_build, of_build, output)[2])
    is_exact = variant_of(variant or "").is_exact
    if output.detection and is_exact:
        _check_objects(artifact, expected, actual, numbers, OBJECT_SCORE, ModelChanged, is_exact=True)
    if compares_best_objects(output):
        _check_best_objects(artifact, expected, actual, variant, is_exact=is_exact)
    differing = [place for place, pixels in enumerate(loaded) if not np.array_equal(pixels, expected_pixels[place])]
    if differing:
        actual[differing] = predict_all(predict, np.stack([loaded[place] for place in differing]), batch_size)
    margin = max(LABEL_MARGIN, tolerance.relative)
    if output.detection:
        _check_objects(artifact, expected, actual, numbers, margin, PixelsChanged)
    elif output.kind == "classification":
        _check_labels(expected, actual, output, artifact.labels, numbers, margin * np.abs(of_build).max())


def predict_all(predict: Callable[[np.ndarray], np.ndarray], pixels: np.ndarray, batch_size: int) -> np.ndarray:
    """Compute the outputs for any number of pictures with a model that takes at most `batch_size`: (n, D)."""
    return np.concatenate([predict(pixels[first : first + batch_size]) for first in range(0, len(pixels), batch_size)])


def golden_pixels(artifact: Artifact) -> np.ndarray:
    """Return the pixels of the golden images as Pillow decodes them, (n, H, W, 3) uint8."""
    return load_array(artifact.read(GOLDEN_PIXELS_FILE))


def golden_outputs(artifact: Artifact) -> np.ndarray:
    """Return the source's outputs for the golden pixels, (n, num_outputs) float32."""
    return load_array(artifact.read(GOLDEN_OUTPUTS_FILE))


def golden_classes(artifact: Artifact) -> np.ndarray | None:
    """Return the golden outputs that the model's activation is for, (…, classes); None if it is for none."""
    output = artifact.manifest.output
    if output.kind == "classification":
        return golden_outputs(artifact)
    if output.detection is None or not output.detection.takes_activation:
        return None
    return FAMILIES[output.detection.head].classes(split_outputs(golden_outputs(artifact), output.detection.shapes))


def save_array(array: np.ndarray) -> bytes:
    """Return an array as the bytes of a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def load_array(data: bytes) -> np.ndarray:
    """Return the array in the bytes of a .npy file."""
    array: np.ndarray = np.load(io.BytesIO(data), allow_pickle=False)
    return array


def _load(
    load_pixels: Callable[[bytes], np.ndarray], data: bytes, expected: np.ndarray, levels: int, number: int
) -> np.ndarray:
    """Load a golden image. Raises PixelsChanged for other pixels, or if a decoder or the preprocess function fails."""
    try:
        actual = load_pixels(data)
    except BadImage as bad:
        raise _failed(number, bad.detail or str(bad.reason), PixelsChanged) from bad
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        raise _failed(number, f"pixels are {_describe(actual)} instead of {_describe(expected)}", PixelsChanged)
    differs = int(np.abs(actual.astype(np.int16) - expected).max())
    if differs > levels:
        raise _failed(number, f"a pixel differs by {differs} levels, {levels} are allowed", PixelsChanged)
    return actual


@np.errstate(over="ignore", invalid="ignore")  # of numbers that are not finite
def _check_outputs(
    expected: np.ndarray,
    actual: np.ndarray,
    output: OutputSpec,
    tolerance: Tolerance,
    numbers: Sequence[int],
    scale: float,
) -> None:
    if actual.shape != expected.shape:
        raise ModelChanged(
            f"golden check failed: outputs are {_describe(actual)} instead of {_describe(expected)}", _HINT
        )
    expected, actual, _ = comparable(expected, actual, output)
    relative = (np.abs(actual - expected).max(1) / max(scale, 1e-12)).tolist()
    for number, difference, cosine in zip(numbers, relative, cosines(expected, actual).tolist(), strict=True):
        if not difference <= tolerance.relative:  # written so that NaN fails
            what = f"outputs differ by {difference:.2g} of the largest, not {tolerance.relative:g} at most"
            raise _failed(number, what, ModelChanged)
        if not cosine >= tolerance.cosine:
            what = f"outputs have cosine {cosine:.5f}, at least {tolerance.cosine:g} is needed"
            raise _failed(number, what, ModelChanged)


def _check_labels(
    expected: np.ndarray,
    actual: np.ndarray,
    spec: OutputSpec,
    labels: tuple[str, ...],
    numbers: Sequence[int],
    margin: float,
) -> None:
    rows = zip(decode_outputs(expected, spec, labels), decode_outputs(actual, spec, labels), strict=True)
    for number, raw, found, (theirs, ours) in zip(numbers, expected, actual, rows, strict=True):
        if theirs is None or ours is None:
            raise _failed(number, "outputs are not finite", PixelsChanged)
        if theirs.label != ours.label and raw.max() - raw[found.argmax()] > margin:
            raise _failed(number, f"labelled {ours.label!r} instead of {theirs.label!r}", PixelsChanged)


def _check_objects(
    artifact: Artifact,
    expected: np.ndarray,
    actual: np.ndarray,
    numbers: Sequence[int],
    margin: float,
    error: type[ModelError],
    *,
    is_exact: bool = False,
) -> None:
    """Raise `error` for an object that is expected and not found, or found and not expected."""
    detection, labels = artifact.manifest.output.detection, artifact.labels
    assert detection is not None
    for number, theirs, ours in _object_pairs(artifact, expected, actual, numbers, error):
        for first, second, what in ((theirs, ours, "is not found any more"), (ours, theirs, "was not found at build")):
            found = find_missing(first, second, detection, margin, is_exact=is_exact)
            if found is not None:
                index = int(found[5])
                label = labels[index] if index < len(labels) else str(index)
                raise _failed(number, f"an object {label!r} with score {found[4]:.2f} {what}", error)


def _object_pairs(
    artifact: Artifact,
    expected: np.ndarray,
    actual: np.ndarray,
    numbers: Sequence[int],
    error: type[ModelError],
    min_score: float = 1.0,
) -> Iterator[tuple[int, Objects, Objects]]:
    """Yield the number of each image and its objects in both outputs. Raises `error` for outputs that have none."""
    found = (find_objects(artifact, rows, min_score) for rows in (expected, actual))
    for number, theirs, ours in zip(numbers, *found, strict=True):
        if theirs is None or ours is None:
            raise _failed(number, "outputs are not finite, or the head fails on them", error)
        yield number, theirs, ours


def compares_best_objects(output: OutputSpec) -> bool:
    """Return whether the order of the outputs decides nothing; of other detectors all numbers are compared in place."""
    return output.detection is not None and not (output.detection.suppresses or output.detection.is_own)


def _check_best_objects(
    artifact: Artifact, expected: np.ndarray, actual: np.ndarray, variant: str | None, *, is_exact: bool
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


def _count_best_objects(
    artifact: Artifact, expected: np.ndarray, actual: np.ndarray, *, is_exact: bool
) -> tuple[int, int]:
    """Return how many of the best objects are found again, whatever their scores, and how many there are.

    Raises ModelChanged for outputs without a finite value.
    """
    num_found = num_best = 0
    for _, theirs, ours in _object_pairs(artifact, expected, actual, range(len(expected)), ModelChanged, LOWEST_SCORE):
        best = theirs[:BEST_OBJECTS]
        num_best += len(best)
        num_found += count_found(best, ours, OBJECT_SCORE, is_exact=is_exact)
    return num_found, num_best


def _describe(array: np.ndarray) -> str:
    return f"{array.shape} {array.dtype}"


def _failed(number: int, what: str, error: type[ModelError]) -> ModelError:
    return error(f"golden check failed: image {number + 1}: {what}", _HINT)
