"""A plan's whole way, from build to run, on a machine without a GPU: a stand-in for torch-tensorrt's runtime, written
in C++ and compiled here, registers the same class and operator and refuses what the real one refuses.

The embedding is that of tests/standin/torch_tensorrt: the real one is compiled against CUDA's libraries. What of the
real package can be read without them is held against our calls in test_tensorrt_wheel.py.
"""

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from infer_app.artifact.artifact import open_artifact, record_variant
from infer_app.base.errors import ModelError, UsageError
from infer_app.base.model_variants import TORCHSCRIPT
from infer_app.base.packages import install
from infer_app.build.variants.add_gpu_variants import check_gpu_variants
from infer_app.predict.runtimes import tensorrt
from infer_app.predict.runtimes.gpu_probe import missing_for
from infer_app.predict.workers.isolated_call import run_in_process
from tests.standin import child_calls
from tests.standin.build import HERE, compile_runtime, lay_out
from tests.standin.child_calls import HOST
from tests.support.networks import Network, built, random_pixels, run_artifact

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TRT = "trt-fp16"
REBUILD = "build it again on this machine: `infer model build SOURCE --name NAME --variant trt`"


@pytest.fixture(scope="session")
def runtime(request):
    """The compiled stand-in, kept until its source or torch changes."""
    if shutil.which("g++") is None:
        pytest.skip("needs a C++ compiler: apt-get install g++")
    code = (HERE / "tensorrt_runtime.cpp").read_bytes() + torch.__version__.encode()
    return compile_runtime(request.config.cache.mkdir(f"tensorrt-{hashlib.sha256(code).hexdigest()[:12]}"))


@pytest.fixture
def on(runtime, tmp_path, monkeypatch):
    """on(abi="8") puts the packages of such a machine on the path that every new process gets."""

    def lay_out_and_use(**machine):
        monkeypatch.syspath_prepend(lay_out(tmp_path / f"machine{len(list(tmp_path.iterdir()))}", runtime, **machine))

    return lay_out_and_use


