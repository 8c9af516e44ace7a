"""The upgrade that records versions in use: the view shows what it showed, and stays whose it was."""

from datetime import datetime

import pytest
from alembic import command
from sqlalchemy import column, insert, select, text
from sqlalchemy import table as sql_table

from infer_app.database.audits.row_audit import audit_rows
from infer_app.database.listing.fill_locations import PAGE_SIZE, fill_locations, has_unknown_runs
from infer_app.database.listing.former_pictures import check_ids
from infer_app.database.listing.source import Source
from infer_app.database.queries.day_queries import DayQueries
from infer_app.database.results import migrate
from infer_app.database.results.model_versions import all_in_use, read_versions
from infer_app.database.results.schema import models, predictions, runs
from infer_app.settings.sections import SourceSettings
from tests.conftest import DAY
from tests.support.results import stored

MODEL = "INSERT INTO infer_models (id, name, manifest, created_at) VALUES (:id, :name, '{}', :at)"
PREDICTION = (
    "INSERT INTO infer_predictions (image_id, model_id, run_id, variant, output, created_at)"
    " VALUES (:image, :model, 'r', 'v', '{}', '2026-01-01 00:00:00')"
)
SHOWN = text("SELECT model, image_id, model_id FROM infer_current_predictions ORDER BY 1, 2")


def to_revision(database, verb, revision):
    config = migrate._config()
    with database.write() as connection:
        config.attributes |= {"connection": connection, "schema": database.backend.own_schema(connection)}
        verb(config, revision)


def test_the_view_shows_what_it_showed_before(empty, kind):
    to_revision(empty, command.upgrade, "0003")
    times = {"old": "2026-01-01", "new": "2026-01-03", "mid": "2026-01-02", "never": "1970-01-02"}
    with empty.write() as connection:
        for model_id, at in times.items():
            connection.execute(text(MODEL), {"id": model_id, "name": "m", "at": f"{at} 00:00:00.000001"})
        connection.execute(text(MODEL), {"id": "other", "name": "o", "at": "2025-01-01 00:00:00"})
        for image, model in (("1", "old"), ("1", "new"), ("2", "old"), ("2", "mid"), ("1", "other")):
            connection.execute(text(PREDICTION), {"image": image, "model": model})
        connection.execute(text("CREATE VIEW their_own AS SELECT image_id FROM infer_current_predictions"))
        if kind == "postgres":
            connection.execute(text("ALTER VIEW infer_current_predictions SET (security_barrier = true)"))
            connection.execute(text("GRANT SELECT ON infer_current_predictions TO PUBLIC"))
    with empty.read() as connection:
        before = connection.execute(SHOWN).all()
    assert [tuple(row) for row in before] == [("m", "1", "new"), ("m", "2", "mid"), ("o", "1", "other")]
    for verb, revision in ((command.upgrade, "head"), (command.downgrade, "0003"), (command.upgrade, "head")):
        to_revision(empty, verb, revision)
        with empty.read() as connection:
            assert connection.execute(SHOWN).all() == before
            assert len(connection.execute(text("SELECT * FROM their_own")).all()) == 3
            if kind == "postgres":
                rights = "SELECT reloptions, relacl::text FROM pg_class WHERE relname = 'infer_current_predictions'"
                options, granted = connection.execute(text(rights)).one()
                assert options == ["security_barrier=true"]
                assert "=r/" in granted
    with empty.read() as connection:
        versions = read_versions(connection)
    assert all_in_use(versions) == {"m": "new", "o": "other"}
    assert [one.model_id for one in versions if one.was_in_use] == ["new", "mid", "old", "other"]


def test_the_time_of_a_version_becomes_that_of_its_first_run_and_back(empty):
    to_revision(empty, command.upgrade, "0007")
    days = {"old": ["2026-01-01", "2026-01-03"], "mid": ["2026-01-02"], "gone": [], "never": []}
    last_runs = {"old": "2026-01-03", "mid": "2026-01-02", "gone": "2025-12-01", "never": "1970-01-02"}
    names = "model", "time_zone", "variant", "executor", "device", "host", "process", "state"
    run = dict.fromkeys(names, "m") | {"versions": {}, "selected": 0, "predicted": 0, "rejected": 0}
    times = "interval_start", "interval_end", "started_at", "heartbeat_at"
    written = sql_table(
        "infer_runs", *(column(one, runs.c[one].type) for one in ("id", "model_id", "day", *run, *times))
    )
    with empty.write() as connection:
        for model_id, at in last_runs.items():
            connection.execute(text(MODEL), {"id": model_id, "name": "m", "at": f"{at} 00:00:00.000000"})
        for model_id, at in ((one, datetime.fromisoformat(at)) for one, on in days.items() for at in on):
            row = {"id": f"{model_id}{at}", "model_id": model_id, "day": at.date()} | dict.fromkeys(times, at)
            connection.execute(insert(written), run | row)

    def recorded():
        with empty.read() as connection:
            rows = connection.execute(select(models.c.id, models.c.created_at)).all()
        return {model_id: f"{at:%Y-%m-%d}" for model_id, at in rows}

    to_revision(empty, command.upgrade, "head")
    assert recorded() == last_runs | {"old": "2026-01-01"}
    with empty.read() as connection:
        versions = read_versions(connection)
    assert [one.model_id for one in versions] == ["old", "mid", "gone", "never"]  # by their last run
    assert [one.model_id for one in versions if not one.has_run] == ["never"]
    to_revision(empty, command.downgrade, "0007")
    assert recorded() == last_runs


