"""A model that decodes on a GPU, by the ring and nvImageCodec's CPU decoder: files and pixels in one slot.

What a file becomes is what the cpu executor makes of it: the label or, word for word, the reason.
"""

import io
import os
import signal
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from PIL import Image

from infer_app.domain import Broken, Chunk, ImageRef, Reason
from infer_app.errors import ModelError
from infer_app.handlers.gpu_decode_stage import GpuDecodeStage
from infer_app.handlers.gpu_handlers import LoadHandler
from infer_app.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.handlers.loader import Loader
from infer_app.handlers.open_handler import OpenLoadHandler, OpenPredictHandler
from infer_app.images.decode.decoder import has_turbo
from infer_app.images.decode.gpu_decoder import GpuDecoder
from infer_app.images.read.read_image import ReadLimits
from infer_app.models.artifact.artifact import find_artifact
from infer_app.models.runtimes.variants import TORCHSCRIPT
from infer_app.pipeline.executors import RingSpec, open_local_executor
from infer_app.recipe import Recipe, Size
from infer_app.workers.heartbeat import SIZE as MARK_SIZE
from infer_app.workers.heartbeat import Heartbeat
from infer_app.workers.pool import Stage, WorkerPool, slots_for
from infer_app.workers.shared_ring import Ring
from tests.support.networks import built_colors
from tests.support.outcomes import outcomes as outcomes_of

pytest.importorskip("nvidia.nvimgcodec")

SIZE = 96  # a row has 27,648 bytes
BATCH = 8
COLORS = ("red", "green", "blue")
RECIPE = Recipe("crop-resize", SIZE, crop=0.875, decode="gpu")
DEADLY = b"kills the GPU's decoder"
WITHIN = 0.01  # of a score: 2 levels of a pixel


def photo(
    number: int, width: int = 160, height: int = 120, format: str = "JPEG", mode: str = "RGB", **options
) -> bytes:
    """Noise around one of three colours, of which no two are alike."""
    noise = np.random.default_rng(number).integers(0, 60, (height, width, 3))
    color = [150 if channel == number % 3 else 40 for channel in range(3)]
    buffer = io.BytesIO()
    image = Image.fromarray((noise + color).astype(np.uint8)).convert(mode)
    image.save(buffer, format, **({"quality": 80} if format == "JPEG" else {}), **options)
    return buffer.getvalue()


def rotated(number: int) -> bytes:
    tags = Image.Exif()
    tags[0x0112] = 6
    return photo(number, exif=tags)


def with_junk(data: bytes) -> bytes:
    """Which nvImageCodec refuses, and our own decoder passes over."""
    return data[:20] + b"stray bytes" + data[20:]


def with_bad_table(data: bytes) -> bytes:
    """Whole by its structure."""
    at = data.index(b"\xff\xc4") + 4
    return data[:at] + b"\x44" + data[at + 1 :]


def flat_corner(number: int) -> bytes:
    """Of a sound photo: a file whose data ends too early looks like that."""
    image = Image.open(io.BytesIO(photo(number)))
    image.paste((150, 90, 40), (96, 80, 160, 120))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def comment(data: bytes, text: bytes) -> bytes:
    return data[:20] + b"\xff\xfe" + (len(text) + 2).to_bytes(2, "big") + text + data[20:]


GPU = {
    "plain": photo(0),
    "fine": photo(1, subsampling="4:4:4"),
    "restarts": photo(2, restart_marker_blocks=3),
    "grey": photo(3, mode="L"),
    "tall": photo(4, 60, 300),
}
REFUSED = {
    "junk": with_junk(photo(5)),
    "table": with_bad_table(photo(6)),
    "flat": flat_corner(7),
}
CPU = {
    "png": photo(7, format="PNG"),
    "progressive": photo(8, progressive=True),
    "cmyk": photo(9, mode="CMYK"),
    "rotated": rotated(10),
    "large": photo(11, 400, 300),
    "tiny": photo(12, 100, 90),  # its file is
    "webp": photo(14, format="WEBP"),
}
BROKEN = {
    "cut": photo(15)[:-500],
    "empty": b"",
    "text": b"no picture",
}
if has_turbo():  # Pillow does not notice what is missing in these
    REFUSED |= {"lost": photo(8)[:3000] + photo(8)[3512:], "ended": photo(9)[:4500] + b"\xff\xd9"}
    BROKEN |= {"hole": GPU["plain"][:5000] + bytes(512) + GPU["plain"][5512:]}
FILES = GPU | REFUSED | CPU | BROKEN


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpu")
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def build(folder):
    def build(recipe):
        return built_colors(folder, name=recipe.decode, recipe=recipe)

    return build


@pytest.fixture(scope="module")
def artifact(build):
    return build(RECIPE)


