"""nvImageCodec, by its CPU decoder where there is no GPU; the code around it is the same."""

import subprocess
import sys

import pytest

pytest.importorskip("nvidia.nvimgcodec")


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)


def test_it_says_nothing_by_itself():
    script = (
        "import torch; from infer_app.images.decode.gpu_decoder import GpuDecoder; from infer_app.recipe import Recipe;"
        "decoder = GpuDecoder(torch.device('cpu')); print(decoder.name);"
        "decoder.pixels([b'no picture'], Recipe('stretch', 8))"
    )
    done = run(script)
    assert done.stdout.startswith("nvImageCodec 0.")
    assert done.stdout.endswith(" on cpu\n")
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ("sys.modules['nvidia'] = None", "decoding on a GPU needs nvImageCodec"),
        pytest.param(
            "from nvidia import nvimgcodec; nvimgcodec.Decoder = None.real",
            "nvImageCodec does not start",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_without_the_library_it_says_what_to_install(before: str, message: str):
    script = f"""
import sys, torch
from infer_app.errors import ModelError
from infer_app.images.decode.gpu_decoder import GpuDecoder
def fail(**_): raise RuntimeError("no CUDA driver")
{before.replace("None.real", "fail")}
try:
    GpuDecoder(torch.device("cpu"))
except ModelError as error:
    print(error, error.hint)
"""
    told = run(script).stdout
    assert message in told
    assert "pip install 'infer_app[gpu-decode]'" in told
