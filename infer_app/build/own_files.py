"""Read what of the user's own is stored with a model: its labels and functions."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from infer_app.artifact.artifact import Preprocess, load_function
from infer_app.artifact.description import Description
from infer_app.artifact.manifest import CROP_FILE, HEAD_FILE, LABELS_FILE, PREPROCESS_FILE, format_labels, parse_labels
from infer_app.artifact.recipe import CropRule
from infer_app.base.errors import ModelError, UsageError
from infer_app.build.sources.callables import resolve_callable, standalone_code
from infer_app.predict.detection.heads import OwnHead
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.transform.crop import cut_out
from infer_app.predict.images.transform.geometry import Picture


def own_files(described: Description, crop: CropRule | None) -> dict[str, bytes]:
    """Return the labels and the user's functions as the artifact stores them."""
    files = {}
    if isinstance(described.labels, Path):
        if not described.labels.is_file():
            raise UsageError(f"no file {described.labels}", "labels takes a text file, one label a line")
        files[LABELS_FILE] = described.labels.read_bytes()
    elif described.labels:
        files[LABELS_FILE] = format_labels(described.labels)
    if LABELS_FILE in files:
        where = str(described.labels) if isinstance(described.labels, Path) else f"the labels of {described.source}"
        files[LABELS_FILE] = format_labels(parse_labels(files[LABELS_FILE], where))
    if described.preprocess is not None:
        files[PREPROCESS_FILE] = standalone_code(resolve_callable(described.preprocess))
    if ":" in described.head:
        files[HEAD_FILE] = standalone_code(resolve_callable(described.head))
    if crop and crop.is_own:
        files[CROP_FILE] = standalone_code(resolve_callable(crop.kind))
        try_crop(crop, files[CROP_FILE])
    return files


def preprocess_of(described: Description, files: dict[str, bytes]) -> Preprocess | None:
    """Load the preprocess function from the copy that runs use: a file with local imports fails now."""
    if described.preprocess is None:
        return None
    return load_function(files[PREPROCESS_FILE], described.preprocess.rpartition(":")[2], described.preprocess)


def head_of(described: Description, files: dict[str, bytes]) -> OwnHead | None:
    """Load the user's own head in the same way."""
    if HEAD_FILE not in files:
        return None
    return load_function(files[HEAD_FILE], described.head.rpartition(":")[2], f"{described.name}/{HEAD_FILE}")


def try_crop(rule: CropRule, code: bytes) -> None:
    """Call a user's own crop function once: golden images, which are crops already, do not. Raises ModelError."""
    function = load_function(code, rule.kind.rpartition(":")[2], rule.kind)
    picture = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    try:
        cut_out(Picture.whole(picture), (0.25, 0.25, 0.5, 0.5), rule, function)
    except BadImage as bad:
        raise ModelError(
            f"{rule.kind} failed on a picture of 80x60 pixels: {bad.detail}",
            "it takes RGB uint8 (height, width, 3) and the box (x, y, width, height) in shares of the picture, and "
            "returns RGB uint8 (height, width, 3)",
        ) from bad


def num_labels(files: dict[str, bytes]) -> int | None:
    return len(parse_labels(files[LABELS_FILE], LABELS_FILE)) if LABELS_FILE in files else None
