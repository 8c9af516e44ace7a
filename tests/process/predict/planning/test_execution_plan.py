"""How a model will run, by what was measured here; the cores and the memory are said by the tests."""

import shutil
from dataclasses import replace

import pytest

from infer_app.artifact.artifact import TUNING_FOLDER, open_artifact, record_variant
from infer_app.base.errors import ModelError
from infer_app.base.model_variants import OPENVINO_FP32, OPENVINO_INT8, TORCHSCRIPT
from infer_app.base.run_report import Alternative
from infer_app.base.settings.load import load_settings
from infer_app.build.variants import openvino_variants
from infer_app.build.variants.openvino_variants import add_variants
from infer_app.predict.planning import execution_plan
from infer_app.predict.planning import layouts as layouts_module
from infer_app.predict.planning.execution_plan import ExecutionPlan, measure_speeds, plan_execution
from infer_app.predict.planning.layouts import best_first, measure_layouts
from infer_app.predict.planning.tuning import Layout, Speed, load_tuning, new_tuning, save_tuning
from infer_app.predict.planning.variant_selection import VariantRequest, VariantSelection
from tests.support.networks import Means, Network, built

CORES = 4
SPEEDS = {TORCHSCRIPT: Speed(4, 14.0), OPENVINO_FP32: Speed(2, 11.5)}
SLOWER = {TORCHSCRIPT: "slower here: 14.00 ms per image"}


@pytest.fixture(autouse=True)
def _four_cores_and_memory_enough(monkeypatch):
    monkeypatch.setattr(execution_plan, "usable_cores", lambda: CORES)
    monkeypatch.setattr("infer_app.base.machine.usable_memory", lambda: None)


@pytest.fixture(scope="module")
def built_once(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openvino_variants, "computes_bf16", lambda: False)
        return add_variants(built(tmp_path_factory.mktemp("model"), Network(), labels=None), None, print).folder


@pytest.fixture
def artifact(tmp_path, built_once):
    """With both fp32 variants, and nothing measured."""
    return open_artifact(shutil.copytree(built_once, tmp_path / "network"))


@pytest.fixture
def measured(artifact):
    """measured(layouts…) keeps SPEEDS and such layouts of the fast variant for this host."""

    def keep(*layouts, speeds=SPEEDS, worker_bytes=None):
        tuning = replace(new_tuning(CORES, speeds), layouts={OPENVINO_FP32: layouts}, worker_bytes=worker_bytes)
        assert save_tuning(artifact.folder, CORES, tuning)

    return keep


@pytest.fixture
def nothing_is_measured(monkeypatch):
    monkeypatch.setattr(execution_plan, "run_in_process", lambda *_: pytest.fail("nothing has to be measured here"))


@pytest.mark.usefixtures("nothing_is_measured")
@pytest.mark.parametrize(
    ("layouts", "asked", "workers", "threads"),
    [
        pytest.param([Layout(2, 2, 170.0), Layout(4, 1, 160.0)], 0, 2, 2, id="the fastest that was measured"),
        pytest.param([], 0, CORES, 1, id="none was measured: a worker for every core"),
        # as many workers as were measured keep the threads they were measured with
        pytest.param([Layout(2, 2, 170.0)], 2, 2, 2, id="asked for as measured"),
        pytest.param([Layout(2, 2, 170.0)], 3, 3, 1, id="asked for otherwise"),
        pytest.param([Layout(2, 2, 170.0)], 16, 16, 1, id="asked for more than there are cores"),
    ],
)
def test_what_was_measured_is_what_runs_unless_other_workers_are_asked_for(
    artifact, measured, layouts, asked, workers, threads, caplog
):
    caplog.set_level("INFO", logger="infer_app")
    measured(*layouts)
    selected = VariantSelection(OPENVINO_FP32, SLOWER)
    assert plan_execution(artifact, VariantRequest(), asked) == ExecutionPlan(selected, 2, workers, threads)
    assert (f"{workers} workers on {CORES} cores: more than one a core" in caplog.text) == (workers > CORES)


@pytest.mark.usefixtures("nothing_is_measured")
def test_fewer_workers_where_there_is_not_the_memory_for_more(artifact, measured, monkeypatch, caplog):
    measured(Layout(4, 1, 170.0), worker_bytes=300 << 20)
    monkeypatch.setattr("infer_app.base.machine.usable_memory", lambda: 1000 << 20)
    found = plan_execution(artifact, VariantRequest())
    assert (found.workers, found.threads) == (3, 1)
    assert caplog.messages == ["3 workers instead of 4: there is not enough memory for more"]
    assert plan_execution(artifact, VariantRequest(), 4).workers == 4  # who asks for them knows
    monkeypatch.setattr("infer_app.base.machine.usable_memory", lambda: 700 << 20)
    found = plan_execution(artifact, VariantRequest())
    assert (found.workers, found.threads) == (2, 2)  # no core is left over


@pytest.mark.usefixtures("nothing_is_measured")
def test_models_that_run_together_share_the_memory_of_a_worker(artifact, measured, monkeypatch, tmp_path):
    measured(Layout(4, 1, 170.0), worker_bytes=execution_plan.ASSUMED_WORKER_BYTES + (100 << 20))
    together = execution_plan.ASSUMED_WORKER_BYTES + (200 << 20)  # each network, and the libraries once
    monkeypatch.setattr("infer_app.base.machine.usable_memory", lambda: int(2.9 * together))
    (tmp_path / "infer.toml").write_text("")
    loaded = load_settings(tmp_path / "infer.toml")
    found = execution_plan.plan_together(loaded, [artifact, artifact], [None, None])
    assert [(plan.workers, plan.threads) for plan in found] == [(2, 2), (2, 2)]


