"""A model with GPU variants on a machine without a GPU: what is refused, what is passed over, and what is told."""

import json
import shutil
import subprocess

import pytest
import torch

from infer_app.artifact.artifact import record_variant
from infer_app.artifact.models_folder import find_artifact
from infer_app.build.variants.add_gpu_variants import BuildTarget, add_gpu_variants
from infer_app.predict.runtimes.gpu_probe import Gpu, Host, describe_host
from tests.support.networks import ChannelMeans, save
from tests.support.projects import DATE, PLAIN, Project, install

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(describe_host().gpu is not None, reason="this machine has a GPU, which would be used"),
]

TRT, CUDA = "trt-fp16", "cuda-fp16"
NO_GPU = "no NVIDIA GPU is found: nvidia-smi must show one, and a container be started with it"
DRIVER = """
int cuInit(unsigned flags) { return 0; }
int cuDeviceGetCount(int* count) { *count = 1; return 0; }
int cuDeviceGet(int* device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char* name, int length, int device) { __builtin_strcpy(name, "Stand-in H200"); return 0; }
int cuDeviceGetAttribute(int* found, int attribute, int device) { *found = attribute == 75 ? 9 : 0; return 0; }
"""


@pytest.fixture
def with_gpu_variants(project: Project) -> Project:
    """`colors` as it comes from a machine with a GPU, and a day of six images."""
    artifact = find_artifact(project.folder / "models", "colors")
    host = Host("linux_x86_64", Gpu("NVIDIA H200", "9.0"), "2.13.0", "13.0", "2.13.0", "11.0.0")
    artifact = add_gpu_variants(artifact, [CUDA], BuildTarget(host, torch.device("cpu")), print)
    details = artifact.manifest.variants[CUDA] | {"requires": host.requirements()}
    record_variant(artifact, TRT, details, {"engine.plan": b"a plan", "model.ts": b"a module"})
    project.add_photos(6)
    return project


def test_a_gpu_variant_that_can_not_be_built_ends_with_12_and_publishes_nothing(project):
    shutil.rmtree(project.folder / "models")
    save(ChannelMeans(), project.folder / "colors.ts")
    command = ("model", "build", "colors.ts", "--name", "colors", *PLAIN, "--variant", "trt,cuda")
    error = project.infer_json(*command, exit_code=12)
    assert error["error"] == f"trt-fp16 can't be built here: {NO_GPU}"
    assert error["hint"] == "nothing was published; build it where it will run"
    assert not (project.folder / "models").exists()


def test_auto_takes_the_cpu_and_keeps_in_the_run_row_what_was_passed_over(with_gpu_variants):
    project = with_gpu_variants
    report = project.infer_json("run", "--date", DATE)
    assert (report["variant"].startswith("cpu-"), report["predicted"]) == (True, 6)
    assert {variant: report["passed_over"][variant] for variant in (TRT, CUDA)} == {TRT: NO_GPU, CUDA: NO_GPU}
    ((throughput,),) = project.rows("SELECT throughput FROM infer_runs WHERE selected > 0")
    assert json.loads(throughput)["passed_over"] == report["passed_over"]
    assert f"{TRT} was passed over: {NO_GPU}" in project.errors


def test_a_model_with_gpu_variants_is_verified_and_shown_on_a_machine_without_one(with_gpu_variants):
    with_gpu_variants.infer("model", "verify", "colors")
    assert f"{TRT} runs on: compute capability 9.0, TensorRT 11.0.0, linux_x86_64" in with_gpu_variants.infer(
        "model", "show", "colors"
    )


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler: apt-get install gcc")
@pytest.mark.skipif(describe_host().cuda is not None, reason="torch has CUDA, and would meet the stand-in driver")
def test_a_gpu_whose_torch_has_no_cuda_is_told_apart(with_gpu_variants, tmp_path):
    """The driver is a library of five functions."""
    (tmp_path / "driver.c").write_text(DRIVER)
    library = tmp_path / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "driver.c")], check=True)
    driver = {"LD_LIBRARY_PATH": str(tmp_path)}
    error = with_gpu_variants.infer_json("run", "--date", DATE, "--device", "cuda", exit_code=12, **driver)
    assert "is built without CUDA: install torch's CUDA build" in error["error"]
    findings = with_gpu_variants.infer_json("doctor", **driver)["findings"]
    told = {finding["check"]: (finding["found"], finding["fix"]) for finding in findings}
    torch_version = describe_host().torch
    assert told["gpu"] == (f"Stand-in H200, but torch {torch_version} has no CUDA", "install torch's CUDA build")
    assert told["tensorrt"] == ("torch-tensorrt is not installed", install("trt"))
