import pytest

from infer_app.base import packages
from infer_app.base.errors import ModelError, install


def imports(monkeypatch, *broken):
    """Let the libraries be installed, and the import of some of them fail as beside another torch."""

    def import_module(name):
        if name in broken:
            raise RuntimeError(f"operator {name}::nms does not exist")

    monkeypatch.setattr(packages, "find_spec", str)
    monkeypatch.setattr(packages, "import_module", import_module)


@pytest.mark.parametrize("name", ["torchvision", "timm", "transformers"])
def test_a_torchvision_that_can_not_be_imported_is_named_with_the_one_that_fits(monkeypatch, name):
    imports(monkeypatch, "torchvision")
    monkeypatch.setattr(packages, "version", {"torch": "2.12.1+cpu"}.get)
    with pytest.raises(ModelError, match=r"^torchvision .* beside torch 2\.12\.1\+cpu: operator torchvision") as caught:
        packages.require_library(name)
    assert caught.value.hint.startswith("torch 2.12 needs torchvision 0.27")


def test_another_library_that_can_not_be_imported_is_named(monkeypatch):
    imports(monkeypatch, "timm")
    packages.require_library("transformers")
    with pytest.raises(ModelError, match="^timm .*: operator timm::nms does not exist") as caught:
        packages.require_library("timm")
    assert caught.value.hint == "pip install -U timm"


@pytest.mark.parametrize(("name", "hint"), [("timm", install("timm")), ("torchvision", "torchvision 0.")])
def test_a_library_that_is_missing_is_named_with_what_installs_it(monkeypatch, name, hint):
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=f"needs the package {name}") as caught:
        packages.require_library(name)
    assert hint in caught.value.hint
