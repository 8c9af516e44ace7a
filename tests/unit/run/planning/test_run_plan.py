"""In which variants a day is continued, by the runs that began it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from sqlalchemy import update

from infer_app.base.domain import ChunkResult, Output, Prediction
from infer_app.base.errors import ModelError, PrecisionUnavailable
from infer_app.base.model_variants import BegunVariant
from infer_app.run.planning import run_plan
from infer_app.run.planning.run_plan import RunPlan, plan_day
from infer_app.tables.results.schema import runs
from infer_app.tables.results.sink import Sink
from tests.conftest import DAY, MODEL

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
            result = ChunkResult(0, (Prediction(image, Output("cat", 0.9)),), ())
            Sink(tables.database, model.model_id, variant, run_id).commit_chunk(result)
        with tables.database.write() as connection:
            connection.execute(update(runs).where(runs.c.id == run_id).values(state="done", predicted=1))

    return begin_day


@pytest.fixture
def plan(tables, monkeypatch):
    """plan(FP32, TRT) plans the day for models that a new day would run in these variants.

    It returns "as new", or the variants that the day is continued in.
    """
    monkeypatch.setattr(run_plan, "plan_models", lambda _loaded, _artifacts, begun: RunPlan((), (), tuple(begun)))

    def plan_variants(*variants, named="auto", by=None):
        models = [replace(MODEL, variant=variant, variant_sha256="now") for variant in variants]
        models[1:] = [replace(model, name="other", model_id="f" * 16) for model in models[1:]]
        loaded = SimpleNamespace(run=SimpleNamespace(variant=named), origins={"run.variant": by})
        of_new_day, ended = RunPlan((), (), tuple(models), max_images=9), []
        found = plan_day(of_new_day, loaded, tables, DAY, lambda: ended.append(True))
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
@pytest.mark.parametrize("is_named", [False, True])
def test_a_day_that_is_new_or_was_begun_alike_is_planned_as_a_new_one(begin, plan, variant, begun, is_named):
    for one in begun:
        begin(*one)
    assert plan(variant, named=variant if is_named else "auto", by="file") == "as new"


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


@pytest.mark.parametrize(("named", "begun"), [(FP32, BF16), (BF16, FP32), (FP32, FP16), (BF16, FP16)])
def test_a_variant_that_is_named_does_not_finish_a_day_of_another_precision(begin, plan, named, begun):
    begin(begun)
    with pytest.raises(PrecisionUnavailable, match=f"which it keeps: {named} can't finish it") as caught:
        plan(named, named=named)
    assert caught.value.exit_code == 12
    assert caught.value.hint.startswith(f"`infer run --date {DAY} --variant auto`")


def test_a_variant_that_is_named_finishes_a_day_of_its_precision(begin, plan):
    begin(FP16)
    assert plan(TRT, named=TRT) == "as new"


def test_two_calibrations_are_mixed_only_if_the_command_names_the_variant(begin, plan):
    begin(INT8, "then")
    assert plan(INT8) == [BegunVariant(INT8, "then")]
    with pytest.raises(PrecisionUnavailable, match="was begun with other files of cpu-openvino-int8") as caught:
        plan(INT8, named=INT8, by="file")
    assert f"`infer run --date {DAY} --variant {INT8}`" in caught.value.hint
    assert plan(INT8, named=INT8, by="flag") == "as new"


def test_a_variant_of_a_newer_program_is_named(begin, plan):
    begin("cpu-fp4")
    with pytest.raises(ModelError, match="variant 'cpu-fp4' is not known here"):
        plan(FP32, named=FP32)
