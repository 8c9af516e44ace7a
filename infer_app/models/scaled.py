"""What decoding large JPEGs at a fraction of their size changes in a model's answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import torch
from torch import Tensor

from infer_app.images.bad_image import BadImage
from infer_app.images.decode import decode_image
from infer_app.images.transform import transform
from infer_app.models.golden import CHECK_BATCH, Parity, measure_parity, predict_all
from infer_app.models.golden_set import GOLDEN_LIMITS, load_pixels
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
