from datetime import UTC, date, datetime
from itertools import count

import pytest
from sqlalchemy import literal, select, update

from infer_app.ask import day_report
from infer_app.ask.drift import gather_labels, jensen_shannon
from infer_app.ask.model_report import gather_scores
from infer_app.ask.page.page import render_day
from infer_app.base.run_report import DayCounts
from infer_app.tables.results.schema import predictions, rejections
from tests.conftest import DAY, MODEL

NUMBERS = count()


def scored(label, *scores):
    return [(f"/p/{next(NUMBERS)}.jpg", label, score) for score in scores]


def test_labels_beside_those_of_7_and_28_days(figures, write):
    write(predicted=scored("cat", 0.9, 0.8, 0.7) + scored("dog", 0.6))
    write(predicted=scored("cat", 0.9) + scored("dog", 0.9), days_ago=7)
    write(predicted=scored("dog", 0.9, 0.9), days_ago=28)
    write(predicted=scored("eel", 0.9, 0.9), days_ago=29)
    labels = gather_labels(figures, DAY)
    assert [(one.label, one.count, one.share, one.share_7, one.share_28) for one in labels.most] == [
        ("cat", 3, 0.75, 0.5, 0.25),
        ("dog", 1, 0.25, 0.5, 0.75),
    ]
    assert labels.drift_7.distance == jensen_shannon({"cat": 3, "dog": 1}, {"cat": 1, "dog": 1})
    assert labels.drift_7.num_before == 2
    assert labels.drift_28.num_before == 4
    assert {one.label for one in labels.moved} == {"cat", "dog"}


def test_a_first_day_is_compared_with_nothing_and_a_model_without_labels_has_none(figures, write):
    write(predicted=[("/a.jpg", None, None)])
    assert gather_labels(figures, DAY) is None
    assert gather_scores(figures, DAY) is None
    assert figures.results.extremes(DAY, 5, highest=True) == []
    write(predicted=scored("cat", 0.9))
    labels = gather_labels(figures, DAY)
    assert (labels.most[0].share_7, labels.drift_7, labels.moved) == (None, None, ())


def test_every_score_is_in_one_bucket_the_edges_included(figures, write):
    write(predicted=scored("cat", 0.0, 0.049, 0.05, 0.5, 1.0, None))
    scores = gather_scores(figures, DAY)
    assert scores.edges[0] == 0
    assert scores.edges[-1] == 1
    assert {n: count for n, count in enumerate(scores.counts) if count} == {0: 2, 1: 1, 10: 1, 19: 1}


@pytest.mark.parametrize("numbers", [(-3.0, 5.0, 1.0), (7.0, 7.0, 7.0)], ids=["many", "one"])
def test_numbers_of_a_regression_set_their_own_scale(figures, write, numbers):
    write(predicted=scored(None, *numbers))
    scores = gather_scores(figures, DAY)
    assert scores.edges[0] == min(numbers)
    assert sum(scores.counts) == 3


def test_the_least_and_the_most_confident(figures, write):
    write(predicted=scored("cat", 0.5, 0.1, 0.9, 0.3))
    assert [one.score for one in figures.results.extremes(DAY, 2, highest=False)] == [0.1, 0.3]
    assert [one.score for one in figures.results.extremes(DAY, 2, highest=True)] == [0.9, 0.5]


def test_rejections_are_counted_by_reason_but_for_images_that_are_predicted(database, figures, write):
    rejected = [("/a", "corrupt"), ("/b", "truncated"), ("/c", "truncated"), ("/d", "corrupt")]
    write(predicted=scored("cat", 0.5), rejected=rejected)
    with database.write() as connection:
        one = select(rejections.c.picture).limit(1).scalar_subquery()
        connection.execute(update(predictions).values(picture=one))
    assert figures.count_predicted(DAY) == 1
    assert list(figures.count_reasons(DAY).items()) == [("truncated", 2), ("corrupt", 1)]  # the most frequent first
    assert [one.location for one in figures.some_rejected(DAY, "truncated", 1)] == ["/b"]
    assert len(figures.some_rejected(DAY, "corrupt", 5)) == 1


def test_a_report_of_a_day(make_report, write, add_run, monkeypatch):
    asked, count_changed = list[datetime](), day_report.count_changed
    monkeypatch.setattr(day_report, "count_changed", lambda *of: asked.append(datetime.now(UTC)) or count_changed(*of))
    write(predicted=scored("cat", *[0.9] * 99), rejected=[("/x.jpg", "truncated")])
    write(predicted=scored("cat", *[0.9] * 100), days_ago=1)
    add_run(days_ago=1)
    add_run()
    add_run(run_id="later", started_at=datetime(2026, 11, 22), selected=0, predicted=0, rejected=0)
    report = make_report()
    (model,) = report.models
    assert model.counts == DayCounts(100, 99, 1, 0)
    assert (report.images, report.rejected, report.pending) == (100, 1, 0)
    assert datetime.fromisoformat(report.made_at) <= asked[0]
    assert model.verdict == (
        "20 Nov: 100 = 99 predicted + 1 rejected + 0 pending · 10 s · 86 % of the limit; bottleneck: model"
    )
    assert report.state == "good"
    assert model.run.run_id == "run-0"
    assert [(change.what, change.now, change.before) for change in report.changes] == [
        ("Images", "100", "100 a day"),
        ("Rejected", "1.0 %", "0 %"),
        ("Images/s", "12", "12"),
        ("Label drift", "0.00", "≤ 0.00 by chance"),
    ]
    assert [notice.command for notice in report.notices] == ["infer list --state rejected --date 2026-11-20"]
    assert model.output == "classification"


