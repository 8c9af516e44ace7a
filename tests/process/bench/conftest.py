"""A workload of real files: JPEGs of differing shapes and a small model that was really built."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from infer_app.bench.workload import PixelReaders, Workload
from infer_app.images.decode.decoder import DecodeLimits
from infer_app.images.read.read_image import ReadLimits
from infer_app.models.artifact.artifact import Artifact
from infer_app.settings.load import load_settings
from tests.support.networks import built
from tests.support.photos import jpeg

NUM_IMAGES = 37  # two whole batches and a short one


@pytest.fixture(scope="session")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return built(tmp_path_factory.mktemp("bench-model"))


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("bench-photos")
    paths = [folder / f"{number:02}.jpg" for number in range(NUM_IMAGES)]
    for number, path in enumerate(paths):
        path.write_bytes(jpeg(40 + number, 60 - number, (200, 5 * number, 30)))
    return [str(path) for path in paths]


@pytest.fixture
def make_load(artifact: Artifact, tmp_path: Path) -> Callable[[list[str]], Workload]:
    (tmp_path / "infer.toml").touch()
    readers = PixelReaders(artifact, ReadLimits((Path("/"),), 1 << 20), DecodeLimits(1 << 20))

    def make(paths: list[str]) -> Workload:
        return Workload(paths, readers, 2, load_settings(tmp_path / "infer.toml"))

    return make
