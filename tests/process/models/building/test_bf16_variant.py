import pytest

from infer_app.errors import ModelError
from infer_app.model_variants import OPENVINO_BF16, OPENVINO_FP32, TORCHSCRIPT
from infer_app.models.artifact.artifact import open_artifact
from infer_app.models.artifact.bundle import pack, unpack
from infer_app.models.building import openvino_variants
from infer_app.models.building.golden_set import load_pixels
from infer_app.models.building.openvino_variants import add_variants
from infer_app.models.runtimes import gpu_probe
from infer_app.models.runtimes.open_variant import open_variant
from infer_app.models.selection import measure
from infer_app.models.verification.golden import check_golden
from tests.support.networks import Network, built


@pytest.fixture(autouse=True)
def _cpu_with_bf16(monkeypatch):
    monkeypatch.setattr(openvino_variants, "computes_bf16", lambda: True)
    monkeypatch.setattr(gpu_probe, "computes_bf16", lambda: True)
    monkeypatch.setattr(measure, "ROUND_S", 0.001)


@pytest.fixture
def artifact(tmp_path):
    return add_variants(built(tmp_path, Network(), labels=None), None, print)


def test_a_cpu_that_computes_bf16_gets_a_variant_without_files_of_its_own_that_passes_the_golden_check(artifact):
    assert list(artifact.manifest.variants) == [TORCHSCRIPT, OPENVINO_FP32, OPENVINO_BF16]
    assert not [name for name in artifact.manifest.files if OPENVINO_BF16 in name]
    details = artifact.manifest.variants[OPENVINO_BF16]
    assert (details["meets_bar"], details["ms_when_built"].keys()) == (True, {"bf16", "fp32"})
    # no difference at all on a CPU where OpenVINO computes in fp32
    assert details["tolerance"]["relative"] >= 2 * details["parity"]["relative_difference"]
    artifact.verify()
    model = open_variant(artifact, OPENVINO_BF16)
    load = lambda data: load_pixels(data, artifact.manifest.recipe)  # noqa: E731
    check_golden(artifact, load, model, OPENVINO_BF16, model.batch_size)


def test_a_machine_without_bf16_does_not_open_it_as_something_else(artifact, monkeypatch):
    """OpenVINO itself would compute in fp32 there; a node of a cluster opens what another machine has planned."""
    monkeypatch.setattr(gpu_probe, "computes_bf16", lambda: False)
    with pytest.raises(ModelError, match=r"cpu-openvino-bf16 can't run on .*: this CPU does not compute bf16"):
        open_variant(artifact, OPENVINO_BF16)


def test_it_travels_with_the_graph_that_it_computes(artifact, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert open_variant(open_artifact(unpack(pack(artifact, OPENVINO_BF16))), OPENVINO_BF16).batch_size


def test_a_model_that_was_built_without_bf16_gains_it_on_such_a_cpu(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(openvino_variants, "computes_bf16", lambda: False)
        before = add_variants(built(tmp_path, Network(), labels=None), None, print)
    assert list(before.manifest.variants) == [TORCHSCRIPT, OPENVINO_FP32]
    assert list(add_variants(before, None, print).manifest.variants) == [TORCHSCRIPT, OPENVINO_FP32, OPENVINO_BF16]