def test_a_later_run_of_a_few_images_leaves_the_figures_of_speed_as_they_were(make_report, write, add_run):
    write(predicted=scored("cat", *[0.9] * 118))
    add_run(predicted=100, rejected=0)
    add_run(run_id="retry", started_at=datetime(2026, 11, 22), selected=18, predicted=18, rejected=0, seconds=1.0)
    report = make_report()
    (model,) = report.models
    speed = model.speed
    assert (model.run.run_id, speed.selected, speed.share_of_limit, model.num_runs) == ("run-0", 100, 0.86, 2)
    assert model.verdict.endswith("10 s · 86 % of the limit; bottleneck: model")
    page = render_day(report, {})
    assert "Of the run with the most images, begun 2026-11-21 02:30 UTC; 2 runs of the day had images." in page


def test_nearly_black_images_are_those_of_all_runs_of_the_day(make_report, write, add_run):
    write(predicted=scored("cat", *[0.9] * 118))
    add_run(predicted=100, rejected=0)
    late = {"selected": 18, "predicted": 18, "rejected": 0}
    add_run(run_id="late", started_at=datetime(2026, 11, 22), throughput={"nearly_black": 3}, **late)
    add_run(run_id="later", started_at=datetime(2026, 11, 23), throughput={"nearly_black": 1}, **late)
    add_run(run_id="failed", started_at=datetime(2026, 11, 24), throughput=None, **late)
    assert [notice.text for notice in make_report().notices if "nearly black" in notice.text] == [
        "4 images use at most 12 of 16 bits: nearly black as read; build the model with --set depth=window:0,4095"
    ]


def test_a_run_that_failed_before_it_measured_anything(make_report, add_run):
    figures = ["seconds", "images_per_second", "limit_images_per_second", "stages", "reasons", "throughput"]
    nothing = dict.fromkeys(figures) | dict.fromkeys(["selected", "predicted", "rejected"], 0)
    add_run(state="failed", exit_code=14, error="the storage is gone", **nothing)
    report = make_report()
    assert (report.models[0].verdict.rpartition("· ")[2], report.state) == (
        "the last run failed with exit code 14",
        "failed",
    )
    assert report.notices[0].text == "The last run failed: the storage is gone"


def test_days_that_were_run_and_when_their_images_changed_last(tables, add_run):
    add_run(days_ago=1)
    add_run(days_ago=1, run_id="later", ended_at=datetime(2026, 11, 25), selected=0)
    add_run()
    ends = {date(2026, 11, 20): datetime(2026, 11, 21, 2, 30), date(2026, 11, 19): datetime(2026, 11, 20, 2, 30)}
    assert tables.versions.days_changed(10) == ends
    assert list(tables.versions.days_changed(1)) == [date(2026, 11, 20)]
    assert tables.versions.versions_run(DAY) == [(MODEL.name, MODEL.model_id)]
    assert tables.versions.versions_run(DAY.before(2)) == []


@pytest.fixture
def two_models(make_report, add_model, write, add_run, database):
    """The report of two models that have predicted the same images of a day."""
    add_model("twin", "c0" * 8, datetime(2026, 11, 1))
    write(predicted=scored("cat", *[0.9] * 99), rejected=[("/x.jpg", "truncated")])
    add_run()

    def report(same=True):
        add_run(run_id="twin", model="twin", model_id="c0" * 8)
        if same:
            with database.write() as connection:
                for table in (predictions, rejections):
                    columns = [column for column in table.c if column.name != "id"]
                    values = [literal("c0" * 8) if one.name == "model_id" else one for one in columns]
                    rows = select(*values).where(table.c.model_id == MODEL.model_id)
                    connection.execute(table.insert().from_select(columns, rows))
        return make_report(("twin", "c0" * 8))

    return report


def test_what_two_models_say_alike_stands_once_on_their_page(two_models):
    report = two_models()
    assert [one.model for one in report.models] == ["stub", "twin"]
    assert (report.state, report.notes, report.images, report.rejected) == ("good", (), 100, 1)
    assert [notice.command for notice in report.notices] == ["infer list --state rejected --date 2026-11-20"]
    text = render_day(report, {})
    for once in ("<b>100</b><span>images</span>", "CPU time per image", "truncated: ends early", "Images by score"):
        assert text.count(once) == (2 if once == "Images by score" else 1)


def test_what_only_one_of_two_models_says_has_its_name_and_the_worse_state_is_that_of_the_day(two_models):
    report = two_models(same=False)
    assert (report.state, report.notes) == ("attention", ("twin: 100 pending",))
    assert (report.images, report.rejected, report.pending) == (100, 0, 100)  # of one model: they add up
    commands = [notice.command for notice in report.notices]
    assert commands == [
        "infer run --date 2026-11-20 --model twin",
        "infer list --state rejected --date 2026-11-20 --model stub",
    ]
    text = render_day(report, {})
    assert text.count("<span>images</span>") == 2
    assert "<h3>twin</h3>" in text