@pytest.fixture(scope="module")
def built_once(runtime, tmp_path_factory):
    """A small network with a plan, built on the usual machine."""
    artifact = built(tmp_path_factory.mktemp("network"), Network(), labels=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(lay_out(tmp_path_factory.mktemp("machine"), runtime))
        run_in_process(child_calls.build, artifact.folder, TRT)
    return open_artifact(artifact.folder)


@pytest.fixture
def artifact(built_once, tmp_path):
    return open_artifact(Path(shutil.copytree(built_once.folder, tmp_path / "network")))


def test_a_built_variant_says_what_it_needs_and_how_near_it_is(built_once):
    details = built_once.manifest.variants[TRT]
    assert details["requires"] == {
        "abi": "9",
        "compute_capability": "9.0",
        "cuda": "13.0",
        "gpu": "Stand-in",
        "platform": "linux_x86_64",
        "tensorrt": "11.0.0",
        "torch": "2.13.0",
        "torch_tensorrt": "2.13.0",
    }
    assert details["bindings"] == {"inputs": ["pixels"], "outputs": ["output0"]}
    assert details["batch"] == {"min": 1, "best": 64, "max": 256}
    assert (0.999 <= details["parity"]["cosine"] < 1, details["tolerance"]["cosine"]) == (True, 0.999)
    files = {path for path in built_once.manifest.files if path.startswith("variants/")}
    assert files == {f"variants/{TRT}/engine.plan", f"variants/{TRT}/model.ts"}
    built_once.verify()


@pytest.mark.parametrize("batch_size", [1, 4, 64])
def test_a_fresh_process_loads_it_and_answers_as_the_source_does_in_any_batch(built_once, on, batch_size):
    on()
    pixels = random_pixels(9)
    actual = run_in_process(child_calls.predict, built_once.folder, TRT, pixels, batch_size)
    np.testing.assert_allclose(actual, run_artifact(built_once, pixels), rtol=0, atol=5e-3)


def test_a_batch_that_the_plan_was_not_built_for_is_told(built_once, on):
    on()
    with pytest.raises(ModelError, match="it can't run 257 images at a time: .*outside of the optimization profile"):
        run_in_process(child_calls.predict, built_once.folder, TRT, random_pixels(1), 257)


def test_bfloat16_is_a_variant_of_its_own(artifact, on):
    on()
    details = run_in_process(child_calls.build, artifact.folder, "trt-bf16")
    assert 0.999 <= details["parity"]["cosine"] < 1
    assert list(open_artifact(artifact.folder).manifest.variants) == [TORCHSCRIPT, TRT, "trt-bf16"]


@pytest.mark.parametrize("variant", ["trt-fp16", "cuda-fp16"])
def test_what_does_not_answer_as_the_source_does_is_not_published(tmp_path, on, variant, monkeypatch):
    on()
    artifact = built(tmp_path / "other", Network(), labels=None)
    if variant == "cuda-fp16":  # made from the artifact itself, so the bar is raised instead of the weights changed
        with pytest.raises(ModelError, match="cosine") as caught:
            run_in_process(child_calls.build_with_bar, artifact.folder, variant, 1.1)
    else:
        with pytest.raises(ModelError, match="the worst golden image has cosine .* at least 0.999 is needed") as caught:
            run_in_process(child_calls.build, artifact.folder, variant, child_calls.make_other_network)
    assert caught.value.exit_code == 12
    assert open_artifact(artifact.folder) == artifact
    assert not (artifact.folder / "variants").exists()


def test_another_abi_is_embedded_again_from_the_plan(artifact, on):
    on(abi="10")
    with pytest.raises(ModelError, match="embedded by another torch-tensorrt: .*ABI Version .9.") as caught:
        run_in_process(tensorrt.load_embedded, artifact.read(f"variants/{TRT}/model.ts"), child_calls.CPU)
    assert caught.value.hint == "it is embedded again from engine.plan"
    pixels = random_pixels(3)
    actual = run_in_process(child_calls.predict, artifact.folder, TRT, pixels, 2)
    np.testing.assert_allclose(actual, run_artifact(artifact, pixels), rtol=0, atol=5e-3)
    artifact.verify()  # in memory: nothing of the model changed


@pytest.mark.parametrize(
    ("machine", "damage", "said"),
    [
        ({"capability": "8.0"}, None, "for a GPU of another compute capability: No compatible device"),
        ({"tensorrt": "11.1.0"}, None, "TensorRT rejects the plan"),
        ({"abi": "10"}, lambda plan: plan[:-1000], "TensorRT rejects the plan: it is damaged"),
        ({"abi": "10"}, lambda _: b"\0" * 100, "TensorRT rejects the plan: it is damaged"),
        ({"abi": "10"}, lambda _: b"", "TensorRT rejects the plan: it is damaged"),
    ],
    ids=["capability", "tensorrt", "cut off", "zeros", "empty"],
)
def test_a_plan_of_another_machine_or_a_damaged_one_is_refused(artifact, on, machine, damage, said):
    """Also one whose checksum fits, as a plan that was stored so; another ABI, so that it is embedded again."""
    on(**machine)
    if damage:
        plan, module = (artifact.read(f"variants/{TRT}/{file}") for file in ("engine.plan", "model.ts"))
        details = artifact.manifest.variants[TRT]
        record_variant(artifact, TRT, details, {"engine.plan": damage(plan), "model.ts": module})
    with pytest.raises(ModelError, match=said) as caught:
        run_in_process(child_calls.predict, artifact.folder, TRT, random_pixels(1), 1)
    assert (caught.value.hint, caught.value.exit_code) == (REBUILD, 12)


def test_a_missing_runtime_is_told(artifact):
    with pytest.raises(ModelError, match="torch-tensorrt can't be loaded: No module named 'torch_tensorrt'") as caught:
        run_in_process(child_calls.predict, artifact.folder, TRT, random_pixels(1), 1)
    assert caught.value.hint == f"{install('trt')} on a machine with an NVIDIA GPU"
    with pytest.raises(ModelError, match="runtime is not loaded: Unknown type name '__torch__.torch.classes.tensorrt"):
        run_in_process(child_calls.load_without_runtime, artifact.read(f"variants/{TRT}/model.ts"))


@pytest.mark.parametrize(("file", "abi"), [("engine.plan", "10"), ("model.ts", "9")])
def test_a_changed_file_is_refused_before_it_is_loaded(artifact, on, file, abi):
    on(abi=abi)
    path = artifact.folder / "variants" / TRT / file
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    with pytest.raises(ModelError, match=f"{file}: changed since it was built"):
        run_in_process(child_calls.predict, artifact.folder, TRT, random_pixels(1), 1)


def test_names_are_read_from_the_plan(artifact, on):
    on()
    bindings = run_in_process(tensorrt.read_bindings, artifact.read(f"variants/{TRT}/engine.plan"))
    assert (bindings.inputs, bindings.outputs) == (("pixels",), ("output0",))
    with pytest.raises(ModelError, match=r"TensorRT 11\.0\.0 can't read the plan"):
        run_in_process(tensorrt.read_bindings, b"no plan")


def test_the_manifest_alone_tells_that_a_plan_is_for_another_machine(built_once):
    requires = built_once.manifest.variants[TRT]["requires"]
    assert missing_for(TRT, requires, HOST) is None
    assert missing_for(TRT, requires | {"abi": "8"}, HOST) is None
    for key, value, what in (
        ("compute_capability", "8.0", "compute capability 8.0, this machine has 9.0"),
        ("tensorrt", "10.15.1", "TensorRT 10.15.1, this machine has 11.0.0"),
        ("platform", "linux_aarch64", "platform linux_aarch64, this machine has linux_x86_64"),
    ):
        told = missing_for(TRT, requires | {key: value}, HOST)
        assert told == f"built for {what}: build it here: `infer model build SOURCE --name NAME --variant trt`"


def test_what_can_not_be_built_here_is_refused_before_anything_is_done():
    assert check_gpu_variants(["trt", "cuda", "trt-fp16"], "callable", HOST) == ["trt-fp16", "cuda-fp16"]
    with pytest.raises(ModelError, match="torch.export takes no TorchScript") as caught:
        check_gpu_variants(["trt"], "torchscript", HOST)
    assert "package.module:function" in caught.value.hint
    assert check_gpu_variants(["cuda"], "torchscript", HOST) == ["cuda-fp16"]
    with pytest.raises(UsageError, match="no GPU variant 'cpu-openvino-int8'"):
        check_gpu_variants(["cpu-openvino-int8"], "callable", HOST)
