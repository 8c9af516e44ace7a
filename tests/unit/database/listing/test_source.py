"""Which images a day has, from a user's own table, view or query as well as from ours."""

import itertools
import random
from datetime import date, datetime

import pytest
from sqlalchemy import event

from infer_app.database.engine.connect import Database
from infer_app.database.listing import source as source_module
from infer_app.database.listing.source import Source, find_locations
from infer_app.database.listing.source_checks import check_source
from infer_app.database.listing.time_column import EXAMPLES
from infer_app.database.results.schema import predictions, rejections
from infer_app.database.results.sink import Sink
from infer_app.day import Day
from infer_app.domain import Broken, ChunkResult, ImageRef, Output, Prediction, Reason
from infer_app.errors import UsageError
from infer_app.settings.sections import SourceSettings
from tests.conftest import DAY, MODEL

PHOTOS = SourceSettings(table="photos", id="photo_id", location="path", time="uploaded_at", time_zone="UTC")
MODEL_ID = MODEL.model_id


@pytest.fixture
def execute(database):
    def execute_statements(*statements):
        with database.write() as connection:
            for statement in statements:
                connection.exec_driver_sql(*statement) if isinstance(statement, tuple) else connection.exec_driver_sql(
                    statement
                )

    return execute_statements


@pytest.fixture
def photos(execute):
    """A table of the user's own, in shuffled order: photos 0 … 29, one a minute, and one on each day beside it."""
    rows = [(f"p{i:02}", f"/photos/{i}.jpg", f"2026-11-20 12:{i:02}:00") for i in range(30)]
    rows += [("early", "/e.jpg", "2026-11-19 23:59:59"), ("late", "/l.jpg", "2026-11-21 00:00:00")]
    random.Random(7).shuffle(rows)
    execute(
        "CREATE TABLE photos (path TEXT, note TEXT, uploaded_at TEXT, photo_id TEXT PRIMARY KEY)",
        *[("INSERT INTO photos (photo_id, path, uploaded_at) VALUES (?, ?, ?)", row) for row in rows],
    )
    return [ImageRef(f"p{i:02}", f"/photos/{i}.jpg") for i in range(30)]


@pytest.fixture
def small_pages(monkeypatch):
    monkeypatch.setattr(source_module, "PAGE_SIZE", 3)


@pytest.mark.parametrize("num_ids", [2, 20])
def test_locations_are_found_in_one_read_of_the_source(database, photos, small_pages, num_ids):
    wanted = {ref.image_id: [ref.location] for ref in photos[:num_ids]}
    reads = []
    event.listen(database._engine, "before_cursor_execute", lambda *given: reads.append(given[2]))
    assert find_locations(Source(database, PHOTOS), [*wanted, "gone"]) == wanted
    assert len([sql for sql in reads if "FROM photos" in sql]) == 1


def select(database, settings=PHOTOS, day=DAY):
    return list(Source(database, settings).select_new(day, MODEL_ID))


def commit(database, *refs, reason=None, run_id="run", model_id=MODEL_ID):
    sink = Sink(database, model_id, "cpu-torchscript", run_id)
    if reason is None:
        sink.commit_chunk(ChunkResult(0, tuple(Prediction(ref, Output()) for ref in refs), ()))
    else:
        sink.commit_chunk(ChunkResult(0, (), tuple(Broken(ref, reason, "", "read") for ref in refs)))


def test_a_users_table_gives_its_day_in_order_of_time(database, photos):
    assert select(database) == photos


def test_a_users_view_and_query_give_the_same(database, photos, execute):
    execute("CREATE VIEW todays AS SELECT photo_id AS pid, path AS file, uploaded_at AS at FROM photos")
    view = SourceSettings(table="todays", id="pid", location="file", time="at", time_zone="UTC")
    query = SourceSettings(
        query="SELECT photo_id, path AS location, uploaded_at FROM photos WHERE photo_id <> 'p05';".rstrip(";"),
        id="photo_id",
        time="uploaded_at",
        time_zone="UTC",
    )
    assert select(database, view) == photos
    assert select(database, query) == [ref for ref in photos if ref.image_id != "p05"]


def test_names_that_need_quotes_are_quoted(database, execute):
    execute('CREATE TABLE "my photos" ("the id" INTEGER, "order" TEXT, "from" TEXT)')
    execute("INSERT INTO \"my photos\" VALUES (7, '/a.jpg', '2026-11-20')")
    settings = SourceSettings(table="my photos", id="the id", location="order", time="from")
    check_source(Source(database, settings))
    assert select(database, settings) == [ImageRef("7", "/a.jpg")]


