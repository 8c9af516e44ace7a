import pytest

from infer_app.base.errors import ModelError
from infer_app.base.packages import install, install_packages
from infer_app.build.sources.source_facts import require_library

BROKEN = "raise RuntimeError('operator {}::nms does not exist')"  # as beside another torch


@pytest.mark.parametrize("name", ["torchvision", "timm", "transformers"])
def test_a_torchvision_that_can_not_be_imported_is_named_with_the_one_that_fits(installed, name):
    installed.add("torchvision", "0.28", BROKEN.format("torchvision"))
    installed.add("torch", "2.12.1+cpu")
    with pytest.raises(ModelError, match=r"^torchvision .* beside torch 2\.12\.1\+cpu: operator torchvision") as caught:
        require_library(name)
    assert caught.value.hint.startswith("torch 2.12 needs torchvision 0.27")


def test_another_library_that_can_not_be_imported_is_named(installed):
    installed.add("torchvision", "0.28", "")
    installed.add("transformers", "5.0", "")
    installed.add("timm", "1.0", BROKEN.format("timm"))
    require_library("transformers")
    with pytest.raises(ModelError, match="^timm .*: operator timm::nms does not exist") as caught:
        require_library("timm")
    assert caught.value.hint == install_packages("-U", "timm")


@pytest.mark.parametrize(("name", "hint"), [("timm", install("networks")), ("torchvision", "torchvision 0.")])
def test_a_library_that_is_missing_is_named_with_what_installs_it(installed, name, hint):
    installed.remove(name)
    with pytest.raises(ModelError, match=f"needs the package {name}") as caught:
        require_library(name)
    assert hint in caught.value.hint