@pytest.mark.usefixtures("nothing_is_measured")
def test_where_there_is_nothing_to_choose_nothing_is_measured(artifact, tmp_path):
    """A model of one variant, and a variant that is asked for."""
    for model, variant, asked in (
        (built(tmp_path / "only", Means()), TORCHSCRIPT, VariantRequest()),
        (artifact, OPENVINO_FP32, VariantRequest(OPENVINO_FP32)),
    ):
        assert plan_execution(model, asked) == ExecutionPlan(VariantSelection(variant, {}), None, CORES, 1)
    assert not (artifact.folder / TUNING_FOLDER).exists()


@pytest.mark.usefixtures("nothing_is_measured")
@pytest.mark.parametrize("meets_bar", [False, True])
def test_int8_that_is_good_and_not_allowed_is_offered_with_what_it_would_bring(artifact, measured, meets_bar):
    details = {"meets_bar": meets_bar, "is_faster": True, "calibration": {"label_agreement": 0.985}}
    artifact = record_variant(artifact, OPENVINO_INT8, details, {})
    measured(speeds=SPEEDS | {OPENVINO_INT8: Speed(8, 6.0)})
    told = "--precision int8 (kept 98.5% of the labels where it was compared)"
    offer = Alternative(told, ("model",), 6.0, 11.5, OPENVINO_INT8)
    assert plan_execution(artifact, VariantRequest()).alternatives == ((offer,) if meets_bar else ())


def test_the_first_run_here_measures_once_and_keeps_it(artifact, monkeypatch):
    first = plan_execution(artifact, VariantRequest())
    tuning = load_tuning(artifact.folder, CORES)
    assert set(tuning.speeds) == {TORCHSCRIPT, OPENVINO_FP32}
    assert first.batch_size == tuning.speeds[first.variant].batch_size
    monkeypatch.setattr(execution_plan, "run_in_process", lambda *_: pytest.fail("measured twice"))
    assert plan_execution(artifact, VariantRequest()) == first


def test_a_model_that_can_not_be_measured_runs_as_torchscript(artifact, monkeypatch, caplog):
    """As when the process that measures is killed for its memory; the next night measures again."""

    def fail(*_):
        raise ModelError("its process was killed", "is there memory enough?")

    monkeypatch.setattr(execution_plan, "run_in_process", fail)
    assert plan_execution(artifact, VariantRequest()).variant == TORCHSCRIPT
    assert "its process was killed (is there memory enough?)" in caplog.text
    assert load_tuning(artifact.folder, CORES) is None


def test_a_folder_that_can_not_be_written_is_measured_every_time_and_told(artifact, monkeypatch, caplog):
    (artifact.folder / TUNING_FOLDER).write_text("a file in its place")
    monkeypatch.setattr(execution_plan, "run_in_process", lambda *_: SPEEDS)
    assert plan_execution(artifact, VariantRequest()).variant == OPENVINO_FP32
    assert "what was measured there will be measured again" in caplog.text


def test_layouts_are_measured_with_real_workers_and_the_fastest_comes_first(artifact, monkeypatch):
    """Two cores: two workers, or one with two threads. Also the memory of a worker, which no layout was told."""
    monkeypatch.setattr(execution_plan, "usable_cores", lambda: 2)
    monkeypatch.setattr(layouts_module, "usable_cores", lambda: 2)
    monkeypatch.setattr(layouts_module, "LAYOUT_S", 0.2)
    monkeypatch.setattr(execution_plan, "run_in_process", lambda *_: SPEEDS)
    said = []
    tuning = measure_layouts(artifact, measure_speeds(artifact), said.append)
    assert list(tuning.layouts) == [OPENVINO_FP32]  # auto takes no other
    layouts = tuning.layouts[OPENVINO_FP32]
    assert {(layout.workers, layout.threads) for layout in layouts} == {(2, 1), (1, 2)}
    assert layouts == best_first(layouts[::-1])
    assert min(layout.images_per_second for layout in layouts) > 1
    assert 5 << 20 < tuning.worker_bytes < 1 << 30
    assert [line.rpartition(": ")[0] for line in said] == [
        f"{OPENVINO_FP32}: 2 workers x 1 thread",
        f"{OPENVINO_FP32}: 1 worker x 2 threads",
    ]
    assert load_tuning(artifact.folder, 2) == tuning


@pytest.mark.parametrize(("rate", "first"), [(10.0, 4), (10.3, 4), (10.6, 1)])
def test_of_layouts_about_as_fast_that_with_most_workers_comes_first(rate, first):
    assert best_first([Layout(1, 4, rate), Layout(4, 1, 10.0), Layout(2, 2, 8.0)])[0].workers == first


@pytest.mark.parametrize(
    ("num_cores", "threads"), [(1, [1]), (2, [1, 2]), (3, [1, 3]), (6, [1, 2, 6]), (8, [1, 2, 4, 8])]
)
def test_threads_of_a_worker_leave_no_core_over(num_cores, threads):
    assert layouts_module._divisors(num_cores) == threads