@pytest.mark.parametrize("size", [1, 2, 3, 29, 30, 31])
def test_pages_of_any_size_give_each_image_once(database, photos, monkeypatch, size):
    monkeypatch.setattr(source_module, "PAGE_SIZE", size)
    assert select(database) == photos


@pytest.mark.parametrize("count", [2, 3, 4, 10])
def test_images_of_one_moment_are_neither_lost_nor_doubled_at_a_pages_end(database, register, small_pages, count):
    """`count` images of each of three moments, on pages of three."""
    for minute in (1, 0, 2):
        names = [f"/{minute}-{i}.jpg" for i in range(count)]
        register(*names, at=datetime(2026, 11, 20, 12, minute))
    found = [ref.location for ref in select(database, SourceSettings())]
    assert found == [f"/{minute}-{i}.jpg" for minute in (0, 1, 2) for i in range(count)]


def test_pages_go_on_where_they_were_though_results_are_written_meanwhile(database, photos, small_pages):
    seen = []
    for ref in Source(database, PHOTOS).select_new(DAY, MODEL_ID):
        commit(database, ref)
        seen.append(ref)
    assert seen == photos


def test_images_that_arrive_while_the_day_is_read_are_found_if_they_are_later(database, photos, execute, small_pages):
    refs = Source(database, PHOTOS).select_new(DAY, MODEL_ID)
    first = list(itertools.islice(refs, 5))
    execute("INSERT INTO photos (photo_id, path, uploaded_at) VALUES ('new', '/n.jpg', '2026-11-20 23:00:00')")
    assert first + list(refs) == [*photos, ImageRef("new", "/n.jpg")]


