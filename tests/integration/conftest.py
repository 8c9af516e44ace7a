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
def make_project(tmp_path: Path, built_models: Path) -> Callable[[str], Project]:
    return lambda name: Project(tmp_path / name, built_models)


@pytest.fixture
def project(make_project: Callable[[str], Project]) -> Project:
    return make_project("project")


@pytest.fixture
def watching(project: Project) -> None:
    """Let each run register what is new in the project's folder `photos`, as `infer init` does."""
    project.set("images", watch=["photos"])
