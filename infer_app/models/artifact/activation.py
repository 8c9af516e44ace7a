"""What `--activation` says of a network's class outputs: how they become scores, and which value fits them."""

from __future__ import annotations

from torch import Tensor

from infer_app.domain import MULTI_LABEL
from infer_app.errors import ModelError

ROUNDING = 1e-3  # of a score: half precision and a sum over many classes


def class_scores(raw: Tensor, activation: str) -> Tensor:
    """Return scores between 0 and 1 of outputs (…, classes); `none` and `sigmoid-applied` are scores already."""
    if activation == "softmax":
        return raw.softmax(dim=-1)
    return raw.sigmoid() if activation == "sigmoid" else raw


def check_activation(raw: Tensor, activation: str) -> None:
    """Raise ModelError, with the right flag, if the golden images' outputs (…, classes) show that another one is.

    Numbers that all lie between 0 and 1 are taken for scores: of several classes and pictures, logits never do.
    """
    num_classes = raw.shape[-1]
    lowest, highest = raw.min().item(), raw.max().item()
    are_scores = lowest >= -ROUNDING and highest <= 1 + ROUNDING
    are_shares = are_scores and num_classes > 1 and bool(((raw.sum(-1) - 1).abs() < ROUNDING).all())
    if are_shares and activation != "none":
        raise ModelError(
            "the outputs are probabilities already: of each golden image they sum to 1", "build with --activation none"
        )
    number = ", or with --output regression for a number" if num_classes == 1 else ""
    if are_scores and not are_shares and activation != "sigmoid-applied":
        raise ModelError(
            f"the outputs are scores already: of all golden images they are between 0 and 1, from {lowest:.2g} to "
            f"{highest:.2g}, and do not sum to 1",
            f"build with --activation sigmoid-applied{number}",
        )
    if are_scores:
        return
    if activation not in ("softmax", "sigmoid"):
        raise ModelError(
            f"the outputs are not scores between 0 and 1: of the golden images they reach from {lowest:.2g} to "
            f"{highest:.2g}",
            "build with --activation softmax for one label per image, or sigmoid for several" + number,
        )
    if num_classes == 1 and activation not in MULTI_LABEL:
        raise ModelError(
            "a softmax over one output is always 1", f"build with --activation sigmoid for yes or no{number}"
        )
