"""What `infer doctor` says of the installed packages."""

import pytest

from infer_app.base.errors import NO_TORCH, ModelError, install
from infer_app.base.model_variants import CUDA_FP16
from infer_app.base.packages import Mismatch
from infer_app.predict.runtimes.gpu_probe import Gpu, Host, missing_here
from infer_app.run import machine_checks

TORCH = Mismatch("torch", "2.15.0", "torch<2.14,>=2.11")
OPENVINO = Mismatch("openvino", None, "openvino>=2026.0")
BROKEN = ModelError("torchvision can't be imported", "install the other")


@pytest.fixture
def findings(monkeypatch):
    def check(*mismatches, torchvision=None, is_installed=True):
        def require_library(name):
            if torchvision:
                raise torchvision

        monkeypatch.setattr(machine_checks, "require_library", require_library)
        monkeypatch.setattr(machine_checks, "find_mismatches", lambda: iter(mismatches))
        monkeypatch.setattr(machine_checks, "find_spec", lambda name: name if is_installed else None)
        found = list(machine_checks.check_versions(None))
        assert {(one.check, one.exit_code) for one in found} == {("versions", 0)}
        return [(one.found, one.fix) for one in found]

    return check


def test_versions_that_are_not_supported_are_named_with_the_command_that_installs_others(findings):
    found = "torch 2.15.0 is untested: torch<2.14,>=2.11 is required"
    assert findings(TORCH) == [(found, TORCH.fix)]
    assert findings(OPENVINO) == [("openvino is not installed: openvino>=2026.0 is required", OPENVINO.fix)]


def test_versions_that_fit_are_one_line_and_a_torchvision_of_another_torch_is_noted(findings):
    ((found, fix),) = findings()
    assert (found.startswith("torch "), found.endswith(": as required"), fix) == (True, True, "")
    assert findings(torchvision=BROKEN)[1:] == [(BROKEN.message, BROKEN.hint)]
    assert len(findings(torchvision=BROKEN, is_installed=False)) == 1


def test_a_gpu_without_torch_is_told_with_what_installs_it(monkeypatch):
    host = Host("linux_x86_64", Gpu("NVIDIA H200", "9.0"))
    monkeypatch.setattr(machine_checks, "describe_host", lambda: host)
    found, _ = machine_checks.check_gpu(None)
    assert (found.found, found.fix) == (f"NVIDIA H200, but {NO_TORCH}", install("torch"))
    assert missing_here(CUDA_FP16, host) == f"{NO_TORCH}: {install('torch')}"
