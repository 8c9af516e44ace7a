"""Projects of runs that are really made, with a model that the command has built."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.networks import ChannelMeans, save
from tests.support.projects import Project, build_model


@pytest.fixture(scope="session")
def built_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A models folder with `colors`, built once by the command from a TorchScript file."""
    folder = tmp_path_factory.mktemp("models-project")
    save(ChannelMeans(), folder / "colors.ts")
    build_model(folder, "colors.ts", "colors", "--recipe", "stretch", "--size", "16")
    return folder / "models"


@pytest.fixture
def project(make_project: Callable[[str], Project]) -> Project:
    return make_project("project")


@pytest.fixture
def make_project(tmp_path: Path, built_models: Path) -> Callable[[str], Project]:
    def make(name: str) -> Project:
        project = Project(tmp_path / name)
        project.init()
        project.use_models(built_models)
        return project

    return make
