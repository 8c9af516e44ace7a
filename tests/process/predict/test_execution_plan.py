"""How a model will run; the cores and the memory are said by the tests."""

import pytest

from infer_app.base.model_variants import OPENVINO_FP32, TORCHSCRIPT
from infer_app.base.settings.load import load_settings
from infer_app.build.variants import openvino_variants
from infer_app.build.variants.openvino_variants import add_variants
from infer_app.predict import execution_plan
from infer_app.predict.execution_plan import ASSUMED_WORKER_BYTES, ExecutionPlan, plan_execution
from infer_app.predict.variant_selection import VariantRequest, VariantSelection
from tests.support.networks import SIZE, Network, built

CORES = 4
SELECTED = VariantSelection(OPENVINO_FP32, {TORCHSCRIPT: f"{OPENVINO_FP32} comes first"})


@pytest.fixture(autouse=True)
def _four_cores_and_memory_enough(monkeypatch):
    monkeypatch.setattr(execution_plan, "usable_cores", lambda: CORES)
    has_memory(monkeypatch, None)


def has_memory(monkeypatch, num_bytes):
    monkeypatch.setattr("infer_app.base.machine.usable_memory", lambda: num_bytes)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    """With both fp32 variants."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openvino_variants, "computes_bf16", lambda: False)
        return add_variants(built(tmp_path_factory.mktemp("model"), Network(), labels=None), None, print)


@pytest.mark.parametrize(("asked", "workers"), [(0, CORES), (2, 2), (16, 16)])
def test_a_worker_for_every_core_unless_others_are_asked_for(artifact, asked, workers, caplog):
    caplog.set_level("INFO", logger="infer_app")
    assert plan_execution(artifact, VariantRequest(), asked) == ExecutionPlan(SELECTED, None, workers, 1)
    assert (f"{workers} workers on {CORES} cores: more than one a core" in caplog.text) == (workers > CORES)


@pytest.mark.parametrize(("room_for", "workers", "threads"), [(3.5, 3, 1), (2.5, 2, 2), (0.5, 1, 4)])
def test_fewer_workers_where_there_is_not_the_memory_for_more(
    artifact, monkeypatch, caplog, room_for, workers, threads
):
    """Then no core is left over, but where they can't be shared evenly."""
    has_memory(monkeypatch, int(room_for * execution_plan.estimate_bytes(artifact, OPENVINO_FP32)))
    found = plan_execution(artifact, VariantRequest())
    assert (found.workers, found.threads) == (workers, threads)
    assert caplog.messages == [f"{workers} workers instead of 4: there is not enough memory for more"]
    assert plan_execution(artifact, VariantRequest(), 4).workers == 4  # who asks for them knows


def test_models_that_run_together_share_the_memory_of_a_worker(artifact, monkeypatch, tmp_path):
    """Each network, and the libraries once."""
    monkeypatch.setattr(execution_plan, "estimate_bytes", lambda *_: ASSUMED_WORKER_BYTES + (100 << 20))
    has_memory(monkeypatch, int(2.9 * (ASSUMED_WORKER_BYTES + (200 << 20))))
    (tmp_path / "infer.toml").write_text("")
    found = execution_plan.plan_together(load_settings(tmp_path / "infer.toml"), [artifact, artifact], [None, None])
    assert [(plan.workers, plan.threads) for plan in found] == [(2, 2), (2, 2)]


@pytest.mark.parametrize(("pixels", "batch_size"), [(5, None), (3, 2), (1, 1)])
def test_large_inputs_are_computed_in_small_batches(artifact, monkeypatch, pixels, batch_size):
    monkeypatch.setattr("infer_app.base.size.BATCH_PIXELS", pixels * SIZE**2)
    assert plan_execution(artifact, VariantRequest()).batch_size == batch_size
