"""The packages that this process finds: the installed ones, without those that a test removes, with those it adds."""

import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infer_app.base.packages import installed_version, missing_decoders


class Installed:
    """A folder of links to all installed packages and their metadata."""

    def __init__(self, folder: Path, places: list[str]) -> None:
        self.folder = folder
        for path in (path for place in places for path in Path(place).iterdir()):
            link = folder / path.name
            if not link.exists():
                link.symlink_to(path)

    def remove(self, *names: str) -> None:
        for path in self.folder.iterdir():
            if path.name.partition(".")[0].partition("-")[0] in names:
                delete(path)
        for name in [name for name in sys.modules if name.partition(".")[0] in names]:
            del sys.modules[name]
        forget()

    def add(self, name: str, version: str, code: str | None = None) -> None:
        """Put a version in the place of the one that is there; without code it is the metadata alone."""
        for path in self.folder.glob(f"{name}-*"):
            delete(path)
        if code is not None:
            self.remove(name)
            (self.folder / f"{name}.py").write_text(code)
        (self.folder / f"{name}-{version}.dist-info").mkdir()
        (self.folder / f"{name}-{version}.dist-info/METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        forget()


def delete(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def forget() -> None:
    """Forget what was found before."""
    importlib.invalidate_caches()
    installed_version.cache_clear()
    missing_decoders.cache_clear()


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """installed.remove("pyarrow") is as if this process ran where that package is not installed.

    Modules that were imported before are back after the test.
    """
    folder, path, modules = tmp_path_factory.mktemp("site-packages"), sys.path[:], sys.modules.copy()
    places = [place for place in path if place.endswith(("site-packages", "dist-packages"))]
    installed = Installed(folder, places)
    sys.path[:] = [*(place for place in path if place not in places), str(folder)]
    forget()
    try:
        yield installed
    finally:
        sys.path[:] = path
        for name in sys.modules.keys() - modules.keys():
            if Path(getattr(sys.modules[name], "__file__", None) or "/").resolve().is_relative_to(folder):
                del sys.modules[name]  # one that the test has added
        sys.modules.update(modules)
        forget()