def test_one_page_is_read_at_a_time(database, photos, small_pages):
    statements = []
    event.listen(database._engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    refs = Source(database, PHOTOS).select_new(DAY, MODEL_ID)
    next(refs)
    pages = [statement for statement in statements if "ORDER BY" in statement]
    assert len(pages) == 1


def test_new_is_neither_predicted_nor_rejected_for_good(database, photos):
    commit(database, photos[0])
    commit(database, photos[1], reason=Reason.CORRUPT)
    commit(database, photos[2], reason=Reason.READ_ERROR)  # transient: tried again
    commit(database, photos[3], model_id="another")
    commit(database, photos[4], reason=Reason.CORRUPT, model_id="another")
    assert select(database) == photos[2:]


def test_a_transient_reason_stands_after_three_attempts_but_not_found_never_does(database, photos, execute):
    for attempt in range(3):
        commit(database, photos[0], reason=Reason.READ_TIMEOUT, run_id=f"run {attempt}")
        commit(database, photos[1], reason=Reason.NOT_FOUND, run_id=f"run {attempt}")
        assert select(database)[:2] == (photos[:2] if attempt < 2 else photos[1:3])
        execute("UPDATE infer_rejections SET created_at = '2026-11-20 12:00:00.000000'")


def test_ids_of_any_type_are_matched_with_their_results(database, execute):
    """An id that reads otherwise in Python than in SQL would be new every night."""
    execute("CREATE TABLE shots (id, location TEXT, added_at TEXT)")
    for i, identity in enumerate((7, "7b", 0.1 + 0.2, 1e22, "é", "it's")):
        execute(("INSERT INTO shots VALUES (?, ?, ?)", (identity, f"/{i}.jpg", "2026-11-20")))
    settings = SourceSettings(table="shots")
    refs = select(database, settings)
    assert len(refs) == 6
    commit(database, *refs)
    assert select(database, settings) == []


@pytest.mark.parametrize("index", [(), ("CREATE INDEX by_time ON shots (at)",)])
def test_the_unit_of_times_is_that_of_most_rows(database, execute, index):
    """As many rows of an unknown date as are looked at come first."""
    noon = 1_795_176_000  # in seconds
    rows = [(0,)] * EXAMPLES + [(1000 * (noon + 3600 * n),) for n in range(24)]
    execute("CREATE TABLE shots (id INTEGER PRIMARY KEY, location TEXT, at INTEGER)", *index)
    execute(*[("INSERT INTO shots (location, at) VALUES ('/a.jpg', ?)", row) for row in rows])
    settings = SourceSettings(table="shots", time="at")
    assert [len(select(database, settings, DAY.before(n))) for n in (1, 0, -1, -2)] == [0, 12, 12, 0]
    execute("UPDATE shots SET at = 1795176000 WHERE at = 0")
    with pytest.raises(UsageError, match="of several units"):
        select(database, settings)


def test_the_source_is_only_read(database, photos, small_pages, tmp_path):
    expected = Source(database, PHOTOS).nearest_date(DAY), select(database)
    database.close()
    before = (tmp_path / "infer.db").read_bytes()
    with Database(f"sqlite:///{tmp_path / 'infer.db'}", read_only=True) as read_only:
        source = Source(read_only, PHOTOS)
        check_source(source)
        assert (source.nearest_date(DAY), list(source.select_new(DAY, MODEL_ID))) == expected
    assert (tmp_path / "infer.db").read_bytes() == before


def test_every_page_is_a_search_in_the_index(database, register, small_pages):
    """No scan of the table and no sort, on no page: one costs the same in a table of millions."""
    register(*[f"/{i}.jpg" for i in range(4)])
    register(*[f"/{i}.jpg" for i in range(4, 7)], at=datetime(2026, 11, 20, 13))
    statements = []
    event.listen(
        database._engine, "before_cursor_execute", lambda *args: statements.append((args[2], args[3]))
    )  # connection, cursor, statement, parameters, …
    select(database, SourceSettings())
    pages = [(sql, parameters) for sql, parameters in statements if "ORDER BY" in sql]
    assert len(pages) == 1 + 2 * 2  # after a full page: the rest of its time, then the times after it
    for sql, parameters in pages:
        with database.read() as connection:
            plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", parameters)]
        assert any(step.startswith("SEARCH infer_images USING INDEX ix_infer_images_added_at_id") for step in plan)
        assert [step for step in plan if "SCAN" in step or "TEMP B-TREE" in step] == []
        for table in (predictions.name, rejections.name):
            assert any(f"SEARCH {table} USING" in step and "image_id=?" in step for step in plan)


@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        ({"table": "photo"}, "[source] no table or view 'photo'", "did you mean 'photos'?"),
        ({"id": "photoid"}, "[source] id = 'photoid' is not a column of photos", "did you mean 'photo_id'?"),
        ({"location": "paht"}, "[source] location = 'paht' is not a column of photos", "did you mean 'path'?"),
        ({"time": "upload_at"}, "[source] time = 'upload_at' is not a column of photos", "did you mean 'uploaded_at'?"),
        (
            {"time": "zzz"},
            "[source] time = 'zzz' is not a column of photos",
            "there are: note, path, photo_id, uploaded_at",
        ),
    ],
)
def test_a_misspelt_name_is_answered_with_the_one_that_was_meant(database, photos, settings, message, hint):
    with pytest.raises(UsageError) as caught:
        check_source(Source(database, PHOTOS.model_copy(update=settings)))
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize("query", ["SELECT photo_id, path FROM photos", "SELECT * FROM nowhere", "SELEC 1"])
def test_a_query_that_does_not_give_the_columns_is_refused(database, photos, query):
    settings = PHOTOS.model_copy(update={"query": query})
    with pytest.raises(UsageError, match="can't be read") as caught:
        check_source(Source(database, settings))
    assert caught.value.exit_code == 2


def test_a_table_that_is_well_named_passes(database, photos):
    for settings, found in ((PHOTOS, photos), (SourceSettings(), [])):
        check_source(Source(database, settings))
        assert select(database, settings) == found


@pytest.mark.parametrize(
    ("day", "nearest"),
    [
        (Day.of(date(2026, 11, 10), "UTC"), date(2026, 11, 19)),
        (Day.of(date(2026, 11, 30), "UTC"), date(2026, 11, 21)),
        (Day.of(date(2026, 11, 18), "Asia/Tokyo"), date(2026, 11, 20)),  # 23:59 UTC is the next morning there
    ],
)
def test_the_nearest_day_that_has_images(database, photos, day, nearest):
    assert Source(database, PHOTOS).nearest_date(day) == nearest


def test_without_images_there_is_no_nearest_day(database):
    assert Source(database, SourceSettings()).nearest_date(DAY) is None


def test_our_own_table_is_in_utc_whatever_zone_is_stated_for_others(database, register):
    register("/a.jpg", at=datetime(2026, 11, 20, 0, 0))
    assert [ref.location for ref in select(database, SourceSettings(time_zone="Asia/Tokyo"))] == ["/a.jpg"]
