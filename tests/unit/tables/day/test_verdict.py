from dataclasses import replace
from datetime import date, datetime

import pytest

from infer_app.base.run_report import DayCounts
from infer_app.tables.day.facts import DayFacts, DayReader
from infer_app.tables.day.notices import is_unusual
from infer_app.tables.day.verdict import judge
from infer_app.tables.queries.pending_images import PendingDays
from tests.conftest import DAY, MODEL
from tests.support.results import commit, predicted

RUN = {"id": "r", "state": "done", "exit_code": 0, "selected": 100, "error": None, "throughput": None}
NOTHING_NEW = RUN | {"id": "later", "selected": 0}
DONE = DayFacts(DAY.date, DayCounts(100, 99, 1, 0), [RUN], "5%")
PENDING = replace(DONE, counts=DayCounts(100, 60, 0, 40))
ELEVEN = DayCounts(100, 89, 11, 0)


def with_run(**changed):
    return replace(PENDING, runs=[RUN | changed])


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (DONE, "done, good, 0"),
        (replace(DONE, runs=[]), "never run, good, None"),
        (replace(PENDING, runs=[]), "never run, attention, None, 40 pending"),
        (PENDING, "pending, attention, 0, 40 pending"),
        (replace(DONE, runs=[RUN | {"exit_code": 75}]), "done, good, 0"),  # of other days it left something
        (with_run(exit_code=75), "pending, attention, 75, 40 pending, the last run ended early: exit code 75"),
        (
            with_run(exit_code=2),
            "pending, attention, 2, 40 pending, the last run ended early: exit code 2",
        ),
        (replace(with_run(state="running", exit_code=None), is_running=True), "running, attention, None, 40 pending"),
        (with_run(state="running", exit_code=None), "failed, failed, None, the last run died, 40 pending"),
        (with_run(state="failed", exit_code=14), "failed, failed, 14, the last run failed: exit code 14, 40 pending"),
        (
            replace(DONE, runs=[NOTHING_NEW | {"state": "failed", "exit_code": 14}, RUN]),
            "done, attention, 14, the last run failed: exit code 14",
        ),
        (
            with_run(selected=0, exit_code=3, error="8 of 9 failed in the model"),
            "pending, attention, 3, too many rejected or failed: exit code 3, 40 pending",
        ),
        (replace(DONE, older=PendingDays(DAY.date, DAY.date, 141)), "done, attention, 0, 141 of earlier days pending"),
        (replace(DONE, problems=["both"]), "done, failed, 0, the counts do not add up"),
        # It failed with images of another camera.
        (replace(DONE, runs=[RUN | {"state": "failed", "exit_code": 14}], is_of_camera=True), "done, good, 0"),
        (replace(DONE, counts=DayCounts(100, 99, 0, 0)), "done, failed, 0, the counts do not add up"),
        (
            replace(DONE, counts=DayCounts(2, 2, 0, 0), images_before=[50, 64, 0]),
            "done, attention, 0, unusual: 2 images, 57 a day before",
        ),
    ],
)
def test_the_state_of_a_day(facts, expected):
    found = judge(facts)
    assert ", ".join([found.state, found.level, str(found.exit_code), *found.notes]) == expected


@pytest.mark.parametrize(
    ("counts", "runs", "exit_code"),
    [
        (DayCounts(100, 90, 10, 0), [RUN], 0),
        (ELEVEN, [RUN], 3),
        (ELEVEN, [NOTHING_NEW, RUN | {"exit_code": 3}], 3),
        (ELEVEN, [RUN | {"selected": 2}, RUN | {"exit_code": 3}], 3),  # late images that went well
        (DayCounts(1000, 988, 12, 0), [NOTHING_NEW, RUN | {"selected": 12, "exit_code": 3}, RUN], 0),
        (DayCounts(100, 100, 0, 0), [RUN | {"selected": 11}, RUN | {"exit_code": 3}], 0),  # repaired and run again
        (DayCounts(100, 89, 11, 0), [NOTHING_NEW | {"exit_code": 10, "state": "failed"}, RUN], 10),
    ],
)
def test_a_day_with_too_many_rejected_stays_one_whatever_later_runs_found(counts, runs, exit_code):
    found = judge(DayFacts(DAY.date, counts, runs, "5%"))
    assert found.exit_code == exit_code
    assert ("too many rejected: exit code 3" in found.notes) is (exit_code != 0)


@pytest.mark.parametrize(
    ("num_images", "before", "unusual"),
    [
        (2, [57], False),  # one day tells nothing
        (2, [57, 0, 55], True),
        (2, [57, 55, 60, 0, 0, 57, 56], True),
        (2, [57, 55, 60, 2, 57, 58, 56], False),  # one of those days was as quiet
        (300, [57, 60], True),
        (40, [57, 60], False),
        (3, [1, 1], False),  # so few differ by chance
        (5, [], False),
        (5, [0, 0], False),
        (0, [57], False),
    ],
)
def test_an_unusual_number_of_images(num_images, before, unusual):
    assert is_unusual(num_images, before) is unusual


def test_pending_images_of_earlier_days_are_counted_once_and_for_each_version(tables, register):
    register("/a.jpg", "/b.jpg", at=datetime(2026, 11, 1))
    register("/c.jpg", at=datetime(2026, 11, 18))
    tables.run_store.open_run(DAY, MODEL)
    one_by_one = DayReader(tables, "5%")
    found = [
        one_by_one.find_older_pending(day, MODEL.model_id) for day in (DAY.before(9), DAY.before(2), DAY.before(1), DAY)
    ]
    first, last = date(2026, 11, 1), date(2026, 11, 18)
    assert found == [*2 * [PendingDays(first, first, 2)], *2 * [PendingDays(first, last, 3)]]
    newest_first = DayReader(tables, "5%")
    assert newest_first.find_older_pending(DAY, MODEL.model_id).num_images == 3
    assert newest_first.find_older_pending(DAY.before(9), MODEL.model_id).num_images == 2
    commit(tables.database, predicted("1"), model_id="tried")
    found = [newest_first.find_older_pending(DAY.before(9), one).num_images for one in ("tried", MODEL.model_id)]
    assert found == [1, 2]
