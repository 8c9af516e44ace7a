"""Days and times of every type; tables and queries of the user."""

import tracemalloc
from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import make_url

from infer_app.base.day import Day
from infer_app.base.domain import ImageRef
from infer_app.base.errors import DatabaseUnavailable, UsageError
from infer_app.base.settings.sections import SourceSettings
from infer_app.cli.project.project import init_from
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.picture_tables import find_picture_tables
from infer_app.tables.listing.source import Source
from infer_app.tables.listing.source_checks import check_source, find_missing_index, find_row_security
from infer_app.tables.listing.stored_notices import read_current
from infer_app.tables.listing.user_table import UserTable
from tests.conftest import DAY, MODEL
from tests.databases.conftest import only
from tests.support.listings import listed, select_new, source_of
from tests.support.results import broken, commit, predicted

ID = MODEL.model_id


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns"])
def test_a_day_begins_and_ends_to_the_microsecond(database, tables, register, zone):
    day = Day.of(date(2026, 10, 25), zone)  # of 25 hours in Berlin
    tick = timedelta(microseconds=1)
    moments = [day.start - tick, day.start, day.end - tick, day.end]
    for number, moment in enumerate(moments):
        register(f"/{number}.jpg", at=moment.replace(tzinfo=None))
    assert [ref.location for ref in select_new(database, day=day)] == ["/1.jpg", "/2.jpg"]
    assert tables.count_day(day, ID).eligible == 2
    assert [ref.location for ref in select_new(database, day=day.before(1))] == ["/0.jpg"]
    assert [ref.location for ref in select_new(database, day=day.before(-1))] == ["/3.jpg"]


@pytest.mark.parametrize(
    ("type_name", "zone", "found"),
    [
        ("DATE", None, {"1", "2"}),
        ("naive", "UTC", {"1", "2"}),
        ("naive", "America/New_York", {"0", "1"}),
        ("aware", None, {"1", "2"}),
        ("TEXT", "UTC", {"1", "2"}),
        ("BIGINT", None, {"1", "2"}),
    ],
)
def test_times_of_every_type_fall_into_their_day(database, execute, kind, type_name, zone, found):
    """The servers' own zone is another one, so that a session's zone would show."""
    if type_name == "aware" and kind != "postgres":
        pytest.skip("no type for it")
    spelled = {"naive": "DATETIME" if kind == "mariadb" else "TIMESTAMP", "aware": "TIMESTAMP WITH TIME ZONE"}
    moments = {
        "0": datetime(2026, 11, 19, 23, 59),
        "1": datetime(2026, 11, 20, 0, 0),
        "2": datetime(2026, 11, 20, 23, 59),
        "3": datetime(2026, 11, 21, 0, 0),
    }
    write = {
        "DATE": lambda moment: moment.date(),
        "naive": lambda moment: str(moment) if kind == "sqlite" else moment,
        "aware": lambda moment: moment.replace(tzinfo=UTC),
        "TEXT": str,
        "BIGINT": lambda moment: int(moment.replace(tzinfo=UTC).timestamp()),
    }[type_name]
    execute(f"CREATE TABLE shots (id INTEGER, location TEXT, added_at {spelled.get(type_name, type_name)})")
    rows = [{"id": int(key), "at": write(moment)} for key, moment in moments.items()]
    rows[:0] = [{"id": 9, "at": unknown} for key, unknown in (("TEXT", ""), ("BIGINT", 0)) if key == type_name]
    settings = SourceSettings(table="shots", time_zone=zone)
    assert select_new(database, settings) == []  # before it has any row
    assert source_of(database, settings).nearest_date(DAY) is None
    execute(("INSERT INTO shots VALUES (:id, '/a.jpg', :at)", rows))
    assert {ref.image_id for ref in select_new(database, settings)} == found
    assert source_of(database, settings).nearest_date(Day.of(date(2026, 12, 1), "UTC")) == date(2026, 11, 21)


@only("postgres")
def test_times_are_read_whatever_way_the_database_writes_them(url, database, execute):
    execute(
        "CREATE TABLE photos (id integer, location text, time timestamptz)",
        ("INSERT INTO photos VALUES (1, '/1.jpg', :time)", [{"time": DAY.start}]),
        f"ALTER DATABASE {make_url(url).database} SET DateStyle = 'German'",
    )
    with Database(url) as german:
        for _ in range(2):  # the second time after a rollback
            settings = SourceSettings(table="photos", time="time")
            assert [ref.image_id for ref in select_new(german, settings)] == ["1"]


@only("mariadb")  # its TIMESTAMP alone is shown in the session's zone
def test_mariadbs_timestamps_are_utc_whatever_zone_the_server_is_in(database, execute):
    execute("CREATE TABLE shots (id INTEGER, location TEXT, added_at TIMESTAMP NULL)")
    execute("INSERT INTO shots VALUES (1, '/a.jpg', FROM_UNIXTIME(1795132800))")  # 2026-11-20 00:00:00 UTC
    settings = SourceSettings(table="shots", time_zone="UTC")
    assert [ref.image_id for ref in select_new(database, settings)] == ["1"]


