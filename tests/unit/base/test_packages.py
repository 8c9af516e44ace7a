import shlex
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from infer_app.base import errors
from infer_app.base.packages import find_mismatches, recorded_packages

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
        ('pytest<2; extra == "test"', None),  # nothing that runs daily needs it
    ],
)
def test_what_is_installed_is_compared_with_what_the_program_requires(requirement, expected):
    found = [(one.name, one.installed, one.required) for one in find_mismatches([requirement])]
    assert found == ([expected] if expected else [])


def test_the_fix_can_be_run_as_printed():
    (found,) = find_mismatches(["torch>=1,<2"])
    assert found.fix == f"{sys.executable} -m pip install 'torch<2,>=1'"


@pytest.mark.parametrize("extra", ["torch", "int8", "heic", "s3"])
def test_an_extra_is_installed_by_what_it_requires_for_no_index_has_this_package(extra, installed):
    assert not list(find_mismatches([f"{shlex.split(errors.install(extra))[-1]}"]))
    assert errors.install(extra).startswith(f"{sys.executable} -m pip install ")
    installed.remove("pip")  # as in the container image
    assert errors.install(extra).endswith(f" EXTRAS={extra}")
    assert "infer_app" not in errors.install(extra)


def test_a_program_that_is_not_installed_names_its_folder(monkeypatch):
    monkeypatch.setattr(sys, "path", [])  # where distributions are looked for
    assert f"{Path(errors.__file__).parents[2]}[torch]" in errors.install("torch")