RUN = (
    "INSERT INTO infer_runs (id, day, time_zone, interval_start, interval_end, model, model_id, variant, executor,"
    " device, host, process, versions, state, started_at, heartbeat_at, ended_at, selected, predicted, rejected,"
    " exit_code) VALUES ('r', '2026-11-20', 'UTC', '2026-11-20 00:00:00.000000', '2026-11-21 00:00:00.000000', 'm',"
    " 'm1', 'v', 'cpu', 'cpu', 'h', 'p', '{}', 'done', '2026-11-21 00:00:00.000000', '2026-11-21 00:00:00.000000',"
    " '2026-11-21 00:00:00.000000', 100000, 100000, 0, 0)"
)


def test_rows_of_the_version_before_are_none_that_no_run_can_have_written(empty):
    """Of images that are listed and of one that is not any more, with a score that it did not refuse."""
    to_revision(empty, command.upgrade, "0006")
    with empty.write() as connection:
        connection.execute(text(MODEL), {"id": "m1", "name": "m", "at": "2026-11-20 00:00:00"})
        connection.exec_driver_sql("""UPDATE infer_models SET manifest = '{"output": {"kind": "classification"}}'""")
        connection.execute(text(RUN))
        for number in range(1, 4):
            connection.execute(text(PREDICTION), {"image": str(number), "model": "m1"})
        connection.exec_driver_sql(f"UPDATE infer_predictions SET label = '0', score = 7.5, sha256 = '{64 * 'a'}'")
        for number in range(1, 3):
            listed = f"VALUES ({number}, '/{number}.jpg', '2026-11-20 12:00:00')"
            connection.exec_driver_sql(f"INSERT INTO infer_images (id, location, added_at) {listed}")
    migrate.upgrade(empty)
    assert fill_locations(empty, Source(empty, SourceSettings())) == 2
    with empty.read() as connection:
        assert connection.scalar(select(runs.c.source_id)) == 1
        assert list(audit_rows(connection)) == []


@pytest.mark.parametrize("table", ["infer_images", "shots"])
def test_predictions_of_the_version_before_know_their_pictures(empty, kind, table):
    """Of more images than a page has, of our own table or of the user's, where one has no row any more."""
    numbers, gone = range(1, PAGE_SIZE + 100), PAGE_SIZE
    at = {"sqlite": "VARCHAR(30)", "postgres": "TIMESTAMP", "mariadb": "DATETIME"}[kind]
    with empty.write() as connection:
        if table == "shots":
            made = f"CREATE TABLE shots (id INTEGER PRIMARY KEY, location VARCHAR(200), added_at {at})"
            connection.execute(text(made))
    to_revision(empty, command.upgrade, "0007")
    listed = f"INSERT INTO {table} (id, location, added_at) VALUES (:n, :location, '2026-11-20 12:00:00')"
    with empty.write() as connection:
        rows = [{"n": n, "location": f"/{n}.jpg"} for n in numbers if n != gone]
        connection.execute(text(listed), rows)
        connection.execute(text(PREDICTION), [{"image": str(n), "model": "m1"} for n in numbers])
        connection.execute(text(RUN))
    migrate.upgrade(empty)
    source = Source(empty, SourceSettings(table=table, time_zone="UTC"))
    assert has_unknown_runs(empty)
    assert fill_locations(empty, source) == len(rows)
    assert not has_unknown_runs(empty)
    expected = {str(n): (None if n == gone else f"/{n}.jpg",) for n in numbers}
    assert stored(empty, predictions, "location") == expected
    with empty.read() as connection:
        assert connection.scalar(select(runs.c.source_id)) == 1
    check_ids(empty, source, DAY, ["m1"])
    assert list(source.select_new(DAY, "m1")) == []
    assert DayQueries(empty, source).find_problems(DAY, "m1") == []
