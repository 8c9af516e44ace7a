"""One table of days: whatever tells of one gives the same verdict, and what holds of the project the same notices."""

import html
import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import delete, update

from infer_app.ask.day_report import gather
from infer_app.ask.page.index_rows import IndexRow
from infer_app.ask.page.page import render_day, render_index
from infer_app.base.printing import with_config
from infer_app.base.run_report import LEVELS, ModelOutcome
from infer_app.base.telemetry.metrics import read_samples, render_metrics
from infer_app.cli.look.status import show_status
from infer_app.tables.day.facts import DayReader
from infer_app.tables.day.notices import few_images
from infer_app.tables.day.told import current_notices
from infer_app.tables.day.verdict import judge
from infer_app.tables.listing.stored_notices import MAIL, event, mark_told, read_due, record
from infer_app.tables.results.schema import IS_COPY, cameras, pictures
from tests.conftest import MODEL
from tests.support.nights import DAY, KILLED, Nights, failed

STOPPED = "9 of 9 images failed in the model: the rest stays pending"
MISSING = datetime(2026, 11, 1, 3)


def gap(nights):
    for ago in range(12, 3, -1):
        nights.night(2, ago=ago)
    nights.run()


def repaired(nights):
    nights.night(30, 20, exit_code=3)
    with nights.database.write() as connection:
        connection.exec_driver_sql("DELETE FROM infer_rejections")
    nights.predict(*range(31, 51))


def deleted_with_their_rows(nights):
    """Too many were rejected, and what was wrong is gone: the rows of the day say that nothing is wrong."""
    nights.night(30, 20, exit_code=3)
    with nights.database.write() as connection:
        for statement in ("DELETE FROM infer_rejections", "DELETE FROM infer_pictures WHERE id > 30"):
            connection.exec_driver_sql(statement)
    nights.run(selected=0, predicted=0, rejected=0)


def tried_again(nights):
    nights.night(new=10, **failed(14))
    nights.predict(*range(1, 11))


def two_versions(nights):
    """The version in use has done the day, and a former one ran before and had rejected too many."""
    nights.add_model(MODEL.name, "0" * 16, in_use_since=None, used_until=datetime(2025, 12, 1))
    nights.night(1, 40, model_id="0" * 16, exit_code=3)
    nights.predict(*range(1, 42))


def silent_camera(nights):
    for ago in range(20, -1, -1):
        for camera in ("a", "b") if ago > 6 else ("a",):
            seen = (DAY.before(ago).start + timedelta(hours=3)).timestamp()
            nights.images(1, ago=ago, camera=camera, first_seen=seen)
    nights.run()


def retired_camera(nights):
    silent_camera(nights)
    nights._insert(cameras, {"camera": "b", "place": 0, "shift": 0.0, "retired": 1})


def copied_camera(nights):
    nights.images(2, camera="a", event=1)
    nights.images(1, camera="b", event=IS_COPY, copy_of=1)
    nights.run(selected=3, predicted=3, rejected=0)


def renamed_camera(nights):
    copied_camera(nights)
    with nights.database.write() as connection:
        connection.execute(update(pictures).where(pictures.c.camera == "a").values(missing_since=MISSING))


def found(kind, text):
    def begin(nights):
        nights.night(5)
        nights.database.transact(lambda connection: record(connection, [event(kind, text, "walk")]))

    return begin


