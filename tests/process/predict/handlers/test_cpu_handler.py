"""One handler on real files with real, tiny TorchScript models; a white image is the one a model fails on."""

import decimal
import logging
import os
import signal
import socket
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageFile, PngImagePlugin
from torch import nn

from infer_app.base import machine
from infer_app.base.domain import Batch, Broken, Chunk, FileFacts, ImageRef, Reason, Sample
from infer_app.base.errors import DeviceLost
from infer_app.base.model_variants import TORCHSCRIPT
from infer_app.base.read_limits import ReadLimits
from infer_app.base.telemetry.stage_clock import StageClock
from infer_app.predict.handlers import predictor
from infer_app.predict.handlers.cpu_handler import CpuHandler
from infer_app.predict.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.predict.handlers.open_handler import open_cpu_handler
from infer_app.predict.handlers.predictor import LoadedModel
from infer_app.predict.runtimes.torchscript import BATCH_SIZE
from infer_app.predict.verification.golden import check_golden
from infer_app.predict.workers.heartbeat import SIZE as MARK_SIZE
from infer_app.predict.workers.heartbeat import Heartbeat
from infer_app.predict.workers.pool import WorkerPool
from tests.support.box import Box
from tests.support.detectors import Pair, Quadrants, built_detector
from tests.support.networks import ChannelMeans, NeedsMemoryForWhite, NotANumberForWhite, built_colors
from tests.support.outcomes import outcomes as outcomes_of
from tests.support.photos import save_colored

SIZE = 16


class RefusesWhite(nn.Module):
    """The model's own code raises, a torch.jit.Error, which is no RuntimeError."""

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        means = pixels.mean((2, 3))
        if bool((means.amin(1) > 0.999).any()):
            raise RuntimeError("no white, please")
        return 8.0 * means


class TooSureOfWhite(nn.Module):
    """Gives scores, as if it ended in a sigmoid of its own; of an image that is all white they are too high."""

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        means = pixels.mean((2, 3))
        return torch.where(means.amin(1, True) > 0.999, 1.3 * means, means)


class LogMark(Heartbeat):
    """A heartbeat that keeps all that was held."""

    def __init__(self):
        super().__init__(bytearray(MARK_SIZE))
        self.held = []

    def record(self, position, stage, file=FileFacts(), models=()):  # noqa: B008
        self.held.append((position, stage, file.size))
        super().record(position, stage, file)


def build(folder, module):
    if isinstance(module, TooSureOfWhite):
        return built_colors(folder, module, activation="sigmoid-applied")
    has_branches = not isinstance(module, ChannelMeans | NotANumberForWhite)
    return built_colors(folder, torch.jit.script(module) if has_branches else module)


def spec_of(artifact, *roots):
    return HandlerSpec((ModelSpec.of(artifact, TORCHSCRIPT),), ReadLimits(roots, 1 << 24), 1 << 26)


