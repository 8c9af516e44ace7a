import re
import shlex
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from infer_app.base import packages
from infer_app.base.packages import IMAGE_EXTRAS, find_mismatches, install, install_packages, recorded_packages

ROOT = Path(__file__).parents[3]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
MODERN = """NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder)
GCC version:  gcc version 12.3.0"""
FORMER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023"


def test_a_run_records_what_it_ran_on_and_leaves_out_what_the_machine_lacks(box):
    (box.proc / "cpuinfo").write_text("processor\t: 0\nmodel name\t: AMD EPYC 7B13\nmodel name\t: another\n")
    found = recorded_packages()
    assert found["torch"] == version("torch")
    assert found["pillow"] == version("Pillow")
    assert found["pyturbojpeg"] == version("PyTurboJPEG")
    assert found["cykooz_resizer"] == version("cykooz-resizer")
    assert found["cpu"] == "AMD EPYC 7B13"
    assert "nvidia_driver" not in found


@pytest.mark.parametrize(("text", "driver"), [(MODERN, "570.86.15"), (FORMER, "535.104.05")])
def test_the_driver_of_a_gpu_is_recorded(box, text, driver):
    (box.proc / "driver/nvidia").mkdir(parents=True)
    (box.proc / "driver/nvidia/version").write_text(text)
    assert recorded_packages()["nvidia_driver"] == driver


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("torch>=1,<2", ("torch", version("torch"), "torch<2,>=1")),
        ("torch>=1", None),
        ("no-such-package>=1", ("no-such-package", None, "no-such-package>=1")),
        ('no-such-package>=1; extra == "ray"', None),  # of an extra that is not installed
        ('torch>=1,<2; extra == "trt"', ("torch", version("torch"), "torch<2,>=1")),
        ('torch>=1,<2; platform_system == "Linux" and extra == "trt"', ("torch", version("torch"), "torch<2,>=1")),
        ('torch>=1,<2; platform_system == "Windows"', None),
    ],
)
def test_what_is_installed_is_compared_with_what_the_program_requires(requirement, expected):
    found = [(one.name, one.installed, one.required) for one in find_mismatches([requirement])]
    assert found == ([expected] if expected else [])


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_installed_by_what_it_requires(extra):
    python, *pip = shlex.split(install(extra))
    assert (python, *pip[:3]) == (sys.executable, "-m", "pip", "install")
    needed = {name for one in EXTRAS[extra] for name in ([one] if one != "infer_app[torch]" else EXTRAS["torch"])}
    assert {Requirement(one).name for one in pip[3:]} == {Requirement(one).name for one in needed}


def test_what_is_to_be_installed_fits_the_program():
    assert not list(find_mismatches(shlex.split(install("int8"))[4:]))
    assert install_packages("torch<2,>=1") == f"{sys.executable} -m pip install 'torch<2,>=1'"


def test_pip_is_installed_first_where_an_environment_has_none(installed):
    installed.remove("pip")
    assert install("heic").startswith(f"{sys.executable} -m ensurepip && {sys.executable} -m pip install ")


@pytest.mark.parametrize(("built", "wanted"), [("postgres,demo", "postgres,demo,heic"), ("", "heic")])
def test_a_container_image_is_built_again_with_the_extra_besides_those_it_has(monkeypatch, built, wanted):
    monkeypatch.setenv(IMAGE_EXTRAS, built)
    assert f"--build-arg EXTRAS={wanted}, " in install("heic")
    assert install_packages("openvino") == "build the container image again, with openvino"
    assert all(f"ENV {IMAGE_EXTRAS}=$EXTRAS" in file.read_text() for file in (ROOT / "docker").glob("Dockerfile*"))


def test_a_program_that_is_not_installed_names_its_folder(monkeypatch):
    monkeypatch.setattr(sys, "path", [])  # where distributions are looked for
    assert f"pip install -e {packages.SOURCE}[torch]" in install("torch").replace("'", "")


def test_an_extra_that_old_metadata_lacks_is_installed_from_the_clone(monkeypatch):
    monkeypatch.setattr(packages, "requires", lambda _: ['s3fs>=2025.2; extra == "s3"'])
    assert f"pip install -e {packages.SOURCE}[buckets]" in install("buckets").replace("'", "")


def test_only_extras_that_exist_are_named():
    texts = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("jobs/*"), ROOT / "infer_app/cli/project/template.toml"]
    named = {one for file in texts for one in re.findall(r"\bextra(?:\]\S+ `| `| )(\w+)\b`?[ ,.]", file.read_text())}
    assert named <= EXTRAS.keys()