def handler_spec(folder, artifact):
    return HandlerSpec((ModelSpec.of(artifact, TORCHSCRIPT),), ReadLimits((folder,), 1 << 20), 1 << 20)


@pytest.fixture(scope="module")
def executor(folder, artifact):
    with open_local_executor(
        handler_spec(folder, artifact), 2, 30.0, RingSpec(BATCH, Size.square(SIZE), "cpu")
    ) as opened:
        yield opened


def refs(folder, names):
    return tuple(ImageRef(name, str(folder / name)) for name in names)


def chunks(folder, names, length=BATCH):
    every = refs(folder, names)
    return [Chunk(n, every[first : first + length]) for n, first in enumerate(range(0, len(every), length))]


def outcomes(results):
    """{image id: (label, score, sha256), or all that is known of a broken one}."""
    return outcomes_of(
        results,
        predicted=lambda one: (one.output.label, one.output.score, one.file.sha256),
        broken=lambda one: one,
    )


@pytest.fixture(scope="module")
def expected(folder, build):
    with open_local_executor(handler_spec(folder, build(replace(RECIPE, decode="exact"))), 2, 30.0) as opened:
        return outcomes(opened.pool.run(chunks(folder, FILES)))


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, wanted in expected.items():
        if isinstance(wanted, Broken):
            assert found[name] == wanted
        else:
            assert (found[name][0], found[name][2]) == (wanted[0], wanted[2]), name
            assert found[name][1] == pytest.approx(wanted[1], abs=WITHIN), name


def test_every_file_becomes_what_the_cpu_executor_makes_of_it(executor, folder, expected):
    rejected = {name: one.reason for name, one in expected.items() if isinstance(one, Broken)}
    truncated = dict.fromkeys(FILES.keys() & {"lost", "ended", "cut", "hole"}, Reason.TRUNCATED)
    others = {"table": Reason.CORRUPT, "empty": Reason.EMPTY, "text": Reason.UNSUPPORTED_FORMAT}
    assert rejected == truncated | others
    for order in (FILES, reversed(FILES), sorted(FILES)):
        assert_equal(outcomes(executor.pool.run(chunks(folder, order))), expected)


def test_a_slot_holds_files_and_pixels(folder, artifact):
    with Ring(1, len(FILES), Size.square(SIZE)) as ring:
        handler = LoadHandler.open(handler_spec(folder, artifact), ring)
        loaded = handler.process(replace(Chunk(1, refs(folder, FILES)), slot=0), Heartbeat(bytearray(MARK_SIZE)))
        del handler
        kinds = dict(zip((ref.image_id for ref in loaded.chunk.refs), loaded.chunk.num_bytes, strict=True))
        sizes = {name: len(data) for name, data in (GPU | REFUSED).items()}
        assert kinds == sizes | dict.fromkeys(CPU, 0)
        row = list(kinds).index("junk")
        assert ring.pixels[0, row].tobytes()[: kinds["junk"]] == REFUSED["junk"]
    assert {one.ref.image_id for one in loaded.result.broken} == set(BROKEN)


def test_a_slot_of_files_alone_and_one_of_files_that_are_all_refused(executor, folder, expected):
    for names in (GPU, REFUSED, ["table", "table"]):
        for result in executor.pool.run([Chunk(1, refs(folder, names))]):
            for name, found in outcomes([replace(result, broken=result.broken[:1])]).items():
                assert_equal({name: found}, {name: expected[name]})


def test_an_image_alone_is_the_cpus(executor, folder, expected):
    results = list(executor.pool.run(chunks(folder, GPU, length=1)))
    assert {name: found[1] for name, found in outcomes(results).items()} == {
        name: pytest.approx(expected[name][1], abs=1e-6) for name in GPU
    }
    assert "gpu-decode" not in {stage for result in results for stage in result.cpu_seconds}


def test_what_decoding_took_on_the_device_is_measured_there(executor, folder):
    results = list(executor.pool.run(chunks(folder, GPU)))
    assert sum(result.cpu_seconds.get("gpu-decode", 0) for result in results) > 0
    assert "gpu-decode" in executor.device_stages


def test_a_device_process_that_is_killed_loses_nothing(executor, folder, expected):
    names = [*FILES] * 6
    numbered = [ImageRef(f"{number} {name}", str(folder / name)) for number, name in enumerate(names)]
    every = [Chunk(n, tuple(numbered[first : first + BATCH])) for n, first in enumerate(range(0, len(names), BATCH))]
    found, kills = [], 0
    for result in executor.pool.run(every):
        found.append(result)
        if result.predictions and kills < 3:
            os.kill(executor.pool.pids()[-1], signal.SIGKILL)
            kills += 1
    assert kills == 3
    labels = {image: one if isinstance(one, Broken) else one[0] for image, one in outcomes(found).items()}
    wanted = {name: one if isinstance(one, Broken) else one[0] for name, one in expected.items()}
    assert labels == {
        ref.image_id: replace(wanted[name], ref=ref) if isinstance(wanted[name], Broken) else wanted[name]
        for ref, name in zip(numbered, names, strict=True)
    }


