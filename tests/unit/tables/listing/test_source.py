"""Which images a day has, from a user's own table as well as from ours, where SQLite alone can show it."""

import random
from datetime import date, datetime

import pytest

from infer_app.base.day import Day
from infer_app.base.domain import ImageRef
from infer_app.base.errors import UsageError
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.listing.source import Source
from infer_app.tables.listing.source_checks import check_source
from infer_app.tables.listing.time_column import EXAMPLES
from infer_app.tables.listing.user_table import UserTable
from tests.conftest import DAY, MODEL
from tests.support.listings import listed, select_new, source_of
from tests.support.query_plans import recorded
from tests.support.results import run_day

PHOTOS = SourceSettings(table="photos", id="photo_id", location="path", time="uploaded_at", time_zone="UTC")


@pytest.fixture
def execute(database):
    def execute_statements(*statements):
        with database.write() as connection:
            for statement in statements:
                connection.exec_driver_sql(*(statement if isinstance(statement, tuple) else (statement,)))

    return execute_statements


@pytest.fixture
def photos(execute):
    """A table of the user's own, in shuffled order: photos 0 … 29, one a minute."""
    rows = [(f"p{i:02}", f"/photos/{i}.jpg", f"2026-11-20 12:{i:02}:00") for i in range(30)]
    random.Random(7).shuffle(rows)
    execute(
        "CREATE TABLE photos (path TEXT, note TEXT, uploaded_at TEXT, photo_id TEXT PRIMARY KEY)",
        *[("INSERT INTO photos (photo_id, path, uploaded_at) VALUES (?, ?, ?)", row) for row in rows],
    )
    return [ImageRef(f"p{i:02}", f"/photos/{i}.jpg") for i in range(30)]


@pytest.mark.parametrize("num_ids", [2, 20])
def test_rows_are_found_by_their_ids_in_one_read_of_the_table(database, photos, num_ids):
    wanted, statements = {ref.image_id: ref.location for ref in photos[:num_ids]}, recorded(database)
    rows = UserTable(database, PHOTOS).find_rows([*wanted, "gone"])
    assert {row.image_id: row.location for row in rows} == wanted
    assert len([sql for sql, *_ in statements if "FROM photos" in sql]) == 1


def test_images_of_the_day_are_selected_in_order_of_time_a_page_at_a_time(database, photos):
    source = listed(database, PHOTOS, page_size=3)
    statements = recorded(database)
    refs = source.select_new(DAY, MODEL.model_id)
    first = next(refs)
    assert len([sql for sql, *_ in statements if "ORDER BY" in sql]) == 1
    assert [first, *refs] == photos


def test_ids_of_any_type_are_matched_with_their_results(database, execute):
    """An id that reads otherwise in Python than in SQL would be new every night."""
    execute("CREATE TABLE shots (id, location TEXT, added_at TEXT)")
    for i, identity in enumerate((7, "7b", 0.1 + 0.2, 1e22, "é", "it's")):
        execute(("INSERT INTO shots VALUES (?, ?, ?)", (identity, f"/{i}.jpg", "2026-11-20")))
    source = source_of(database, SourceSettings(table="shots"))
    assert [len(run_day(database, source, DAY)) for _ in range(2)] == [6, 0]


@pytest.mark.parametrize("index", [(), ("CREATE INDEX by_time ON shots (at)",)])
def test_the_unit_of_times_is_that_of_most_rows(database, execute, index):
    """As many rows of an unknown date as are looked at come first."""
    noon = 1_795_176_000  # in seconds
    rows = [(0,)] * EXAMPLES + [(1000 * (noon + 3600 * n),) for n in range(24)]
    execute("CREATE TABLE shots (id INTEGER PRIMARY KEY, location TEXT, at INTEGER)", *index)
    execute(*[("INSERT INTO shots (location, at) VALUES ('/a.jpg', ?)", row) for row in rows])
    settings = SourceSettings(table="shots", time="at")
    assert [len(select_new(database, settings, DAY.before(n))) for n in (1, 0, -1, -2)] == [0, 12, 12, 0]
    execute("UPDATE shots SET at = 1795176000 WHERE at = 0")
    with pytest.raises(UsageError, match="of several units"):
        select_new(database, settings)


COLUMNS = "its columns are: path, note, uploaded_at, photo_id"


@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        ({"table": "photo"}, "[source] no table or view 'photo'", "did you mean 'photos'? there are: photos"),
        ({"location": "paht"}, "location = 'paht' is not a column of photos", f"did you mean 'path'? {COLUMNS}"),
        ({"time": "zzz"}, "[source] time = 'zzz' is not a column", COLUMNS),
    ],
)
def test_a_misspelt_name_is_answered_with_the_one_that_was_meant(database, photos, settings, message, hint):
    with pytest.raises(UsageError) as caught:
        check_source(UserTable(database, PHOTOS.model_copy(update=settings)))
    assert message in caught.value.message
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("day", "nearest"),
    [
        (Day.of(date(2026, 11, 10), "UTC"), date(2026, 11, 19)),
        (Day.of(date(2026, 11, 30), "UTC"), date(2026, 11, 21)),
        (Day.of(date(2026, 11, 18), "Asia/Tokyo"), date(2026, 11, 20)),  # 23:59 UTC is the next morning there
    ],
)
def test_the_nearest_day_that_has_images(database, register, day, nearest):
    for at in (datetime(2026, 11, 19, 23, 59, 59), datetime(2026, 11, 20, 12), datetime(2026, 11, 21)):
        register(f"/{at}.jpg", at=at)
    assert Source(database).nearest_date(day) == nearest


def test_our_own_table_is_in_utc(database, register):
    register("/a.jpg", at=datetime(2026, 11, 20, 0, 0))
    assert [ref.location for ref in select_new(database)] == ["/a.jpg"]
