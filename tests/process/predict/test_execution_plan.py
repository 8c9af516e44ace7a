"""How a model will run; the cores and the memory are said by the tests."""

from dataclasses import replace

import pytest

from infer_app.base.machine import ASSUMED_WORKER_BYTES
from infer_app.base.model_variants import OPENVINO_FP32, TORCHSCRIPT
from infer_app.base.settings.load import load_settings
from infer_app.base.size import BATCH_PIXELS, Size
from infer_app.build.variants.openvino_variants import add_variants
from infer_app.predict import execution_plan
from infer_app.predict.execution_plan import ExecutionPlan, plan_execution
from infer_app.predict.variant_selection import VariantRequest
from tests.support.box import open_box
from tests.support.networks import Network, built

CORES = 4
SELECTED = OPENVINO_FP32, {TORCHSCRIPT: f"{OPENVINO_FP32} comes first"}


@pytest.fixture(autouse=True)
def _four_cores_and_memory_enough(box):
    box.cores = set(range(CORES))


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    """With both fp32 variants."""
    with open_box(tmp_path_factory.mktemp("box")):  # whose processor has no bf16
        return add_variants(built(tmp_path_factory.mktemp("model"), Network(), labels=None), None, print)


def taking(artifact, width, height):
    """The artifact with another input."""
    recipe = replace(artifact.manifest.recipe, size=Size(width, height))
    return replace(artifact, manifest=replace(artifact.manifest, recipe=recipe))


@pytest.mark.parametrize(("asked", "workers"), [(0, CORES), (2, 2), (16, 16)])
def test_a_worker_for_every_core_unless_others_are_asked_for(artifact, asked, workers, caplog):
    caplog.set_level("INFO", logger="infer_app")
    assert plan_execution(artifact, VariantRequest(), asked) == ExecutionPlan(*SELECTED, None, workers, 1)
    assert (f"{workers} workers on {CORES} cores: more than one a core" in caplog.text) == (workers > CORES)


@pytest.mark.parametrize(("room_for", "workers", "threads"), [(3.5, 3, 1), (2.5, 2, 2), (0.5, 1, 4)])
def test_fewer_workers_where_there_is_not_the_memory_for_more(artifact, box, caplog, room_for, workers, threads):
    """Then no core is left over, but where they can't be shared evenly."""
    box.has_available(int(room_for * execution_plan.estimate_bytes(artifact, OPENVINO_FP32)))
    found = plan_execution(artifact, VariantRequest())
    assert (found.workers, found.threads) == (workers, threads)
    assert caplog.messages == [f"{workers} workers instead of 4: there is not enough memory for more"]
    assert plan_execution(artifact, VariantRequest(), 4).workers == 4  # who asks for them knows


def test_models_that_run_together_share_the_memory_of_a_worker(artifact, box, tmp_path):
    """Each network, and the libraries once."""
    large = taking(artifact, 591, 591)  # which takes some 100 MiB
    of_network = execution_plan.estimate_bytes(large, OPENVINO_FP32) - ASSUMED_WORKER_BYTES
    box.has_available(int(2.9 * (ASSUMED_WORKER_BYTES + 2 * of_network)))
    (tmp_path / "infer.toml").write_text("")
    found = execution_plan.plan_together(load_settings(tmp_path / "infer.toml"), [large, large], [None, None])
    assert [(plan.workers, plan.threads) for plan in found] == [(2, 2), (2, 2)]


@pytest.mark.parametrize(("room_for", "batch_size"), [(5, None), (3, 2), (1, 1)])
def test_large_inputs_are_computed_in_small_batches(artifact, room_for, batch_size):
    large = taking(artifact, 1024, BATCH_PIXELS // 1024 // room_for)
    assert plan_execution(large, VariantRequest()).batch_size == batch_size
