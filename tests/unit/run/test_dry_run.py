"""What a dry run offers."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from infer_app.base.domain import ImageRef, NewImage
from infer_app.base.model_variants import OPENVINO_BF16
from infer_app.base.run_report import Alternative
from infer_app.base.settings.sections import RunSettings
from infer_app.run import dry_run
from infer_app.run.flow.run_plan import RunPlan
from tests.conftest import DAY, MODEL

MEASURED = Alternative("half, on your images", ("model",), 1.0, 2.0, OPENVINO_BF16)
SCALED = Alternative("scaled decoding", ("decode",), 1.0, 2.0)
NO_PROBES = dry_run.Probes(lambda *_: [], lambda *_: [])


@pytest.mark.parametrize(("num_images", "end", "taken"), [(3, 0.0, 3), (0, 0.0, 0), (9, 0.0, 4), (1, float("inf"), 4)])
def test_a_sample_ends_with_its_time_once_it_has_so_many_images(num_images, end, taken):
    pages = iter([["a", "b"], ["c"], ["d"]])
    assert [one for page in dry_run.take_until(pages, num_images, end) for one in page] == list("abcd")[:taken]


@pytest.mark.parametrize(("is_begun", "offered"), [(False, [MEASURED, SCALED]), (True, [SCALED])])
def test_another_precision_is_offered_for_a_day_that_has_none_yet(tables, monkeypatch, is_begun, offered):
    monkeypatch.setattr(dry_run, "find_begun", lambda _project, day, _model: is_begun and day == DAY)
    probes = dry_run.Probes(lambda *_: [MEASURED], lambda *_: [SCALED])
    plan = RunPlan(
        (SimpleNamespace(manifest=SimpleNamespace(name="a", crop=None)),),
        (SimpleNamespace(),),
        (MODEL,),
    )
    group, executor = SimpleNamespace(project=tables, plan=plan), SimpleNamespace(handler=None)
    images = [NewImage(ImageRef("1", "1.jpg"), (0,))]
    assert dry_run.find_alternatives(group, executor, DAY, images, probes) == offered


def test_the_first_report_is_of_the_model_with_most_images(tables, monkeypatch):
    """Its costs are shown and make the forecast: a detector may have predicted the images of the others before."""
    monkeypatch.setattr(dry_run, "predict", lambda *_: None)
    monkeypatch.setattr(
        dry_run, "make_report", lambda _group, _day, _executor, one, *_: SimpleNamespace(selected=one.number)
    )
    executor = SimpleNamespace(limit_chunk=lambda _: 0, num_workers=1, least_chunk=8, handler=None)
    group = SimpleNamespace(
        project=tables,
        plan=RunPlan((), (), (MODEL, replace(MODEL, name="other"))),
        executors=SimpleNamespace(open=lambda _: executor),
        loaded=SimpleNamespace(run=RunSettings()),
    )
    assert [one.selected for one in dry_run.dry_run(group, [DAY], NO_PROBES)] == [1, 0]
