import subprocess
import sys

import pytest

from infer_app.models.runtimes import gpu_probe
from infer_app.models.runtimes.gpu_probe import Gpu, Host, describe_host

GPU_HOST = Host("linux_x86_64", Gpu("NVIDIA H200", "9.0"), "2.13.0", "13.0", "2.13.0", "11.0.0.114")


def test_what_a_plan_requires_is_all_that_is_known_of_the_machine():
    assert GPU_HOST.requirements() == {
        "abi": "9",
        "compute_capability": "9.0",
        "cuda": "13.0",
        "gpu": "NVIDIA H200",
        "platform": "linux_x86_64",
        "tensorrt": "11.0.0.114",
        "torch": "2.13.0",
        "torch_tensorrt": "2.13.0",
    }
    assert Host("linux_x86_64").requirements() == {"platform": "linux_x86_64"}


@pytest.mark.parametrize(
    ("torch_tensorrt", "abi"), [("2.10.0", "7"), ("2.11.0", "8"), ("2.13.0", "9"), ("2.99.0", None), (None, None)]
)
def test_the_format_of_embedded_plans_follows_from_torch_tensorrt_s_version(torch_tensorrt, abi):
    assert Host("linux_x86_64", torch_tensorrt=torch_tensorrt).abi == abi


@pytest.mark.parametrize(
    ("text", "cuda"),
    [
        ("cuda: Optional[str] = '13.0'\nhip = None\n", "13.0"),
        ("cuda = '12.8'", "12.8"),
        ("cuda: Optional[str] = None", None),
    ],
)
def test_torch_s_cuda_is_read_without_importing_it(tmp_path, monkeypatch, text, cuda):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "torch" / "version.py").write_text(f"__version__ = '2.13.0'\n{text}\n")
    script = "from infer_app.models.runtimes.gpu_probe import describe_host; print(describe_host().cuda)"
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{':'.join(sys.path)}")
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == f"{cuda}\n"


def test_a_machine_without_a_driver_has_no_gpu(monkeypatch):
    def no_library(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(gpu_probe.ctypes, "CDLL", no_library)
    assert gpu_probe._first_gpu() is None


def test_this_machine_can_be_described():
    host = describe_host()
    assert host.platform.startswith("linux_")
    assert host.torch is not None
