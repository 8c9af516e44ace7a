"""Whole corpora of malformed files: every file ends as pixels or as a reason, soon, and nothing else comes out."""

import time
from pathlib import Path

import numpy as np
import pytest

from infer_app.artifact.recipe import Recipe
from infer_app.base.domain import Reason
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.decode.decoder import decode_image
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.read_image import read_image
from tests.support.photos import DATA

RECIPE = Recipe("stretch", size=8)
LIMITS = 64 * 10**6
SECONDS = 5  # for one file, on a busy machine


def broken(folder: str) -> list[Path]:
    files = sorted(file for file in (DATA / "broken" / folder).rglob("*") if file.is_file())
    if not files:
        pytest.skip(f"needs malformed files: set TEST_DATA to a folder with broken/{folder}")
    return files


def outcome(file: Path) -> Reason | None:
    """None: pixels."""
    try:
        image = read_image(str(file), ReadLimits((DATA,), max_bytes=64 * 2**20))
        pixels = decode_image(image.data, RECIPE, LIMITS).rgb
    except BadImage as refused:
        return refused.reason
    height, width, channels = pixels.shape
    assert channels == 3, file.name
    assert pixels.dtype == np.uint8, file.name
    assert 0 < width * height <= LIMITS, file.name
    return None


@pytest.mark.slow
@pytest.mark.usefixtures("capfd")  # libtiff writes to standard error by itself
@pytest.mark.parametrize("folder", ["jpeg", "mixed"])
def test_every_malformed_file_ends_as_pixels_or_a_reason_and_soon(folder: str):
    late = []
    reasons = set()
    for file in broken(folder):
        started = time.monotonic()
        reasons.add(outcome(file))
        if time.monotonic() - started > SECONDS:
            late.append(file.name)
    assert late == []
    content = {Reason.TRUNCATED, Reason.CORRUPT, Reason.UNSUPPORTED_FORMAT, Reason.TOO_MANY_PIXELS, Reason.EMPTY}
    assert reasons <= {None, *content, Reason.OUT_OF_MEMORY}
