"""What `infer doctor` says of the installed packages."""

import pytest

from infer_app.base.errors import NO_TORCH
from infer_app.base.model_variants import CUDA_FP16
from infer_app.base.packages import Mismatch, install
from infer_app.predict.runtimes.gpu_probe import Gpu, Host, missing_here
from infer_app.run.database_checks import Finding
from infer_app.run.machine_checks import check_host, check_versions

TORCH = Mismatch("torch", "2.15.0", "torch<2.14,>=2.11")
OPENVINO = Mismatch("openvino", None, "openvino>=2026.0")
BROKEN = "raise RuntimeError('operator torchvision::nms does not exist')"  # as beside another torch


@pytest.fixture
def installed(installed):
    """With a torchvision that can be imported."""
    installed.add("torchvision", "0.28", "")
    return installed


def findings():
    found = list(check_versions(None))
    assert {(one.check, one.exit_code) for one in found} == {("versions", 0)}
    return [(one.found, one.fix) for one in found]


def test_versions_that_are_not_supported_are_named_with_the_command_that_installs_others(installed):
    installed.add("torch", TORCH.installed)
    assert findings() == [("torch 2.15.0 is untested: torch<2.14,>=2.11 is required", TORCH.fix)]


def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it(installed):
    installed.remove("openvino")
    assert findings() == [("openvino is not installed: openvino>=2026.0 is required", OPENVINO.fix)]


def test_versions_that_fit_are_one_line_and_a_torchvision_of_another_torch_is_noted(installed):
    ((found, fix),) = findings()
    assert (found.startswith("torch "), found.endswith(": as required"), fix) == (True, True, "")
    installed.add("torchvision", "0.1", BROKEN)
    _, (found, fix) = findings()
    assert (found.startswith("torchvision 0.1 can't be imported"), fix.startswith("torch ")) == (True, True)
    installed.remove("torch")
    assert len(findings()) == 1


def test_a_gpu_without_torch_is_told_with_what_installs_it():
    host = Host("linux_x86_64", Gpu("NVIDIA H200", "9.0"))
    found, _ = check_host(host)
    assert found == Finding("gpu", f"NVIDIA H200, but {NO_TORCH}", install("torch"))
    assert missing_here(CUDA_FP16, host) == f"{NO_TORCH}: {install('torch')}"
