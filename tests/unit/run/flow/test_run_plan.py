"""In which variants a day is continued, by the runs that began it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from sqlalchemy import update

from infer_app.base.model_variants import BegunVariant
from infer_app.run.flow import run_plan
from infer_app.run.flow.run_plan import RunPlan, plan_day
from infer_app.tables.results.schema import runs
from tests.conftest import DAY, MODEL
from tests.support.results import commit, predicted

FP32, BF16, INT8 = "cpu-openvino-fp32", "cpu-openvino-bf16", "cpu-openvino-int8"
FP16, TRT = "cuda-fp16", "trt-fp16"


@pytest.fixture
def begin(tables, register):
    """begin(BF16, "sha256") predicts an image of the day, which gets a second one, in a variant."""
    register("/1.jpg", "/2.jpg", "/3.jpg")

    def begin_day(variant, sha256="now", model=MODEL, keeps_results=True):
        model = replace(model, variant=variant, variant_sha256=sha256)
        run_id = tables.run_store.open_run(DAY, model)
        if keeps_results:
            image = next(iter(tables.source.select_new(DAY, model.model_id)))
            commit(tables.database, predicted(image.image_id), (), run_id, model.model_id)
        with tables.database.write() as connection:
            connection.execute(update(runs).where(runs.c.id == run_id).values(state="done", predicted=1))

    return begin_day


@pytest.fixture
def plan(tables, monkeypatch):
    """plan(FP32, TRT) plans the day for models that a new day would run in these variants.

    It returns "as new", or the variants that the day is continued in.
    """
    monkeypatch.setattr(run_plan, "plan_models", lambda _loaded, _artifacts, begun: RunPlan((), (), tuple(begun)))

    def plan_variants(*variants):
        models = [replace(MODEL, variant=variant, variant_sha256="now") for variant in variants]
        models[1:] = [replace(model, name="other", model_id="f" * 16) for model in models[1:]]
        of_new_day, ended = RunPlan((), (), tuple(models), max_images=9), []
        found = plan_day(of_new_day, SimpleNamespace(), tables, DAY, lambda: ended.append(True))
        if found is of_new_day or not found.max_images:
            assert not ended
            return "as new" if found is of_new_day else found
        assert ended  # the memory of its workers is planned again
        return list(found.models)

    return plan_variants


@pytest.mark.parametrize(
    ("variant", "begun"),
    [
        (FP16, []),
        (FP16, [(FP16,)]),
        # Another build of a variant that is fitted to nothing, as of another version of OpenVINO:
        (FP32, [(FP32, "then")]),
        (BF16, [(BF16, "then")]),
        # Days whose results were deleted:
        (INT8, [(FP32, "now", MODEL, False)]),
        (INT8, [(INT8, "then", MODEL, False)]),
    ],
)
def test_a_day_that_is_new_or_was_begun_alike_is_planned_as_a_new_one(begin, plan, variant, begun):
    for one in begun:
        begin(*one)
    assert plan(variant) == "as new"


def test_each_model_of_a_resumed_day_is_given_its_variant_also_one_that_has_it_already(begin, plan):
    """With the other model on the CPU this one is planned for the CPU too, and must then be refused, not replaced."""
    begin(FP32)
    begin(TRT, model=replace(MODEL, name="other", model_id="f" * 16))
    assert plan(TRT, TRT) == [BegunVariant(FP32, None), BegunVariant(TRT, "now")]


def test_a_day_keeps_the_variant_of_the_first_run_whose_results_are_left(begin, plan):
    begin(FP32, keeps_results=False)
    begin(BF16)
    assert plan(FP32) == [BegunVariant(BF16, None)]


def test_of_a_day_that_is_done_in_another_variant_nothing_more_is_taken(begin, plan):
    for _ in range(3):
        begin(BF16)
    assert (found := plan(FP32)).max_images == 0
    assert found.models[0].variant == FP32


def test_a_day_of_another_calibration_is_planned_for_its_files(begin, plan):
    begin(INT8, "then")
    assert plan(INT8) == [BegunVariant(INT8, "then")]
