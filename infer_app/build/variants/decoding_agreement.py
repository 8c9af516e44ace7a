"""Measure what decoding at a fraction of the size changes in a model's outputs."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.manifest import Manifest
from infer_app.base.printing import counted
from infer_app.build.network.golden_set import GOLDEN_PIXELS, load_pixels
from infer_app.predict.images.decode.decoder import decode_image
from infer_app.predict.images.read.bad_image import BadImage
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


def describe_agreement(parity: Parity | None, manifest: Manifest) -> str:
    """Describe for the user who builds the model how much `decode = "scaled"` changes."""
    if parity is None:
        return "decode scaled: no image was large enough: give photos like those of a daily run with --calibrate"
    images = f"{counted(parity.num_images, 'image')} large enough to be shrunk"
    return f"decode scaled, on {images}: {KINDS[manifest.output.kind].describe_kept(manifest, parity)}"
