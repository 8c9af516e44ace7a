from pathlib import Path

import pytest

from infer_app.predict.runtimes.gpu_probe import Host, describe_host


@pytest.mark.parametrize(
    ("torch_tensorrt", "abi"), [("2.10.0", "7"), ("2.11.0", "8"), ("2.13.0", "9"), ("2.99.0", None), (None, None)]
)
def test_the_format_of_embedded_plans_follows_from_torch_tensorrt_s_version(torch_tensorrt, abi):
    assert Host("linux_x86_64", torch_tensorrt=torch_tensorrt).abi == abi


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="for a machine without NVIDIA's driver")
def test_a_machine_without_a_driver_has_no_gpu():
    assert describe_host().gpu is None
