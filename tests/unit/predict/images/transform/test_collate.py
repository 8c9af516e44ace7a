from functools import cache

import numpy as np
import pytest

from infer_app.base.domain import Broken, FileFacts, ImageRef, Reason, Sample
from infer_app.predict.handlers.loader import collate

SIDE = 4


def ref(number: int) -> ImageRef:
    return ImageRef(str(number), f"/data/{number}.jpg")


@cache
def sample(number: int) -> Sample:
    """Its pixels are all its number."""
    return Sample(ref(number), np.full((SIDE, SIDE, 3), number, np.uint8), FileFacts(size=number))


def broken(number: int) -> Broken:
    return Broken(ref(number), Reason.CORRUPT, "bad", "decode")


def buffer(rows: int) -> np.ndarray:
    return np.full((rows, SIDE, SIDE, 3), 255, np.uint8)


def levels(pixels: np.ndarray) -> list[int]:
    """The one level of each row."""
    assert all((row == row[0, 0, 0]).all() for row in pixels)
    return [int(row[0, 0, 0]) for row in pixels]


@pytest.mark.parametrize("bad", [set(), {0}, {4}, {1, 2, 3}, {0, 1, 2, 3, 4}])
@pytest.mark.parametrize("num_rows", [5, 7])
def test_row_i_belongs_to_sample_i_and_a_broken_one_takes_none(bad: set[int], num_rows: int):
    """An all-broken batch is a legal value."""
    given, rows = [broken(number) if number in bad else sample(number) for number in range(5)], buffer(num_rows)
    batch = collate(iter(given), rows)
    good = [number for number in range(5) if number not in bad]
    assert batch.pixels.shape == (len(good), SIDE, SIDE, 3)
    assert (levels(batch.pixels), levels(rows)) == (good, good + [255] * (num_rows - len(good)))  # a view of the buffer
    assert batch.samples == tuple(one for one in given if isinstance(one, Sample))
    assert batch.broken == tuple(broken(number) for number in sorted(bad))


def test_more_good_samples_than_rows_is_an_error_and_broken_ones_take_none():
    assert levels(collate([broken(0), sample(1), broken(2)], buffer(1)).pixels) == [1]
    with pytest.raises(ValueError, match="more samples than the buffer's 2 rows"):
        collate([sample(1), sample(2), sample(3)], buffer(2))


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((1, SIDE, 3), np.uint8),  # would be broadcast
        np.zeros((SIDE + 1, SIDE, 3), np.uint8),
        np.zeros((SIDE, SIDE, 3), np.float32),  # would be cast
    ],
)
def test_pixels_of_another_shape_or_dtype_are_an_error_that_names_the_image(pixels: np.ndarray):
    with pytest.raises(ValueError, match="image 42"):
        collate([Sample(ref(42), pixels, FileFacts())], buffer(2))