# What it is called: how the nights were, the verdict on DAY (state, level, exit code, notes), and the kinds of notices.
TABLE = {
    "all well": (lambda n: n.night(5), "done good 0", []),
    "some rejected": (lambda n: n.night(99, 1), "done good 0", []),
    "nothing new": (lambda n: (n.night(5), n.run(selected=0, predicted=0, rejected=0)), "done good 0", []),
    "no images": (lambda n: n.run(selected=0, predicted=0, rejected=0), "done good 0", []),
    "never run": (lambda n: n.images(new=5), "never run attention None: 5 pending", []),
    "killed": (lambda n: n.night(2, new=3, **KILLED), "failed failed None: the last run died; 3 pending", []),
    "killed at its end": (lambda n: n.night(5, **KILLED), "done attention None: the last run died", []),
    "killed, then run again": (lambda n: (n.night(2, **KILLED), n.night(3)), "done good 0", []),
    "database away": (
        lambda n: n.night(new=3, **failed(10)),
        "failed failed 10: the last run failed: exit code 10; 3 pending",
        [],
    ),
    "storage away": (
        lambda n: n.night(new=3, **failed(14)),
        "failed failed 14: the last run failed: exit code 14; 3 pending",
        [],
    ),
    "failed with nothing to do": (
        lambda n: (n.night(5), n.run(**failed(14))),
        "done attention 14: the last run failed: exit code 14",
        [],
    ),
    "failed before any image came": (
        lambda n: n.run(**failed(14)),
        "failed failed 14: the last run failed: exit code 14",
        [],
    ),
    "failed, then run again": (tried_again, "done good 0", []),
    "failed by a clock that was ahead, then run again": (
        lambda n: (n.run(**failed(14), started_at=datetime(2099, 1, 1)), n.night(5)),
        "done good 0",
        [],
    ),
    "ended early": (
        lambda n: n.night(2, new=3, exit_code=75),
        "pending attention 75: 3 pending; the last run ended early: exit code 75",
        [],
    ),
    "ended early on another day": (lambda n: n.night(5, exit_code=75), "done good 0", []),
    "ended by a signal": (
        lambda n: n.night(2, new=3, exit_code=143),
        "pending attention 143: 3 pending; the last run ended early: exit code 143",
        [],
    ),
    "came after the run": (lambda n: n.night(2, new=3), "pending attention 0: 3 pending", []),
    "too many rejected": (
        lambda n: n.night(30, 20, exit_code=3),
        "done attention 3: too many rejected: exit code 3",
        [],
    ),
    "too many rejected, then nothing new": (
        lambda n: (n.night(30, 20, exit_code=3), n.run(selected=0, predicted=0, rejected=0)),
        "done attention 3: too many rejected: exit code 3",
        [],
    ),
    "too many rejected over several runs": (
        lambda n: (n.night(30, 9), n.night(0, 9), n.night(0, 9)),
        "done attention 3: too many rejected: exit code 3",
        [],
    ),
    "repaired": (repaired, "done good 0", []),
    "what was rejected is deleted": (deleted_with_their_rows, "done good 0", []),
    "few of many rejected by the last run alone": (
        lambda n: (n.night(988), n.night(0, 12, exit_code=3)),
        "done good 0",
        [],
    ),
    "the model failed": (
        lambda n: n.night(new=9, exit_code=3, error=STOPPED),
        "pending attention 3: too many rejected or failed: exit code 3; 9 pending",
        [],
    ),
    "rejected and missing": (lambda n: n.night(5, 2, reason="not_found"), "done good 0", []),
    "two versions": (two_versions, "done good 0", []),
    "older pending": (
        lambda n: (n.images(new=7, ago=30), n.night(5)),
        "done attention 0: 7 of earlier days pending",
        ["older pending"],
    ),
    "pending within the look-back": (
        lambda n: (n.images(new=7, ago=1), n.night(5)),
        "done attention 0: 7 of earlier days pending",
        [],
    ),
    "late, still queued": (
        lambda n: (n.images(new=7, ago=30, queued_at=datetime(2026, 11, 20)), n.night(5)),
        "done attention 0: 7 of earlier days pending",
        ["older pending"],
    ),
    "few images": (
        lambda n: (n.week(60), n.night(5)),
        "done attention 0: unusual: 5 images, 60 a day before",
        [],
    ),
    "many images": (
        lambda n: (n.week(10), n.night(70)),
        "done attention 0: unusual: 70 images, 10 a day before",
        [],
    ),
    "images stopped coming": (gap, "done attention 0: no images for 4 days", ["gap"]),
    "replaced": (
        lambda n: (n.night(5), n.change(sha256="cd" * 32)),
        "done good 0",
        ["replaced"],
    ),
    "touched": (lambda n: (n.night(5), n.change(sha256="ab" * 32)), "done good 0", []),
    "missing": (lambda n: (n.night(5), n.change(missing_since=MISSING)), "done good 0", ["missing"]),
    "replaced on another day": (
        lambda n: (n.night(5, ago=20), n.change(sha256="cd" * 32), n.night(5)),
        "done good 0",
        ["replaced"],
    ),
    "a copied camera": (copied_camera, "done good 0", ["copied camera"]),
    "a renamed camera": (renamed_camera, "done good 0", ["copied camera", "missing"]),
    "a silent camera": (silent_camera, "done good 0", ["silent camera"]),
    "a retired camera": (retired_camera, "done good 0", []),
    "a wrong clock": (found("wrong clock", "1 new image has a time before 1995"), "done good 0", ["wrong clock"]),
    "a moved folder": (found("moved folder", "5 images known below /a"), "done good 0", ["moved folder"]),
    "nearly black": (lambda n: n.night(5, throughput={"nearly_black": 2}), "done good 0", []),
    "everything at once": (
        lambda n: (
            n.images(new=1, ago=30),
            n.week(90),
            n.night(1, 20, 3, exit_code=3),
            n.change(missing_since=MISSING),
        ),
        "pending attention 3: too many rejected: exit code 3; 3 pending; unusual: 24 images, 90 a day before;"
        " 1 of earlier days pending",
        ["missing", "older pending"],
    ),
}


@pytest.fixture
def nights(database, tmp_path):
    (tmp_path / "infer.toml").write_text(
        '[images]\nwatch = ["."]\n[source]\ncamera = "folder:1"\n[run]\ntime_zone = "UTC"\n'
    )
    return Nights(database)


