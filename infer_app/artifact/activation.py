"""Make scores of a network's class outputs as `activation` says, and tell which value of it fits them."""

import numpy as np

from infer_app.base.domain import MULTI_LABEL
from infer_app.base.errors import ModelError

ROUNDING = 1e-3  # of a score: fp16 and a sum over many classes
ROUNDING_8_BITS = 0.02  # of the sum of a softmax that is quantised inside the network
# Numbers that are all between 0 and 1 and are no logits. A class has about the same logit on all synthetic images, and
# one output has no more than ten numbers; from two on, those of a trained network are of both signs.
PROOF = 16


def class_scores(raw: np.ndarray, activation: str) -> np.ndarray:
    """Return scores between 0 and 1 of outputs (…, classes); `none` and `sigmoid-applied` are scores already."""
    if activation not in ("softmax", "sigmoid"):
        return raw
    with np.errstate(over="ignore", invalid="ignore"):  # of rows with an infinity, which are rejected
        if activation == "sigmoid":
            scores: np.ndarray = 1 / (1 + np.exp(-raw))
            return scores
        exponentials = np.exp(raw - raw.max(-1, keepdims=True))
        shares: np.ndarray = exponentials / exponentials.sum(-1, keepdims=True)
        return shares


def check_scores(raw: np.ndarray, activation: str) -> None:
    """Raise ValueError if outputs that are scores already have a finite one that is not between 0 and 1."""
    if activation in ("softmax", "sigmoid"):
        return
    outside = raw[np.isfinite(raw) & ((raw < -ROUNDING) | (raw > 1 + ROUNDING))]
    if len(outside):
        raise ValueError(f"a score of {outside[0]:.4g}: scores are between 0 and 1")


def check_activation(raw: np.ndarray, activation: str) -> None:
    """Raise ModelError, with the right flag, if the golden images' outputs (…, classes) prove that another one is.

    Logits may lie between 0 and 1 by chance where they are fewer than PROOF: see `doubt_activation`.
    """
    num_classes = raw.shape[-1]
    lowest, highest = raw.min(), raw.max()
    are_scores, are_shares = _are_scores(raw), _are_shares(raw, activation)
    number = ", or with --output regression for a number" if num_classes == 1 else ""
    if are_shares and activation != "none":
        raise ModelError(
            "the outputs are probabilities already: of each golden image they sum to 1",
            "build with --set activation=none",
        )
    is_proof = raw.size >= PROOF
    is_wrong = activation == "none" or (activation == "softmax" and num_classes == 1)
    if are_scores and not are_shares and (is_wrong or (activation != "sigmoid-applied" and is_proof)):
        of_logits = "sigmoid" if num_classes == 1 else "softmax or sigmoid"
        else_logits = "" if is_proof else f", or with {of_logits} if the network gives logits"
        raise ModelError(
            f"the outputs are scores already: of all golden images they are between 0 and 1, from {lowest:.2g} to "
            f"{highest:.2g}, and do not sum to 1",
            f"build with --set activation=sigmoid-applied{else_logits}{number}",
        )
    if not are_scores and activation not in ("softmax", "sigmoid"):
        raise ModelError(
            f"the outputs are not scores between 0 and 1: of the golden images they reach from {lowest:.2g} to "
            f"{highest:.2g}",
            "build with --set activation=softmax for one label per image, or sigmoid for several" + number,
        )
    if num_classes == 1 and activation == "softmax":
        raise ModelError(
            "a softmax over one output is always 1", f"build with --set activation=sigmoid for yes or no{number}"
        )


def doubt_activation(raw: np.ndarray, activation: str) -> str:
    """Return a warning if outputs (…, classes) that are taken for logits could be scores, else nothing."""
    if activation not in ("softmax", "sigmoid") or not _are_scores(raw):
        return ""
    return (
        "warning: the outputs for all golden images are between 0 and 1, as of a network that ends in its own sigmoid. "
        "If it does, --set activation=sigmoid-applied is right, and these scores are wrong; photos tell better: --set "
        "golden=FOLDER"
    )


def _are_scores(raw: np.ndarray) -> bool:
    return bool(raw.min() >= -ROUNDING and raw.max() <= 1 + ROUNDING)


def _are_shares(raw: np.ndarray, activation: str) -> bool:
    """Return whether all outputs are probabilities; scores of several labels may sum to about 1 by chance."""
    rounding = ROUNDING if activation in MULTI_LABEL else ROUNDING_8_BITS
    return _are_scores(raw) and raw.shape[-1] > 1 and bool((np.abs(raw.sum(-1) - 1) < rounding).all())
