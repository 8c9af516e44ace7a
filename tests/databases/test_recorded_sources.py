"""What is recorded of sources: their numbers, columns of any name, and what was forgotten of them."""

from datetime import UTC, datetime
from threading import Thread

import pytest
from sqlalchemy import event

from infer_app.base.domain import ImageFile
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.image_registry import DatedImage, register
from infer_app.tables.queries.late_days import find_late_days
from infer_app.tables.results.sources import (
    SourceIdentity,
    forget_before,
    read_forgotten_before,
    read_sources,
    record_source,
)
from tests.conftest import DAY
from tests.support.shots import ID, MONDAY, QUERY, SHOTS, TUESDAY, labels_of, noon_of, opened


@pytest.mark.parametrize("relation", [{"table": "shots"}, {"query": "SELECT * FROM shots"}], ids=["table", "query"])
def test_columns_may_be_named_as_those_of_the_results(database, execute, run, kind, relation):
    """By default the location's is."""
    at = {"sqlite": "TEXT", "postgres": "TIMESTAMP", "mariadb": "DATETIME"}[kind]
    execute(f"CREATE TABLE shots (image_id VARCHAR(20), location VARCHAR(200), created_at {at})")

    def put(*pictures):
        rows = [{"id": i, "location": location, "at": str(noon_of(day))[:19]} for i, location, day in pictures]
        execute("DELETE FROM shots", ("INSERT INTO shots VALUES (:id, :location, :at)", rows))

    settings = SourceSettings(id="image_id", time="created_at", time_zone="UTC", **relation)
    put(("1", "/1.jpg", MONDAY), ("2", "/2.jpg", MONDAY))
    assert run(settings, MONDAY, bad=["/2.jpg"]) == ["/1.jpg", "/2.jpg"]
    put(("1", "/new/1.jpg", DAY), ("2", "/new/2.jpg", DAY), ("3", "/3.jpg", DAY))
    assert run(settings) == ["/new/1.jpg", "/new/2.jpg", "/3.jpg"]
    assert run(settings) == []
    assert len(labels_of(database, settings)[0]) == 3


def test_images_of_ours_that_are_registered_late_are_found_beside_another_source(database, fill, run):
    """Though it has results under their ids."""
    fill("shots", *((str(i), f"/shots/{i}.jpg", DAY) for i in range(1, 4)))
    run(SHOTS)
    late, now = DAY.before(60), datetime.now(UTC).replace(tzinfo=None)
    dated = [DatedImage(ImageFile(f"/own/{i}.jpg"), noon_of(late), now) for i in range(1, 4)]
    list(register(database, [one.file for one in dated], lambda _: dated))
    ours = opened(database, SourceSettings())
    assert find_late_days(database, ours, DAY, [ID]) == [late]
    assert find_late_days(database, opened(database, SHOTS), DAY, [ID]) == []


def test_what_was_forgotten_stays_so_when_the_query_is_edited(database, fill, run):
    """But not of another table, of a query by another id, or of our own images."""
    fill("shots", ("1", "/1.jpg", MONDAY))
    fill("scans", ("2", "/2.jpg", MONDAY))

    def forgotten_before(settings):
        return read_forgotten_before(database, opened(database, settings).identity)

    for settings, day in ((QUERY, TUESDAY), (SHOTS, MONDAY)):
        forget_before(database, opened(database, settings).identity, day.start)
    changes = (
        {"query": "SELECT * FROM shots WHERE id <> '9'"},
        {"query": "SELECT * FROM shots", "id": "path"},
        {"query": None, "table": "scans"},
    )
    edited, by_path, other = (QUERY.model_copy(update=change) for change in changes)
    assert [forgotten_before(one) for one in (QUERY, edited, SHOTS)] == [TUESDAY.start, TUESDAY.start, MONDAY.start]
    assert [forgotten_before(one) for one in (by_path, other, SourceSettings())] == [None, None, None]


def test_a_source_that_two_runs_record_at_once_has_one_number(database, url):
    """The second begins when the first has found that it is new."""
    identity, threads, numbers = SourceIdentity(None, "shots", "id", "path"), [], []

    def begin(connection, cursor, sql, *_):
        if sql.startswith("INSERT INTO infer_sources") and not threads:
            threads.append(Thread(target=record))
            threads[0].start()
            threads[0].join(0.5)

    def record():
        with Database(url) as other:
            numbers.append(record_source(other, identity))

    event.listen(database._engine, "before_cursor_execute", begin)
    numbers.append(record_source(database, identity))
    threads[0].join()
    assert numbers == [1, 1]
    with database.read() as connection:
        assert read_sources(connection) == {1: identity}