class DeadlyDecoder(GpuDecoder):
    def pixels(self, files, recipe, are_whole=False):
        if any(DEADLY in data for data in files):
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().pixels(files, recipe, are_whole)


class HangingDecoder(GpuDecoder):
    def pixels(self, files, recipe, are_whole=False):
        if any(DEADLY in data for data in files):
            time.sleep(600)
        return super().pixels(files, recipe, are_whole)


class LosingDecoder(GpuDecoder):
    """A file leaves a GPU on which nothing runs any more; the library fails, and torch tells why when it waits."""

    is_lost = False

    def _decode(self, files):
        self.is_lost |= any(DEADLY in data for data in files)
        if self.is_lost:
            raise RuntimeError("CUDA Runtime failure: '#700'")
        return super()._decode(files)

    def _wait(self):
        if self.is_lost:
            raise torch.AcceleratorError("an illegal memory access was encountered")


@dataclass(frozen=True, slots=True)
class OpenDeadlyHandler(OpenPredictHandler):
    decoder: type[GpuDecoder] = DeadlyDecoder

    def __call__(self):
        from infer_app.handlers import gpu_decode_stage, gpu_handlers

        gpu_decode_stage.GpuDecoder = self.decoder  # type: ignore[misc]
        return gpu_handlers.PredictHandler.open(self.spec, self.ring, self.device)


@pytest.mark.parametrize(
    ("decoder", "timeout_s"),
    [
        pytest.param(DeadlyDecoder, 30.0, id="crash"),
        pytest.param(LosingDecoder, 30.0, id="lost device"),
        pytest.param(HangingDecoder, 1.0, id="hang", marks=pytest.mark.slow),
    ],
)
def test_a_file_that_ends_the_gpus_decoder_is_the_cpus_and_its_neighbours_are_predicted(
    decoder, timeout_s, folder, artifact, expected
):
    (folder / "deadly").write_bytes(comment(GPU["fine"], DEADLY))
    names = [*GPU, "deadly", "png", "junk"]
    spec = handler_spec(folder, artifact)
    with Ring(slots_for(1), BATCH, Size.square(SIZE)) as ring:
        device = OpenDeadlyHandler(spec, ring, "cpu", decoder)
        workers = WorkerPool(
            [Stage("load", OpenLoadHandler(spec, ring), 1), Stage("predict", device, 1)], timeout_s, ring
        )
        try:
            found = outcomes(workers.run(chunks(folder, names)))
        finally:
            workers.close()
    assert found.pop("deadly")[:2] == (expected["fine"][0], pytest.approx(expected["fine"][1], abs=1e-6))
    assert_equal(found, {name: expected[name] for name in names if name != "deadly"})


def test_a_decoder_that_decodes_no_golden_image_is_told_at_once(folder, artifact, monkeypatch):
    monkeypatch.setattr(GpuDecoder, "pixels", lambda self, files, *_: [None] * len(files))
    unpacker = GpuDecodeStage(Loader(handler_spec(folder, artifact), artifact), torch.device("cpu"))
    with pytest.raises(ModelError, match=r"nvImageCodec 0\..* on cpu does not decode a golden image"):
        unpacker.pixels(artifact.read("golden/1.jpg"))


def test_a_decoder_without_memory_leaves_it_to_the_cpu(monkeypatch, caplog):
    def fail(*_):
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr("infer_app.images.decode.gpu_decoder.transform_on_device", fail)
    assert GpuDecoder(torch.device("cpu")).pixels([GPU["plain"]] * 2, RECIPE) == [None, None]
    assert "nvImageCodec failed on 2 images, which the CPU decodes: no memory" in caplog.text


class Negatives(GpuDecoder):
    def pixels(self, files, recipe, are_whole=False):
        return [None if one is None else 255 - one for one in super().pixels(files, recipe, are_whole)]


def test_golden_images_that_come_out_otherwise_end_the_run(folder, artifact, monkeypatch):
    monkeypatch.setattr("infer_app.handlers.gpu_decode_stage.GpuDecoder", Negatives)
    with (
        Ring(slots_for(1), BATCH, Size.square(SIZE)) as ring,
        pytest.raises(ModelError, match=r"image 1: a pixel differs by \d+ levels, 64 are allowed"),
    ):
        OpenPredictHandler(handler_spec(folder, artifact), ring, "cpu")()


def test_the_model_is_another_one_and_found_by_its_own_id(artifact, build, folder):
    exact = build(replace(RECIPE, decode="exact"))
    assert exact.manifest.model_id != artifact.manifest.model_id
    assert find_artifact(folder / "models", "gpu").manifest.recipe == RECIPE
