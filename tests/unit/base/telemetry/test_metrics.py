import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_app.base.run_report import DayCounts, ModelOutcome
from infer_app.base.telemetry.metrics import LAST_SUCCESS, read_samples, render_metrics
from tests.support.run_reports import REPORT

PROJECT = Path("/srv/photos")
NOW = 1_790_000_000.5


def day(selected, rejected, reasons, pending, rate):
    counts = DayCounts(selected + pending, selected - rejected, rejected, pending)
    return dataclasses.replace(
        REPORT,
        selected=selected,
        predicted=selected - rejected,
        rejected=rejected,
        reasons=reasons,
        day=counts,
        images_per_second=rate,
        limit_images_per_second=2 * rate,
    )


GOOD = ModelOutcome("a", 0, (day(10, 2, {"empty": 2}, 1, 5.0), day(100, 3, {"empty": 1, "corrupt": 2}, 0, 50.0)), 7)


def samples(data):
    return read_samples(data.decode())


def of(model, **more):
    return tuple(sorted({"model": model, "project": str(PROJECT), **more}.items()))


RUN = (("project", str(PROJECT)),)


def test_a_run_is_summed_over_its_days():
    assert samples(render_metrics({}, PROJECT, [GOOD], 0, 12.5, NOW)) == {
        ("infer_last_run_timestamp_seconds", RUN): NOW,
        ("infer_last_run_exit_code", RUN): 0,
        ("infer_last_run_duration_seconds", RUN): 12.5,
        (LAST_SUCCESS, of("a")): NOW,
        ("infer_model_exit_code", of("a")): 0,
        ("infer_images_selected", of("a")): 110,
        ("infer_images_predicted", of("a")): 105,
        ("infer_images_rejected", of("a", reason="empty")): 3,
        ("infer_images_rejected", of("a", reason="corrupt")): 2,
        ("infer_images_pending", of("a")): 8,
        ("infer_images_per_second", of("a")): 50,
        ("infer_limit_images_per_second", of("a")): 100,
    }


@pytest.mark.parametrize("exit_code", [1, 3, 10, 75, 143])
def test_a_failure_keeps_the_time_of_the_last_success_and_nothing_else(exit_code):
    earlier = samples(render_metrics({}, PROJECT, [GOOD], 0, 12.5, NOW))
    assert samples(render_metrics(earlier, PROJECT, [ModelOutcome("a", exit_code)], exit_code, 1.0, NOW + 60)) == {
        ("infer_last_run_timestamp_seconds", RUN): NOW + 60,
        ("infer_last_run_exit_code", RUN): exit_code,
        ("infer_last_run_duration_seconds", RUN): 1.0,
        (LAST_SUCCESS, of("a")): NOW,
        ("infer_model_exit_code", of("a")): exit_code,
        **({("infer_day_needs_attention", of("a")): 2} if exit_code < 75 else {}),
    }


@pytest.mark.parametrize(
    ("project", "models"),
    [
        pytest.param(PROJECT, [dataclasses.replace(GOOD, model="b")], id="another model"),
        pytest.param(PROJECT, [], id="an error before the models are known"),
        pytest.param(Path("/srv/other"), [ModelOutcome("a", 10)], id="another project with a model of this name"),
    ],
)
def test_a_run_leaves_what_others_wrote(project, models):
    earlier = samples(render_metrics({}, PROJECT, [GOOD], 0, 12.5, NOW))
    later = samples(render_metrics(earlier, project, models, 10, 1.0, NOW + 60))
    run = (("project", str(project)),)
    assert later["infer_last_run_exit_code", run] == 10
    assert {sample for sample in earlier.items() - later.items() if sample[0][1] != run} == set()


def test_a_strange_name_of_a_model_comes_back_as_it_was():
    name = 'a "b"\\ \n{é}'
    assert (LAST_SUCCESS, of(name)) in samples(render_metrics({}, PROJECT, [ModelOutcome(name, 0)], 0, 1.0, NOW))


WHOLE = render_metrics({}, PROJECT, [GOOD], 0, 12.5, NOW)
torn = st.builds(lambda cut, more: (WHOLE[:cut] + more).decode(errors="replace"), st.integers(0, 2000), st.binary())


@given(st.text(max_size=60) | torn)
def test_an_earlier_file_is_read_or_refused_also_a_torn_one(text):
    try:
        found = read_samples(text)
    except ValueError:
        return
    assert all(name in text for name, _ in found)
    assert len(found.items() - samples(WHOLE).items()) <= 1  # the last, where the tear went through its number
