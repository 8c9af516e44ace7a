import pytest
import torch

from infer_app.domain import Broken, FileFacts, ImageRef, Reason, Sample
from infer_app.handlers.loader import collate

SIDE = 4


def ref(number: int) -> ImageRef:
    return ImageRef(str(number), f"/data/{number}.jpg")


def sample(number: int) -> Sample:
    """Its pixels are all its number."""
    return Sample(ref(number), torch.full((SIDE, SIDE, 3), number, dtype=torch.uint8), FileFacts(size=number))


def broken(number: int) -> Broken:
    return Broken(ref(number), Reason.CORRUPT, "bad", "decode")


def buffer(rows: int) -> torch.Tensor:
    return torch.full((rows, SIDE, SIDE, 3), 255, dtype=torch.uint8)


def levels(pixels: torch.Tensor) -> list[int]:
    """The one level of each row."""
    assert all(torch.equal(row, row[0, 0, 0].expand_as(row)) for row in pixels)
    return [int(row[0, 0, 0]) for row in pixels]


def test_row_i_belongs_to_sample_i():
    samples = [sample(number) for number in (7, 3, 9, 1)]
    batch = collate(samples, buffer(4))
    assert levels(batch.pixels) == [7, 3, 9, 1]
    assert (batch.samples, batch.broken) == (tuple(samples), ())


@pytest.mark.parametrize("bad", [{0}, {1}, {4}, {0, 4}, {1, 2, 3}, {0, 1, 2, 3}])
def test_a_broken_sample_takes_no_row(bad: set[int]):
    given = [broken(number) if number in bad else sample(number) for number in range(5)]
    batch = collate(given, buffer(5))
    good = [number for number in range(5) if number not in bad]
    assert levels(batch.pixels) == good
    assert [one.ref.image_id for one in batch.samples] == [str(number) for number in good]
    assert batch.broken == tuple(broken(number) for number in sorted(bad))


def test_an_all_broken_batch_is_a_legal_value():
    batch = collate([broken(1), broken(2)], buffer(2))
    assert batch.pixels.shape == (0, SIDE, SIDE, 3)
    assert (batch.samples, batch.broken) == ((), (broken(1), broken(2)))


def test_no_samples_make_an_empty_batch():
    batch = collate([], buffer(2))
    assert (len(batch.pixels), batch.samples, batch.broken) == (0, (), ())


def test_a_short_last_batch_shows_nothing_of_the_one_before():
    rows = buffer(4)
    collate([sample(number) for number in range(4)], rows)
    assert levels(collate([sample(8)], rows).pixels) == [8]


def test_the_batch_is_a_view_of_the_buffer():
    rows = buffer(3)
    batch = collate(iter([sample(1), sample(2)]), rows)
    assert batch.pixels.data_ptr() == rows.data_ptr()
    assert levels(rows) == [1, 2, 255]


def test_more_good_samples_than_rows_is_an_error():
    with pytest.raises(ValueError, match="more samples than the buffer's 2 rows"):
        collate([sample(1), sample(2), sample(3)], buffer(2))


def test_broken_samples_beyond_the_rows_are_no_error():
    batch = collate([broken(0), sample(1), broken(2), broken(3)], buffer(1))
    assert (levels(batch.pixels), len(batch.broken)) == ([1], 3)


@pytest.mark.parametrize(
    "pixels",
    [
        torch.zeros((1, SIDE, 3), dtype=torch.uint8),  # would be broadcast
        torch.zeros((SIDE, SIDE, 1), dtype=torch.uint8),
        torch.zeros((), dtype=torch.uint8),
        torch.zeros((SIDE + 1, SIDE, 3), dtype=torch.uint8),
        torch.zeros((SIDE, SIDE, 3), dtype=torch.float32),  # would be cast
    ],
)
def test_pixels_of_another_shape_or_dtype_are_an_error_that_names_the_image(pixels: torch.Tensor):
    with pytest.raises(ValueError, match="image 42"):
        collate([Sample(ref(42), pixels, FileFacts())], buffer(2))
