"""What decoding large JPEGs at a fraction of their size changes in a model's answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from infer_app.images.bad_image import BadImage
from infer_app.images.decode import DecodeLimits, decode_image
from infer_app.images.location import ReadLimits, read_image
from infer_app.images.transform import transform
from infer_app.models.artifact import open_artifact
from infer_app.models.golden import CHECK_BATCH, Parity, measure_parity, predict_all
from infer_app.models.golden_set import GOLDEN_LIMITS, load_pixels
from infer_app.places import NOTHING_MAPPED, NOTHING_REMOTE, PathMap, RemoteAccess
from infer_app.records import Recipe


def scaled_agreement(
    predict: Callable[[Tensor], Tensor], recipe: Recipe, images: Iterable[bytes], batch_size: int = CHECK_BATCH
) -> Parity | None:
    """How near the outputs are to those of exact decoding; None where no image is large enough to be shrunk.

    Encoded images that are not shrunk, or are no images, say nothing about it and are not counted. `predict` takes at
    most `batch_size` rows.
    """
    exact, scaled = [], []
    for data in images:
        try:
            picture = decode_image(data, recipe, GOLDEN_LIMITS)
            if picture.scale > 1:
                exact.append(load_pixels(data, replace(recipe, decode="exact")))
                scaled.append(transform(picture, recipe))
        except BadImage:
            continue
    if not scaled:
        return None
    return measure_parity(
        predict_all(predict, torch.stack(exact), batch_size), predict_all(predict, torch.stack(scaled), batch_size)
    )


def decoding_ms(
    artifact_folder: Path,
    roots: tuple[Path, ...],
    max_bytes: int,
    max_pixels: int,
    locations: Sequence[str],
    remote: RemoteAccess = NOTHING_REMOTE,
    path_map: PathMap = NOTHING_MAPPED,
) -> dict[str, float] | None:
    """CPU milliseconds per image of decoding and transforming, `exact` and `scaled`, each the better of two rounds.

    None where the model decodes scaled already, has a preprocessing of its own, or no image is large enough.
    """
    manifest = open_artifact(artifact_folder).manifest
    if manifest.recipe.decode == "scaled" or manifest.preprocess:
        return None
    recipes = {decode: replace(manifest.recipe, decode=decode) for decode in ("exact", "scaled")}
    read_limits, decode_limits = ReadLimits(roots, max_bytes, remote, path_map), DecodeLimits(max_pixels)
    seconds = {decode: [0.0, 0.0] for decode in recipes}
    shrunk = num_images = 0
    for location in locations:
        try:
            data = read_image(location, read_limits).data
            shrunk += decode_image(data, recipes["scaled"], decode_limits).scale > 1
            for round_number in range(2):
                for decode, recipe in recipes.items():
                    started = time.thread_time()
                    transform(decode_image(data, recipe, decode_limits), recipe)
                    seconds[decode][round_number] += time.thread_time() - started
        except BadImage:
            continue
        num_images += 1
    return {decode: 1e3 * min(rounds) / num_images for decode, rounds in seconds.items()} if shrunk else None


def agreement_in_words(parity: Parity | None, output_kind: str) -> str:
    """For whoever builds a scaled model: is it as good?"""
    if parity is None:
        return "decode scaled: no image was large enough to be shrunk: give photos of the night's size with --calibrate"
    images = f"{parity.num_images:,} image{'s' if parity.num_images > 1 else ''} large enough to be shrunk"
    if output_kind == "classification":
        return f"decode scaled: {parity.label_agreement:.1%} of labels as with exact decoding, of {images}"
    if output_kind == "regression":
        return f"decode scaled: {parity.worst_difference:.3g} from exact decoding at worst, of {images}"
    return f"decode scaled: cosine with exact decoding {parity.cosine:.4f} at worst, of {images}"