def test_a_users_table_view_and_query_in_other_words_give_the_same(database, execute, kind):
    quote = "`" if kind == "mariadb" else '"'
    table, order = f"{quote}my photos{quote}", f"{quote}order{quote}"
    execute(
        f"CREATE TABLE {table} (pid INTEGER, {order} TEXT, seen TIMESTAMP NULL)",
        f"INSERT INTO {table} VALUES (7, '/a:b%c.jpg', '2026-11-20 10:00:00'), (8, '/b.jpg', NULL)",
        f"CREATE VIEW seen_photos AS SELECT pid, {order} AS path, seen FROM {table}",
    )
    common = {"id": "pid", "time": "seen", "time_zone": "UTC"}
    query = f"SELECT pid, {order} AS path, seen FROM {table} WHERE {order} LIKE '%:b%'"
    for settings in (
        SourceSettings(table="my photos", location="order", **common),
        SourceSettings(table="seen_photos", location="path", **common),
        SourceSettings(query=query, location="path", **common),
        SourceSettings(query=f"{query} ;  \n", location="path", **common),
        SourceSettings(query=f"{query} -- all of them", location="path", **common),
    ):
        check_source(UserTable(database, settings))
        assert select_new(database, settings) == [ImageRef("7", "/a:b%c.jpg")]
    assert UserTable(database, SourceSettings(table="seen_photos", location="path", **common)).count_without_time() == 1
    with pytest.raises(UsageError, match="no table or view 'seen_photo'"):
        check_source(UserTable(database, SourceSettings(table="seen_photo")))
    for wrong in ("SELECT pid FROM seen_photos", "SELECT * FROM nowhere", "SELEC 1"):
        with pytest.raises(UsageError, match="can't be read"):
            check_source(UserTable(database, SourceSettings(query=wrong, location="path", **common)))


@only("postgres", "mariadb")
def test_a_query_that_the_server_ends_is_not_called_a_wrong_one(url, database, execute, kind):
    execute("CREATE TABLE shots (id INTEGER, location VARCHAR(80), added_at DATE)")
    execute("INSERT INTO shots VALUES (1, '/a.jpg', '2026-11-20')")
    limit, sleep = {
        "postgres": ("options=-c%20statement_timeout%3D200", "pg_sleep(5)"),
        "mariadb": ("init_command=SET%20max_statement_time%3D0.2", "SLEEP(5)"),
    }[kind]
    settings = SourceSettings(query=f"SELECT id, location, added_at, {sleep} FROM shots WHERE {sleep} IS NOT NULL")
    with (
        Database(f"{url}{'&' if '?' in url else '?'}{limit}") as impatient,
        pytest.raises(DatabaseUnavailable) as caught,
    ):
        check_source(UserTable(impatient, settings))
    assert ("max_statement_time" in caught.value.hint) == (kind == "mariadb")


def test_tables_with_names_of_pictures_are_found_among_others(database, execute, kind):
    text = {"sqlite": "BLOB", "postgres": "BYTEA", "mariadb": "VARBINARY(200)"}[kind]
    execute(
        "CREATE TABLE people (id INTEGER PRIMARY KEY, name VARCHAR(80))", "INSERT INTO people VALUES (1, 'A. Jones')"
    )
    execute(f"CREATE TABLE photos (nr INTEGER PRIMARY KEY, path VARCHAR(200), file {text})")
    execute(("INSERT INTO photos VALUES (1, '/srv/p/1.JPG', :file)", [{"file": "Größe.jpg".encode()}]))
    execute("CREATE VIEW recent AS SELECT nr AS id, path FROM photos")
    photos, recent = find_picture_tables(database)
    assert photos == ("photos", ["nr", "path", "file"], {"path": "/srv/p/1.JPG", "file": "Größe.jpg"})
    assert recent == ("recent", ["id", "path"], {"path": "/srv/p/1.JPG"})


def test_large_values_are_not_read_for_their_names(database, execute, kind):
    large = 4 << 20
    types = {"sqlite": ("BLOB", "TEXT"), "postgres": ("BYTEA", "TEXT"), "mariadb": ("LONGBLOB", "LONGTEXT")}
    blob, text_ = types[kind]
    execute(f"CREATE TABLE scans (nr INTEGER PRIMARY KEY, picture {blob}, notes {text_}, name TEXT)")
    row = {"picture": b"x" * large, "notes": "y" * large}
    for number in range(3):
        execute((f"INSERT INTO scans VALUES ({number}, :picture, :notes, '{number}.jpg')", [row]))
    del row
    tracemalloc.start()
    try:
        (found,) = find_picture_tables(database)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.names == {"name": "0.jpg"}
    assert peak < large


