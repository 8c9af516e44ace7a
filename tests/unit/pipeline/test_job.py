"""With which variants a job continues a day; the database and the executor are stand-ins."""

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from infer_app.database.results.runs import BegunVariant, RunModel
from infer_app.domain import ImageRef, NewImage
from infer_app.errors import ModelError, PrecisionUnavailable
from infer_app.pipeline import job as job_module
from infer_app.pipeline.job import Job
from infer_app.run_report import Alternative
from tests.conftest import DAY

FP32, BF16, INT8 = "cpu-openvino-fp32", "cpu-openvino-bf16", "cpu-openvino-int8"
FP16, TRT = "cuda-fp16", "trt-fp16"


def make_job(variants, begun, num_new=1, is_named=False, num_predicted=1):
    """A job of models "a", "b" … of these variants, over a day that was begun in others."""
    models = tuple(
        RunModel(name, name * 16, variant, {}, variant_sha256="now")
        for name, variant in zip("ab", variants, strict=False)
    )
    by_id = {
        model.model_id: one if one is None or isinstance(one, BegunVariant) else BegunVariant(one, "now")
        for model, one in zip(models, begun, strict=True)
    }
    one_image = [NewImage(ImageRef("1", "1.jpg"), (0,))]
    project = SimpleNamespace(
        source=SimpleNamespace(select_pages=lambda *_: iter([one_image])),
        database=SimpleNamespace(with_reconnect=lambda call: call()),
        run_store=SimpleNamespace(
            variants_of_day=lambda day, model_id: (
                {"run": one} if (one := by_id[model_id] if day == DAY else BegunVariant(FP32)) else {}
            )
        ),
        day_queries=SimpleNamespace(
            count_new=lambda *_: num_new, runs_of=lambda *_: {"run"} if num_predicted else set()
        ),
    )
    executor = SimpleNamespace(pool=SimpleNamespace(close=lambda: None), handler=None)

    @contextmanager
    def resume(variants):
        yield variants

    return Job(project, models, executor, None, 0, "5%", False, (), None if is_named else resume, (None,) * len(models))


@pytest.mark.parametrize("begun", [None, FP16, BegunVariant(FP16)], ids=["new", "same", "of an earlier release"])
def test_a_day_that_is_new_or_was_begun_in_the_same_variant_takes_the_job_as_it_is(begun):
    job = make_job([FP16], [begun])
    with job.for_day(DAY) as todays:
        assert todays is job


def test_each_model_of_a_resumed_day_is_named_its_variant_also_one_that_has_it_already():
    """With the other model on the CPU this one is planned for the CPU too, and must then be refused, not replaced."""
    with make_job([TRT, TRT], [FP32, TRT]).for_day(DAY) as variants:
        assert [one.variant for one in variants] == [FP32, TRT]


def test_a_day_keeps_the_variant_of_the_first_run_whose_results_are_left():
    job = make_job([FP32], [FP32])
    job.project.run_store.variants_of_day = lambda *_: {"1": BegunVariant(FP32), "2": BegunVariant(BF16)}
    job.project.day_queries.runs_of = lambda *_: {"2"}
    with job.for_day(DAY) as variants:
        assert variants == [(BF16, None)]


def test_of_a_day_that_is_done_in_another_variant_nothing_more_is_taken():
    with make_job([FP32], [BF16], num_new=0).for_day(DAY) as todays:
        assert (todays.takes_none, todays.models[0].variant) == (True, FP32)


@pytest.mark.parametrize(("named", "begun"), [(FP32, BF16), (BF16, FP32), (FP32, FP16), (BF16, FP16)])
def test_a_variant_that_is_named_does_not_finish_a_day_of_another_precision(named, begun):
    with pytest.raises(PrecisionUnavailable, match=f"which it keeps: {named} can't finish it") as caught:
        make_job([named], [begun], is_named=True).for_day(DAY).__enter__()
    assert caught.value.exit_code == 12
    assert caught.value.hint.startswith(f"`infer run --date {DAY} --variant auto`")


def test_a_variant_that_is_named_finishes_a_day_of_its_precision():
    job = make_job([TRT], [FP16], is_named=True)
    with job.for_day(DAY) as todays:
        assert todays is job


def test_a_day_begun_with_other_files_of_the_variant_is_resumed_with_those():
    with make_job([INT8], [BegunVariant(INT8, "then")]).for_day(DAY) as variants:
        assert variants == [BegunVariant(INT8, "then")]


def test_a_variant_of_the_settings_does_not_mix_two_calibrations_unless_the_command_names_it():
    job = make_job([INT8], [BegunVariant(INT8, "then")], is_named=True)
    with pytest.raises(PrecisionUnavailable, match="was begun with other files of cpu-openvino-int8") as caught:
        job.for_day(DAY).__enter__()
    assert f"`infer run --date {DAY} --variant {INT8}`" in caught.value.hint
    job = replace(job, may_mix=True)
    with job.for_day(DAY) as todays:
        assert todays is job


@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize("variant", [FP32, BF16, FP16])
def test_a_day_goes_on_with_another_build_of_a_variant_that_is_fitted_to_nothing(variant, is_named):
    """As of another version of OpenVINO, whose files of the same network differ."""
    job = make_job([variant], [BegunVariant(variant, "then")], is_named=is_named)
    with job.for_day(DAY) as todays:
        assert todays is job


@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize("begun", [FP32, BegunVariant(INT8, "then")])
def test_a_day_whose_results_were_deleted_keeps_no_variant(begun, is_named):
    job = make_job([INT8], [begun], is_named=is_named, num_predicted=0)
    with job.for_day(DAY) as todays:
        assert todays is job


def test_a_variant_of_a_newer_program_is_named():
    with pytest.raises(ModelError, match="variant 'cpu-fp4' is not known here"):
        make_job([FP32], ["cpu-fp4"], is_named=True).for_day(DAY).__enter__()


ESTIMATED = Alternative("half, where it was built", ("model",), 1.0, 2.0, "half")
MEASURED = Alternative("half, on your images", ("model",), 1.0, 2.0, "half")
SCALED = Alternative("scaled decoding", ("decode",), 1.0, 2.0)


@pytest.mark.parametrize(("begun", "offered"), [(None, [MEASURED, SCALED]), (FP32, [SCALED])], ids=["new", "begun"])
def test_a_dry_run_offers_another_precision_for_a_day_that_has_none_yet(monkeypatch, begun, offered):
    """The days before it, which the look-back covers, were done in full precision."""
    monkeypatch.setattr(job_module, "probe_precisions", lambda *_: [MEASURED])
    monkeypatch.setattr(job_module, "probe_decoding", lambda *_: [SCALED])
    job = replace(make_job([FP32], [begun]), alternatives=(ESTIMATED,))
    assert list(job.probed([DAY.before(1), DAY]).alternatives) == offered
