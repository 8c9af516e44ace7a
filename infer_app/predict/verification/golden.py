"""Check a model with golden images: it must still give the outputs of the build before it may write."""

import io
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.manifest import GOLDEN_OUTPUTS_FILE, GOLDEN_PIXELS_FILE
from infer_app.artifact.specs import WITH_LABELS, Tolerance
from infer_app.base.errors import ModelChanged, PixelsChanged
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.verification.agreement import measure_parity
from infer_app.predict.verification.detection import FEWEST_BEST, compares_best_objects, count_best_objects
from infer_app.predict.verification.object_parity import EXACT_OBJECT, SAME_OBJECT
from infer_app.predict.verification.outputs import KINDS
from infer_app.predict.verification.parity import Parity, cosines
from infer_app.predict.verification.vectors import ComparedRows, failed

CHECK_BATCH = 4  # images
LABEL_MARGIN = 0.05  # relative to the largest output: 2 levels of a pixel may swap two classes that are closer
ROUNDING_MARGIN = 0.1  # the same, of the 8-bit levels of two runtimes: scores of trained networks differed by 0.078


def golden_parity(artifact: Artifact, actual: np.ndarray, min_iou: float = SAME_OBJECT) -> Parity:
    """Compare a variant's outputs for the golden pixels with the source's; the best objects with what runs require."""
    expected = golden_outputs(artifact)
    parity = measure_parity(expected, actual, artifact, min_iou)
    if not compares_best_objects(artifact.manifest.output):
        return parity
    rows = ComparedRows(artifact, expected, actual, range(len(expected)))
    found, num_best = count_best_objects(rows, is_exact=min_iou == EXACT_OBJECT)
    return replace(parity, best_kept=found / num_best) if num_best >= FEWEST_BEST else parity


def check_rounded(artifact: Artifact, actual: np.ndarray) -> Parity:
    """Compare outputs of a network that is quantised with the golden ones of another runtime, by what they mean.

    A number that lies between two levels may be rounded to either. Raises ModelChanged if a label or an object is
    another one though it is not a close call, or if less is kept of other outputs than a variant must keep.
    """
    expected, manifest = golden_outputs(artifact), artifact.manifest
    kind, rows = KINDS[manifest.output.kind], ComparedRows(artifact, expected, actual, range(len(expected)))
    try:
        kind.check_pixels(rows, ROUNDING_MARGIN, np.abs(expected).max())
    except PixelsChanged as error:
        raise ModelChanged(error.message, error.hint) from error
    parity = golden_parity(artifact, actual)
    if manifest.output.kind not in WITH_LABELS and not kind.agreement(manifest, parity) >= kind.min_agreement:
        raise failed(kind.describe_kept(manifest, parity), ModelChanged)
    return parity


def check_golden(
    artifact: Artifact,
    load_pixels: Callable[[bytes], np.ndarray],
    predict: Callable[[np.ndarray], np.ndarray],
    variant: str | None = None,
    batch_size: int = CHECK_BATCH,
    numbers: Sequence[int] | None = None,
    tolerance: Tolerance | None = None,
) -> None:
    """Raise PixelsChanged or ModelChanged if the path from bytes to labels or objects gives other ones than at build.

    `load_pixels` is the caller's own decoding and transform, bytes to (H, W, 3) uint8; `predict` is its model, at
    most `batch_size` rows of them to (n, D). `numbers` are those of the images to check; None: all. `tolerance` is by
    default the variant's. There are three steps, so that a small difference of the pixels can't hide a difference of
    the model: the pixels; the outputs for the golden pixels; the labels or objects for the pixels as loaded, which are
    computed again only where these differ.
    """
    tolerance, paths = tolerance or artifact.manifest.tolerance_of(variant), artifact.manifest.golden
    numbers = range(len(paths)) if numbers is None else numbers
    of_build = golden_outputs(artifact)  # of all images, by which differences are judged
    expected_pixels, expected = golden_pixels(artifact)[numbers], of_build[numbers]
    loaded = [
        _load(load_pixels, artifact.read(paths[number]), pixels, tolerance.pixel_levels, number)
        for number, pixels in zip(numbers, expected_pixels, strict=True)
    ]
    actual = predict_all(predict, expected_pixels, batch_size)
    rows = ComparedRows(artifact, expected, actual, numbers)
    kind = KINDS[artifact.manifest.output.kind]
    _check_outputs(rows, tolerance, kind.comparable(ComparedRows(artifact, of_build, of_build))[2])
    kind.check_model(rows, variant or "")
    differing = [place for place, pixels in enumerate(loaded) if not np.array_equal(pixels, expected_pixels[place])]
    if differing:
        actual[differing] = predict_all(predict, np.stack([loaded[place] for place in differing]), batch_size)
    kind.check_pixels(rows, max(LABEL_MARGIN, tolerance.relative), np.abs(of_build).max())


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
    return KINDS[output.kind].classes(golden_outputs(artifact), output)


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
        raise failed(bad.detail or str(bad.reason), PixelsChanged, number) from bad
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        raise failed(f"pixels are {_describe(actual)} instead of {_describe(expected)}", PixelsChanged, number)
    differs = int(np.abs(actual.astype(np.int16) - expected).max())
    if differs > levels:
        raise failed(f"a pixel differs by {differs} levels, {levels} are allowed", PixelsChanged, number)
    return actual


@np.errstate(over="ignore", invalid="ignore")  # of numbers that are not finite
def _check_outputs(rows: ComparedRows, tolerance: Tolerance, scale: float) -> None:
    expected, actual = rows.expected, rows.actual
    if actual.shape != expected.shape:
        raise failed(f"outputs are {_describe(actual)} instead of {_describe(expected)}", ModelChanged)
    expected, actual, _ = KINDS[rows.artifact.manifest.output.kind].comparable(rows)
    relative = (np.abs(actual - expected).max(1) / max(scale, 1e-12)).tolist()
    for number, difference, cosine in zip(rows.numbers, relative, cosines(expected, actual).tolist(), strict=True):
        if not difference <= tolerance.relative:  # written so that NaN fails
            what = f"outputs differ by {difference:.2g} of the largest, not {tolerance.relative:g} at most"
            raise failed(what, ModelChanged, number)
        if not cosine >= tolerance.cosine:
            what = f"outputs have cosine {cosine:.5f}, at least {tolerance.cosine:g} is needed"
            raise failed(what, ModelChanged, number)


def _describe(array: np.ndarray) -> str:
    return f"{array.shape} {array.dtype}"
