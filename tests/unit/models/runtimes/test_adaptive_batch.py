import pytest
import torch

from infer_app.models.runtimes.fixed_batch import AdaptiveBatch, FixedBatch
from infer_app.recipe import Size

SIZE = 4


CPU_MESSAGE = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to"
CUDA_IN_TORCHSCRIPT = "The following operation failed in the TorchScript interpreter.\nCUDA out of memory. Tried to"
ERRORS = [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError(CPU_MESSAGE), RuntimeError(CUDA_IN_TORCHSCRIPT)]


class Device:
    """Has memory for so many images at a time; remembers the batches that it opened a model for."""

    def __init__(self, room: int, error: Exception = ERRORS[0]) -> None:
        self.room = room
        self.error = error
        self.opened: list[int] = []

    def open_model(self, batch_size: int) -> FixedBatch:
        self.opened.append(batch_size)
        return FixedBatch(self.means, Size.square(SIZE), batch_size)

    def means(self, pixels: torch.Tensor) -> torch.Tensor:
        if len(pixels) > self.room:
            raise self.error
        return pixels.float().mean((1, 2))


def pictures(num_images: int) -> torch.Tensor:
    return torch.randint(0, 255, (num_images, SIZE, SIZE, 3), dtype=torch.uint8)


@pytest.mark.parametrize("error", ERRORS)
def test_a_batch_that_does_not_fit_is_halved_and_stays_so(error):
    device = Device(room=5, error=error)
    model = AdaptiveBatch(device.open_model, 16)
    for num_images in (16, 3, 9):
        pixels = pictures(num_images)
        torch.testing.assert_close(model(pixels), pixels.float().mean((1, 2)))
    assert (model.batch_size, device.opened) == (4, [16, 8, 4])


def test_memory_that_becomes_scarce_later_halves_it_then():
    device = Device(room=8)
    model = AdaptiveBatch(device.open_model, 8)
    model(pictures(8))
    device.room = 2
    pixels = pictures(7)
    torch.testing.assert_close(model(pixels), pixels.float().mean((1, 2)))
    assert device.opened == [8, 4, 2]


def test_one_image_that_does_not_fit_is_an_error():
    model = AdaptiveBatch(Device(room=0).open_model, 4)
    with pytest.raises(torch.OutOfMemoryError):
        model(pictures(4))
    assert model.batch_size == 1


def test_another_error_is_the_models_own():
    def refuse(pixels: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("a bug")

    model = AdaptiveBatch(lambda batch_size: FixedBatch(refuse, Size.square(SIZE), batch_size), 4)
    with pytest.raises(RuntimeError, match="a bug"):
        model(pictures(2))
    assert model.batch_size == 4
