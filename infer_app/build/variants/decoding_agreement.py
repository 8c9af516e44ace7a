"""Measure what decoding at a fraction of the size changes in a model's outputs and costs."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from infer_app.artifact.artifact import Artifact, open_artifact
from infer_app.artifact.manifest import Manifest
from infer_app.base.printing import counted
from infer_app.base.read_limits import ReadLimits
from infer_app.build.network.golden_set import GOLDEN_PIXELS, load_pixels
from infer_app.predict.images.decode.decoder import decode_image
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.read_image import read_image
from infer_app.predict.images.transform.to_pixels import transform
from infer_app.predict.verification.agreement import measure_parity
from infer_app.predict.verification.golden import predict_all
from infer_app.predict.verification.outputs import KINDS
from infer_app.predict.verification.parity import Parity


def decoding_agreement(
    artifact: Artifact, predict: Callable[[np.ndarray], np.ndarray], images: Iterable[bytes], batch_size: int
) -> Parity | None:
    """Compare the outputs with those of exact decoding; return None if all images are decoded exactly.

    Images that are too small to be shrunk and files that are not images are not counted. `predict` takes at most
    `batch_size` rows.
    """
    recipe, exact, other = artifact.manifest.recipe, [], []
    for data in images:
        try:
            picture = decode_image(data, recipe, GOLDEN_PIXELS)
            if picture.scale > 1:
                pixels = transform(picture, recipe)
                exact.append(load_pixels(data, replace(recipe, decode="exact")))
                other.append(pixels)
        except BadImage:
            continue
    if not other:
        return None
    expected, actual = (predict_all(predict, np.stack(pixels), batch_size) for pixels in (exact, other))
    return measure_parity(expected, actual, artifact)


def decoding_ms(
    artifact_folder: Path,
    limits: ReadLimits,
    max_pixels: int,
    locations: Sequence[str],
) -> dict[str, float] | None:
    """Return the CPU milliseconds per image of decoding and transforming, `exact` and `scaled`, the better of two.

    Return None if the model does not decode exactly, has its own preprocessing or no antialiasing, or if no image is
    large enough.
    """
    manifest = open_artifact(artifact_folder).manifest
    if manifest.recipe.decode != "exact" or manifest.preprocess or not manifest.recipe.antialias:
        return None
    recipes = {decode: replace(manifest.recipe, decode=decode) for decode in ("exact", "scaled")}
    seconds = {decode: [0.0, 0.0] for decode in recipes}
    shrunk = num_images = 0
    for location in locations:
        try:
            data = read_image(location, limits).data
            shrunk += decode_image(data, recipes["scaled"], max_pixels).scale > 1
            for round_number in range(2):
                for decode, recipe in recipes.items():
                    started = time.thread_time()
                    transform(decode_image(data, recipe, max_pixels), recipe)
                    seconds[decode][round_number] += time.thread_time() - started
        except BadImage:
            continue
        num_images += 1
    return {decode: 1e3 * min(rounds) / num_images for decode, rounds in seconds.items()} if shrunk else None


def describe_agreement(parity: Parity | None, manifest: Manifest) -> str:
    """Describe for the user who builds the model how much `decode = "scaled"` changes."""
    if parity is None:
        return "decode scaled: no image was large enough: give photos like those of a daily run with --calibrate"
    images = f"{counted(parity.num_images, 'image')} large enough to be shrunk"
    return f"decode scaled, on {images}: {KINDS[manifest.output.kind].describe_kept(manifest, parity)}"