def test_an_index_that_begins_with_the_time_is_missed_until_it_is_there(database, execute):
    execute("CREATE TABLE shots (id INTEGER PRIMARY KEY, location VARCHAR(80), added_at DATE)")
    execute("CREATE VIEW seen AS SELECT * FROM shots")
    table = UserTable(database, SourceSettings(table="shots"))
    execute(find_missing_index(table))
    assert find_missing_index(table) is None
    assert find_missing_index(UserTable(database, SourceSettings(table="seen"))) is None


@only("postgres")
def test_partitions_are_not_tables_and_row_security_is_told_until_a_policy_shows_all(database, execute, add_role):
    execute("CREATE TABLE shots (id INTEGER, location TEXT, added_at DATE) PARTITION BY RANGE (added_at)")
    execute("CREATE TABLE shots_2026 PARTITION OF shots FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')")
    execute("INSERT INTO shots VALUES (1, '/a.jpg', '2026-11-20')", "ALTER TABLE shots ENABLE ROW LEVEL SECURITY")
    assert [table.name for table in find_picture_tables(database)] == ["shots"]
    execute("CREATE VIEW owners AS SELECT * FROM shots")
    execute("CREATE VIEW middle WITH (security_invoker = on) AS SELECT * FROM shots")
    execute("CREATE VIEW readers WITH (security_invoker) AS SELECT * FROM middle")
    names = "shots", "shots_2026", "SELECT * FROM shots s"
    shots, part, query = (SourceSettings(**{"query" if " " in name else "table": name}) for name in names)
    assert find_row_security(UserTable(database, shots)) == []  # its owner sees all
    with Database(add_role("GRANT SELECT ON {all} TO {role}")) as limited:
        table = UserTable(limited, shots)
        assert table.find_rows(["1"]) == []
        assert find_row_security(UserTable(limited, part)) == []
        ((name, policy),) = find_row_security(UserTable(limited, query))
        assert find_row_security(table) == [(name, policy)]
        assert find_row_security(UserTable(limited, SourceSettings(table="owners"))) == []
        view = UserTable(limited, SourceSettings(table="readers"))
        assert (view.find_rows(["1"]), find_row_security(view)) == ([], [("readers", policy)])
        listed(database, shots, limited)
        assert [one.text for one in database.ask(read_current) if "row security hides rows of shots" in one.text]
        execute(policy)
        assert ([row.location for row in table.find_rows(["1"])], find_row_security(table)) == (["/a.jpg"], [])


@only("postgres", "mariadb")  # a file that is not there has a test of its own
def test_a_server_or_database_that_is_not_there_is_told_with_what_to_check(url, tmp_path):
    gone = make_url(url).set(database="nodb").render_as_string(hide_password=False)
    with pytest.raises(DatabaseUnavailable, match="nodb") as caught:
        init_from(gone, folder=tmp_path)
    assert "database, user and password of the URL" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


@only("postgres")  # the others have neither domains nor enums of their own name
def test_names_are_found_in_a_table_with_types_of_its_own(database, execute):
    execute("CREATE DOMAIN place AS TEXT CHECK (VALUE LIKE '/%')", "CREATE TYPE state AS ENUM ('new', 'old.jpg')")
    execute("CREATE TABLE shots (id UUID PRIMARY KEY, path place, state state, about JSONB, came TIMESTAMPTZ)")
    key = "f47ac10b-58cc-4372-a567-0e02b2c3d479"
    execute(f"INSERT INTO shots VALUES ('{key}', '/srv/a.jpg', 'old.jpg', '[]', '2026-11-20 08:00+00')")
    assert [table.names for table in find_picture_tables(database)] == [{"path": "/srv/a.jpg"}]


@pytest.mark.parametrize("size", [1, 3, 7])
def test_pages_of_any_size_give_each_image_once(database, register, size):
    """Though results are written meanwhile."""
    for minute in (1, 0, 2):
        register(*[f"/{minute}-{number}.jpg" for number in range(7)], at=datetime(2026, 11, 20, 12, minute))
    found = []
    for ref in Source(database, page_size=size).select_new(DAY, ID):
        commit(database, predicted(ref.image_id))
        found.append(ref.location)
    assert found == [f"/{minute}-{number}.jpg" for minute in (0, 1, 2) for number in range(7)]


def test_two_models_have_each_their_own_new_images(database, tables, register):
    register("/1.jpg", "/2.jpg", "/3.jpg")
    ids = [ref.image_id for ref in select_new(database)]
    commit(database, predicted(ids[0], ids[1]))
    commit(database, predicted(ids[0]), broken(ids[2]), model_id="another")
    (page,) = tables.source.select_pages(DAY, ID, "another")
    assert [(new.ref.image_id, new.model_indices) for new in page] == [(ids[1], (1,)), (ids[2], (0,))]