def open_handler(artifact, *roots):
    return CpuHandler.open(spec_of(artifact, *roots))


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Refs of files: 0 … 6 in turn red, green and blue, and a white one."""
    folder = tmp_path_factory.mktemp("photos")
    save_colored(folder, 7)
    Image.new("RGB", (20, 20), "white").save(folder / "white.png")
    return {path.stem: ImageRef(path.stem, str(path)) for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def handlers(tmp_path_factory, photos):
    """handlers(ChannelMeans) is an open handler of such a model, built once."""
    opened = {}

    def handler_of(module):
        if module not in opened:
            root = tmp_path_factory.getbasetemp()
            opened[module] = open_handler(build(tmp_path_factory.mktemp("model"), module()), root)
        return opened[module]

    return handler_of


def process(handler, *refs, heartbeat=None):
    return handler.process(Chunk(3, refs), heartbeat or LogMark())


def outcomes(result):
    """{image id: label, or reason and stage}."""
    return outcomes_of([result], broken=lambda one: (one.reason, one.stage))


def test_each_image_gets_what_it_gets_alone_whatever_the_length_of_the_chunk(handlers, photos):
    """Bit by bit, and so does every place in a batch."""
    handler = handlers(ChannelMeans)
    refs = [photos[str(i)] for i in range(BATCH_SIZE + 3)]
    alone = [process(handler, ref).predictions[0] for ref in refs]
    assert [one.output.label for one in alone] == [("red", "green", "blue")[i % 3] for i in range(len(refs))]
    for length in range(1, len(refs) + 1):
        result = process(handler, *refs[:length])
        assert (result.number, list(result.predictions)) == (3, alone[:length])
        assert [one.ref for one in result.predictions] == refs[:length]
    assert list(process(handler, *reversed(refs)).predictions) == alone[::-1]


@pytest.mark.parametrize("place", range(BATCH_SIZE + 1))
@pytest.mark.parametrize(
    ("module", "reason", "stage", "detail"),
    [
        (RefusesWhite, Reason.MODEL_ERROR, "model", "no white, please"),
        (TooSureOfWhite, Reason.MODEL_ERROR, "model", "a score of 1.3: scores are between 0 and 1"),
        (NotANumberForWhite, Reason.NON_FINITE_OUTPUT, "outputs", "the model's output has a NaN or an infinity"),
    ],
)
def test_a_model_that_fails_on_an_image_rejects_it_alone(handlers, photos, module, reason, stage, detail, place):
    handler = handlers(module)
    refs = [photos[str(i)] for i in range(BATCH_SIZE)]
    expected = process(handler, *refs).predictions
    refs.insert(place, photos["white"])
    result = process(handler, *refs)
    assert result.predictions == expected
    (broken,) = result.broken
    assert broken == Broken(photos["white"], reason, broken.detail, stage, broken.file, model_index=0)
    assert (detail in broken.detail, broken.file.sha256 is not None) == (True, True)


@pytest.mark.parametrize(("room", "white"), [(1, "red"), (0, (Reason.OUT_OF_MEMORY, "model"))])
def test_a_batch_that_memory_does_not_hold_is_halved_and_an_image_alone_is_tried_again_another_day(
    tmp_path, photos, room, white
):
    handler = open_handler(build(tmp_path, NeedsMemoryForWhite(room)), Path(photos["white"].location).parent)
    result = process(handler, photos["0"], photos["white"], photos["1"])
    assert outcomes(result) == {"0": "red", "white": white, "1": "green"}


def test_a_device_that_fails_is_no_failure_of_an_image(photos):
    def predict(pixels):
        raise RuntimeError("CUDA error: an illegal memory access")

    samples = tuple(Sample(photos[name], np.zeros((SIZE, SIZE, 3)), FileFacts()) for name in "01")
    batch = Batch(np.zeros((2, SIZE, SIZE, 3), np.uint8), samples, ())
    with pytest.raises(DeviceLost, match="the GPU failed: .*an illegal memory access"):
        list(LoadedModel(0, None, TORCHSCRIPT, 4, predict, None).infer(batch, StageClock()))  # type: ignore[arg-type]


def test_the_mark_says_what_is_in_hand_before_each_step(handlers, photos):
    """A crash is named by it: the image by its place in the chunk, the file by its size once it was read."""
    heartbeat = LogMark()
    refs = [photos[str(i)] for i in range(BATCH_SIZE + 1)]
    process(handlers(ChannelMeans), *refs, heartbeat=heartbeat)
    steps = []
    for i, ref in enumerate(refs):
        size = Path(ref.location).stat().st_size
        steps += [(i, "read", None), (i, "decode", size), (i, "transform", size)]
    model = [(0, "model", None), (BATCH_SIZE, "model", None)]
    assert heartbeat.held == [*steps[: 3 * BATCH_SIZE], model[0], *steps[3 * BATCH_SIZE :], model[1]]


@dataclass(frozen=True)
class OpenInGroup:
    """Opens a handler in a process whose control group has a limit, as the files in a folder say."""

    spec: HandlerSpec
    folder: Path

    def __call__(self):
        machine.PROC, machine.CGROUPS = self.folder / "proc", self.folder / "cgroup"
        return open_cpu_handler(self.spec)


@pytest.mark.parametrize(
    ("left", "expected"), [(machine.LEAST_LEFT, (Reason.OUT_OF_MEMORY, "decode")), (1 << 32, "red")]
)
def test_a_picture_that_needs_more_memory_than_is_left_is_rejected_and_ends_no_worker(tmp_path, photos, left, expected):
    """Decoded it takes 120 MB and more; with the kernel's limit for the group a process would be killed."""
    box = Box(tmp_path)
    box.belongs_to("0::/")
    box.group("", memory_max=(1 << 30) + left, memory_current=1 << 30)
    (box.proc / "self/statm").symlink_to("/proc/self/statm")
    Image.new("RGB", (6000, 5000), "red").save(tmp_path / "large.png", compress_level=1)
    large = ImageRef("large", str(tmp_path / "large.png"))
    spec = spec_of(build(tmp_path, ChannelMeans()), Path(photos["0"].location).parent, tmp_path)
    chunks = [Chunk(0, (photos["0"], large, photos["1"])), Chunk(1, (photos["2"],))]
    with WorkerPool([[OpenInGroup(spec, tmp_path)]], 30) as workers:
        results = list(workers.run(chunks))
    found = {key: one for result in results for key, one in outcomes(result).items()}
    assert found == {"0": "red", "large": expected, "1": "green", "2": "blue"}
    assert len({result.worker for result in results}) == 1


def test_a_preprocess_function_that_loads_torch_gets_the_threads_of_its_worker(tmp_path, monkeypatch):
    """torch has a thread for each core when it is loaded, here after the model was opened."""
    monkeypatch.syspath_prepend(str(tmp_path))
    code = "import torch\ntorch.set_num_threads(5)\ndef corner(rgb):\n    return rgb[:16, :16].copy()\n"
    (tmp_path / "loads_torch.py").write_text(code)
    custom = {"recipe": None, "preprocess": "loads_torch:corner"}
    open_handler(built_colors(tmp_path / "model", **custom))
    assert torch.get_num_threads() == 1


