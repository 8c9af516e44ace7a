"""What only a GPU can show: page-locked slots, copies beside the model, the executor's answers and its memory."""

import time

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from infer_app.artifact.description import Description
from infer_app.base.domain import Chunk, ImageRef
from infer_app.base.model_variants import CUDA_FP16, TORCHSCRIPT
from infer_app.base.read_limits import ReadLimits
from infer_app.base.size import Size
from infer_app.build.build_model import build_model
from infer_app.build.variants.add_gpu_variants import BuildTarget, add_gpu_variants
from infer_app.predict.executors import RingSpec, open_local_executor
from infer_app.predict.handlers.gpu_handlers import CudaStream
from infer_app.predict.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.predict.runtimes.fixed_batch import AdaptiveBatch
from infer_app.predict.runtimes.gpu_variants import DeviceBatch
from infer_app.predict.workers.shared_ring import Ring

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

SIZE, BATCH = 32, 16


@pytest.fixture
def device():
    return torch.device("cuda", 0)


@pytest.fixture
def artifact(tmp_path):
    """A small convolutional network with its `cuda-fp16` variant."""
    torch.manual_seed(0)
    body = (nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU())
    network = nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    torch.jit.trace(network.eval(), torch.zeros(2, 3, SIZE, SIZE)).save(str(tmp_path / "model.ts"))
    plain = {"recipe": "stretch", "size": SIZE, "mean": 0, "std": 1}
    built = build_model(Description(source=str(tmp_path / "model.ts"), name="net", **plain), tmp_path / "models")
    return add_gpu_variants(built, [CUDA_FP16], BuildTarget.local(), print)


def test_slots_are_page_locked_where_they_lie(device):
    with Ring(3, BATCH, Size.square(SIZE)) as ring:
        slots = torch.from_numpy(ring.pixels)
        assert not slots.is_pinned()
        CudaStream(device).page_lock(ring.pixels)
        assert slots.is_pinned()
        assert slots.data_ptr() == ring.pixels.ctypes.data
        torch.cuda.cudart().cudaHostUnregister(slots.data_ptr())  # this process goes on, without the ring


def test_a_copy_ends_while_the_model_still_runs(device):
    stream, source = CudaStream(device), torch.full((64, 224, 224, 3), 7, dtype=torch.uint8).pin_memory()
    target = torch.zeros_like(source, device=device)
    stream.send(source, target)  # warm
    torch.cuda._sleep(2_000_000_000)  # about a second of the model's stream
    started = time.monotonic()
    stream.send(source, target)
    assert time.monotonic() - started < 0.2
    assert int(target.sum()) == 7 * source.numel()


def test_rows_come_back_through_one_page_locked_buffer(device):
    stream, rows = CudaStream(device), torch.randn(BATCH, 10, device=device)
    here = stream.predict(lambda pixels: pixels, rows)
    np.testing.assert_array_equal(here, rows.cpu().numpy())
    assert torch.from_numpy(here).is_pinned()
    assert stream.predict(lambda pixels: pixels, rows[:3]).ctypes.data == here.ctypes.data


def test_the_executor_gives_what_the_cpu_gives_and_broken_files_their_reason(artifact, tmp_path, device):
    for i in range(3 * BATCH + 5):
        Image.linear_gradient("L").rotate(7 * i).resize((60 + i, 50)).convert("RGB").save(tmp_path / f"{i}.jpg")
    (tmp_path / "9.jpg").write_bytes(b"no picture")
    refs = [ImageRef(str(i), str(tmp_path / f"{i}.jpg")) for i in range(3 * BATCH + 5)]
    chunks = [Chunk(n, tuple(refs[first : first + BATCH])) for n, first in enumerate(range(0, len(refs), BATCH))]

    def run(opening):
        with opening as executor:
            results = list(executor.pool.run(chunks))
        answers = {one.ref.image_id: one.output for result in results for one in result.predictions}
        return answers, {one.ref.image_id: one.reason for result in results for one in result.broken}

    def spec(variant):
        return HandlerSpec((ModelSpec.of(artifact, variant),), ReadLimits((tmp_path,), 1 << 20), 1 << 20)

    expected, broken = run(open_local_executor(spec(TORCHSCRIPT), 2, 30.0))
    answers, broken_there = run(
        open_local_executor(spec(CUDA_FP16), 2, 30.0, RingSpec(BATCH, Size.square(SIZE), ("cuda",)))
    )
    assert (broken_there, set(answers)) == (broken, set(expected))
    assert all(abs(answers[image].score - expected[image].score) < 0.01 for image in expected)


def test_memory_that_is_too_small_halves_the_batch_and_the_memory_is_given_back(device):
    room = torch.cuda.mem_get_info(device)[0] // 3

    def hungry(pixels):
        torch.empty(room * len(pixels) // 4, dtype=torch.uint8, device=device)
        return pixels.float().mean((1, 2))

    open_model = lambda batch_size: DeviceBatch(hungry, Size.square(SIZE), batch_size, device)  # noqa: E731
    model = AdaptiveBatch(open_model, 32, free_memory=torch.cuda.empty_cache)
    pixels = torch.randint(0, 255, (32, SIZE, SIZE, 3), dtype=torch.uint8, device=device)
    torch.testing.assert_close(model(pixels), pixels.float().mean((1, 2)))
    assert model.batch_size == 8
    assert torch.cuda.memory_reserved(device) < 3 * room
