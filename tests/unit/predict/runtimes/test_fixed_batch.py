import numpy as np
import pytest
import torch

from infer_app.base.size import Size
from infer_app.predict.runtimes.fixed_batch import AdaptiveBatch, FixedBatch, as_rows
from tests.support.networks import SIZE, random_pixels

BATCH_SIZE = 3


@pytest.fixture
def seen():
    """The shape of every batch that ran."""
    return []


@pytest.fixture
def model(seen):
    """Three means of each picture."""

    def run(pixels):
        assert pixels.flags.c_contiguous
        seen.append(pixels.shape)
        return pixels.mean((1, 2))

    return FixedBatch(run, Size.square(SIZE), BATCH_SIZE)


def means(pixels):
    return pixels.mean((1, 2)).astype(np.float32)


@pytest.mark.parametrize("num_images", range(BATCH_SIZE + 1))
def test_any_number_up_to_the_batch_size_runs_as_one_full_batch(model, seen, num_images):
    pixels = random_pixels(num_images)
    outputs = model(pixels)
    assert (seen, outputs.shape, outputs.dtype) == ([(BATCH_SIZE, SIZE, SIZE, 3)], (num_images, 3), np.float32)
    np.testing.assert_array_equal(outputs, means(pixels))


def test_a_tail_is_filled_with_black_and_not_with_what_came_before():
    model = FixedBatch(lambda pixels: np.full(BATCH_SIZE, pixels.sum()), Size.square(SIZE), BATCH_SIZE)
    model(np.full((2, SIZE, SIZE, 3), 255, np.uint8))
    assert model(np.zeros((1, SIZE, SIZE, 3), np.uint8)).tolist() == [[0.0]]


@pytest.mark.parametrize("shape", [(BATCH_SIZE + 1, SIZE, SIZE, 3), (1, SIZE, SIZE + 1, 3), (1, 3, SIZE, SIZE)])
def test_more_images_or_others_than_it_was_made_for_are_a_bug(model, seen, shape):
    with pytest.raises(ValueError, match=r"pixels of .* for a model of \(3, 16, 16, 3\)"):
        model(np.zeros(shape, np.uint8))
    assert seen == []


def test_rows_are_flat_float32_whatever_comes_after_the_batch():
    rows = as_rows(np.arange(12.0).reshape(2, 3, 2, 1))
    assert (rows.dtype, rows.tolist()) == (np.float32, np.arange(12).reshape(2, 6).tolist())
    assert as_rows(np.zeros(4)).shape == (4, 1)
    assert as_rows(np.array([1e300])).tolist() == [[np.inf]]


CPU_MESSAGE = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to"
CUDA_IN_TORCHSCRIPT = "The following operation failed in the TorchScript interpreter.\nCUDA out of memory. Tried to"
ERRORS = [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError(CPU_MESSAGE), RuntimeError(CUDA_IN_TORCHSCRIPT)]


@pytest.mark.parametrize("error", ERRORS)
def test_a_batch_that_does_not_fit_is_halved_and_stays_so(error):
    opened, room = [], 5

    def run(pixels):
        if len(pixels) > room:
            raise error
        return means(pixels)

    def open_model(batch_size):
        opened.append(batch_size)
        return FixedBatch(run, Size.square(SIZE), batch_size)

    model = AdaptiveBatch(open_model, 16)
    for num_images, fits in ((16, 5), (3, 5), (9, 5), (7, 2)):  # at last, memory becomes scarce
        room = fits
        pixels = random_pixels(num_images)
        np.testing.assert_allclose(model(pixels), means(pixels))
    assert (model.batch_size, opened) == (2, [16, 8, 4, 2])