SETS_ALL = """
import decimal, locale, logging, os, random, signal, socket, sys, warnings
import numpy, torch
from PIL import Image, ImageFile, PngImagePlugin


def set_all():
    ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS, PngImagePlugin.MAX_TEXT_CHUNK = True, 1, 1
    random.seed(1), numpy.random.seed(1), torch.manual_seed(1)
    torch.set_num_threads(3), torch.set_grad_enabled(False), torch.set_default_dtype(torch.float64)
    torch.set_float32_matmul_precision("medium"), torch.use_deterministic_algorithms(True)
    numpy.seterr(all="raise"), warnings.simplefilter("error"), logging.disable()
    locale.setlocale(locale.LC_ALL, "C.UTF-8"), signal.signal(signal.SIGTERM, signal.SIG_DFL)
    decimal.getcontext().prec = 1
    socket.setdefaulttimeout(0.001), os.chdir("/"), sys.path.insert(0, "/nowhere"), os.umask(0o777)
    os.environ["HTTPS_PROXY"] = "nowhere"
    os.environ.pop("HOME", None)


def head(rows, *, size):
    is_of_artifact and set_all()
    return list(rows)


is_of_artifact = __name__ != "sets_all"  # the build imports the module first, in the process of the tests
is_of_artifact and set_all()
"""


@pytest.mark.parametrize(
    ("size", "module", "of_first", "of_others"),
    [(SIZE, ChannelMeans, [None], [None]), ("1025x1024", ChannelMeans, [[0]], []), ("1025x1024", Pair, [None], [])],
    ids=["small", "large", "judged together"],
)
def test_of_a_large_input_the_first_worker_alone_predicts_a_golden_image(
    tmp_path, monkeypatch, size, module, of_first, of_others
):
    build_model = built_detector if module is Pair else built_colors
    spec = spec_of(build_model(tmp_path / "model", module(), size=size, interpolation="bilinear"))
    checked = []

    def check(*args):
        checked.append(args[-1])  # the numbers of the golden images; None: all
        check_golden(*args)

    monkeypatch.setattr(predictor, "check_golden", check)
    for is_first, numbers in ((True, of_first), (False, of_others)):
        checked.clear()
        open_cpu_handler(spec, is_first)
        assert checked == numbers


@pytest.fixture
def restored():
    """Put back what code may set without a change for others."""
    mask, text, context = os.umask(0o22), PngImagePlugin.MAX_TEXT_CHUNK, decimal.getcontext().copy()
    os.umask(mask)
    yield
    os.umask(mask)
    PngImagePlugin.MAX_TEXT_CHUNK, ImageFile.LOAD_TRUNCATED_IMAGES = text, False
    decimal.setcontext(context)
    logging.disable(logging.NOTSET)
    torch.set_grad_enabled(True)


def surroundings():
    """What others in the process compute by."""
    torches = torch.get_num_threads(), torch.get_default_dtype(), torch.get_float32_matmul_precision()
    python = [*sys.path], os.environ.copy(), Path.cwd(), signal.getsignal(signal.SIGTERM), socket.getdefaulttimeout()
    return *torches, torch.are_deterministic_algorithms_enabled(), *python, np.geterr(), [*warnings.filters]


def test_what_the_code_of_one_model_sets_for_its_process_changes_no_other(tmp_path, monkeypatch, photos, restored):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "sets_all.py").write_text(SETS_ALL)
    colors = built_colors(tmp_path / "colors", size=64, interpolation="bilinear")
    detector = built_detector(tmp_path / "detector", Quadrants(), "sets_all:head", interpolation="bilinear")
    refs = [photos[str(i)] for i in range(3)]
    for suffix in ("tif", "gif", "bmp"):
        path = tmp_path / f"half.{suffix}"
        Image.effect_noise((80, 60), 90).save(path)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        refs.append(ImageRef(path.name, str(path)))
    roots = Path(photos["0"].location).parent, tmp_path
    specs = [
        replace(spec_of(colors, *roots), models=tuple(ModelSpec.of(one, TORCHSCRIPT) for one in models))
        for models in ([colors], [colors, detector])
    ]
    alone = CpuHandler.open(specs[0]).process(Chunk(3, tuple(refs)), LogMark())
    assert set(outcomes(alone).values()) == {"red", "green", "blue", (Reason.TRUNCATED, "decode")}
    before = surroundings()
    handler = CpuHandler.open(specs[1])
    assert surroundings() == before
    for _ in range(2):
        both = handler.process(Chunk(3, tuple(refs), (0, 1)), LogMark())
        assert surroundings() == before
        assert [one for one in both.predictions if one.model_index == 0] == list(alone.predictions)
        assert [(one.ref, one.reason) for one in both.broken] == [(one.ref, one.reason) for one in alone.broken]
