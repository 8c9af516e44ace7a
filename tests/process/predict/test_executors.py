"""What every executor must do, with real processes, photos and a model; `cuda` by plain copies to the CPU, `ray` on one
node that is started for it, its actors with and without a ring.
"""

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image

from infer_app.base.domain import Chunk, ImageRef, Reason
from infer_app.base.errors import ModelError
from infer_app.base.model_variants import TORCHSCRIPT
from infer_app.base.read_limits import ReadLimits
from infer_app.base.size import Size
from infer_app.predict.executors import RingSpec, open_local_executor, open_ray_executor
from infer_app.predict.handlers.handler_spec import HandlerSpec, ModelSpec
from tests.support.networks import ChannelMeans, NotANumberForWhite, built_colors
from tests.support.outcomes import outcomes
from tests.support.photos import jpeg, save_colored

SIZE = 16
BATCH = 8
COLORS = ("red", "green", "blue")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("executors")


@pytest.fixture(scope="module")
def artifact(folder):
    return built_colors(folder, NotANumberForWhite())


def ring(num_devices):
    return RingSpec(BATCH, Size.square(SIZE), ("cpu",) * num_devices)


RINGS = {"cpu": None, "cuda": ring(1), "two devices": ring(2), "ray": None, "ray of rings": ring(1)}


def open_executor(name, handler):
    if not name.startswith("ray"):
        return open_local_executor(handler, 2, 30.0, RINGS[name])
    pytest.importorskip("ray")
    from infer_app.base.settings.sections import RaySettings

    return open_ray_executor(handler, 2, 30.0, RaySettings(), RINGS[name])


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[pytest.mark.ray] * name.startswith("ray")) for name in RINGS]
)
def executor(request, artifact, folder):
    handler = HandlerSpec((ModelSpec.of(artifact, TORCHSCRIPT),), ReadLimits((folder,), 1 << 20), 1 << 20)
    with open_executor(request.param, handler) as opened:
        yield opened


@pytest.fixture(scope="module")
def images(folder):
    """(refs, what must become of each): 45 photos in three colours, and a broken one of each kind after every ten."""
    broken = {
        "empty": (b"", (Reason.EMPTY, "read")),
        "cut": (jpeg()[:300], (Reason.TRUNCATED, "decode")),
        "text": (b"no picture at all", (Reason.UNSUPPORTED_FORMAT, "decode")),
        "gone": (None, (Reason.NOT_FOUND, "read")),
    }
    expected: dict[str, object] = {}
    for i in range(len(save_colored(folder, 45))):
        expected[str(i)] = COLORS[i % 3]
        if i % 10 == 9:
            name, (content, expected[name]) = broken.popitem()
            if content is not None:
                (folder / f"{name}.jpg").write_bytes(content)
    Image.new("RGB", (20, 20), "white").save(folder / "white.jpg")
    expected["white"] = (Reason.NON_FINITE_OUTPUT, "outputs")
    return [ImageRef(name, str(folder / f"{name}.jpg")) for name in expected], expected


def run(executor, some):
    return outcomes(executor.pool.run(some), broken=lambda one: (one.reason, one.stage))


def chunks(refs, length):
    return [Chunk(n, tuple(refs[first : first + length])) for n, first in enumerate(range(0, len(refs), length))]


@pytest.mark.parametrize("length", [1, 5, BATCH])
def test_each_image_gets_its_own_answer_whatever_the_length_of_a_chunk(executor, images, length):
    refs, expected = images
    assert run(executor, chunks(refs, length)) == expected


def test_chunks_that_take_no_time_are_answered_from_their_own_pixels(executor, images):
    """Whichever thread of a process comes first: the one that listens, or the one that predicts."""
    refs, expected = images
    for _ in range(6):
        assert run(executor, chunks(refs, 1)) == expected


def test_what_is_known_of_each_file_comes_with_its_answer(executor, images):
    refs, _ = images
    results = list(executor.pool.run(chunks(refs, BATCH)))
    predicted = [one for result in results for one in result.predictions]
    assert all(len(one.file.sha256) == 64 for one in predicted)
    files = {one.ref.image_id: one.file for result in results for one in result.broken}
    sizes = {"gone": None, "text": 17, "cut": 300, "empty": 0, "white": Path(refs[-1].location).stat().st_size}
    assert {image_id: file.size for image_id, file in files.items()} == sizes
    assert {image_id for image_id, file in files.items() if file.sha256} == {"text", "cut", "white"}


def test_a_run_that_is_left_early_can_be_followed_by_another(executor, images):
    refs, expected = images
    with closing(executor.pool.run(chunks(refs, 3))) as results:
        next(results)
    assert run(executor, chunks(refs, 3)) == expected


def test_every_stage_is_measured_where_it_runs(executor, images):
    refs, _ = images
    results = list(executor.pool.run(chunks(refs, BATCH)))
    stages = {stage for result in results for stage in result.cpu_seconds}
    assert stages >= {"read", "decode", "transform", "collate", "model", "outputs"}
    assert ("copy" in stages) == bool(executor.device_stages)
    assert {result.worker for result in results} <= set(executor.pool.pids())


def test_a_changed_model_ends_the_run_before_anything_is_answered(folder, artifact, images, executor):
    golden = artifact.folder / "golden" / "outputs.npy"
    before = golden.read_bytes()
    golden.write_bytes(before[:-4] + b"\x00\x00\x00\x40")
    executor.pool.close()
    try:
        with pytest.raises(ModelError, match="changed since it was built"):
            list(executor.pool.run(chunks(images[0], BATCH)))
    finally:
        golden.write_bytes(before)
        executor.pool.close()


def test_a_worker_that_finds_another_network_ends_the_run_before_anything_is_answered(
    artifact, images, executor, tmp_path
):
    """As where a deployment replaces the folder while a run is active: its golden images are sound."""
    another = built_colors(tmp_path, ChannelMeans())
    executor.pool.close()
    artifact.folder.rename(tmp_path / "before")
    shutil.copytree(another.folder, artifact.folder)
    try:
        with pytest.raises(ModelError, match=f"holds model {another.manifest.model_id} in place of"):
            list(executor.pool.run(chunks(images[0], BATCH)))
    finally:
        shutil.rmtree(artifact.folder)
        (tmp_path / "before").rename(artifact.folder)
        executor.pool.close()