@pytest.mark.parametrize(("begin", "said", "kinds"), TABLE.values(), ids=TABLE)
def test_all_that_tells_of_a_day_gives_one_verdict_and_the_same_notices(
    nights, tables, tmp_path, capsys, begin, said, kinds
):
    begin(nights)
    tables.source.camera_of = lambda *_: ""
    facts = DayReader(tables, "5%").read_facts(DAY, MODEL.model_id)
    verdict = judge(facts)
    told = f"{verdict.state} {verdict.level} {verdict.exit_code}"
    assert told + (f": {'; '.join(verdict.notes)}" if verdict.notes else "") == said
    # infer status
    status = json.loads(printed(capsys, tmp_path, as_json=True))
    rows = [row for row in status["days"] if row["date"] == str(DAY) and row["model"] == MODEL.name]
    expected = {
        "state": verdict.state,
        "level": verdict.level,
        "exit_code": verdict.exit_code,
        "notes": [*verdict.notes],
    }
    assert [row["day_state"] for row in rows] == [expected]
    assert [notice["kind"] for notice in status["notices"]] == kinds
    # a run by hand, and a mail, which tells what happened and what holds once
    shown = current_notices(tables, DAY.before(3), DAY)
    assert [notice.to_json() for notice in shown] == status["notices"]
    stored = current_notices(tables, DAY.before(3), DAY, stores=True)
    assert [notice.line for notice in stored] == [notice.line for notice in shown]
    due = tables.database.ask(lambda connection: read_due(connection, MAIL))
    assert sorted(notice.line for notice in due) == sorted(notice.line for notice in shown)
    text = printed(capsys, tmp_path)
    assert [line for line in text.splitlines() if line.startswith("attention: ")] == [one.line for one in shown]
    # the report, its page and the page of all days
    report = gather(tables, DayReader(tables, "5%"), DAY, [(MODEL.name, MODEL.model_id)])
    assert (report.models[0].day_state, report.state, list(report.notes)) == (verdict, verdict.level, expected["notes"])
    page = html.unescape(render_day(report, {}))
    assert ("; ".join(verdict.notes) or "all is well") in page
    assert all(with_config(notice.text) in page for notice in report.notices)
    index = html.unescape(render_index([IndexRow(report, "page.html", datetime.now(UTC))], datetime.now(UTC)))
    assert re.findall(rf'<td class="(\w+)" title="{DAY}: ', index) == [verdict.level]
    # metrics
    outcome = ModelOutcome(MODEL.name, verdict.exit_code or 0, day_state=verdict)
    samples = read_samples(render_metrics({}, tmp_path, [outcome], 0, 1.0).decode())
    (level,) = (value for (name, _), value in samples.items() if name == "infer_day_needs_attention")
    assert [*LEVELS][int(level)] == verdict.level


def printed(capsys, folder, as_json=False):
    capsys.readouterr()
    show_status(2, None, as_json, folder / "infer.toml")
    return capsys.readouterr().out


def due(tables):
    return [notice.kind for notice in tables.database.ask(lambda connection: read_due(connection, MAIL))]


def test_a_run_of_a_day_to_come_keeps_no_night_from_telling(nights, tables):
    nights.night(5)
    nights.run(ago=-30)
    nights.change(missing_since=MISSING)
    current_notices(tables, DAY.before(3), DAY, stores=True)
    assert due(tables) == ["missing"]


def test_a_run_of_a_former_day_stores_nothing_of_what_holds(nights, tables):
    nights.night(5)
    nights.change(missing_since=MISSING)
    shown = current_notices(tables, DAY.before(13), DAY.before(10), stores=True)
    assert ([notice.kind for notice in shown], due(tables)) == (["missing"], [])


def test_of_a_camera_alone_what_happened_to_others_is_not_told(nights, tables):
    found("wrong clock", "1 new image has a time before 1995")(nights)
    tables.source.camera = "a"
    assert current_notices(tables, DAY.before(3), DAY) == []


def test_a_day_of_few_images_is_told_once_by_whichever_night_comes_to_it(nights, tables):
    nights.week(60)
    nights.night(5)
    for number in (5, 4):  # the next night finds fewer
        few = few_images(DayReader(tables, "5%"), DAY)
        assert [notice.text.startswith(f"{DAY}: unusual: {number} images") for notice in few] == [True]
        tables.database.transact(lambda connection, few=few: record(connection, few + few))
        with tables.database.write() as connection:
            connection.execute(delete(pictures).where(pictures.c.id == nights.num_images))
    assert due(tables) == ["few images"]
    told = tables.database.ask(lambda connection: read_due(connection, MAIL))
    tables.database.transact(lambda connection: mark_told(connection, MAIL, told))
    tables.database.transact(lambda connection: record(connection, few_images(DayReader(tables, "5%"), DAY)))
    assert due(tables) == []
