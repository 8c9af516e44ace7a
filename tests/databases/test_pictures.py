"""A result is that of one picture: an id that comes back, or that another source has too, brings no other labels."""

import pytest
from sqlalchemy import text

from infer_app.base.errors import UnusableIds
from infer_app.base.read_limits import ReadLimits
from infer_app.base.run_report import DayCounts
from infer_app.base.settings.sections import SourceSettings
from infer_app.predict.images.read.read_image import read_image
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.row_images import RowReader
from infer_app.tables.listing.source import Source
from infer_app.tables.queries.image_history import read_history
from infer_app.tables.results.schema import pictures
from tests.conftest import DAY
from tests.support.shots import ID, MONDAY, QUERY, SCANS, SHOTS, TUESDAY, labels_of, noon_of, opened, snapshot


@pytest.mark.parametrize(
    ("settings", "others"),
    [(SHOTS, SCANS), (QUERY, SCANS), (QUERY, QUERY.model_copy(update={"query": "SELECT * FROM scans"}))],
    ids=["tables", "a query", "queries"],
)
def test_one_relative_location_below_two_bases_is_two_pictures(database, fill, run, settings, others):
    for table in ("shots", "scans"):
        fill(table, ("1", "IMG_1.jpg", DAY), ("2", "https://h/2.jpg", DAY))
    assert run(others, base="/lab/scans") == ["IMG_1.jpg", "https://h/2.jpg"]
    with pytest.raises(UnusableIds, match=r"'IMG_1.jpg' below /lab/shots .* below /lab/scans of another .*scans'"):
        run(settings, base="/lab/shots")
    assert run(settings, base="/lab/scans") == []
    assert run(others, base="/moved/scans") == []


@pytest.mark.parametrize("second", [SCANS, SourceSettings()])
def test_a_second_source_whose_ids_clash_is_refused_and_sees_no_labels(database, fill, register, run, second):
    """Two projects over one database, or one whose `[source] table` was changed."""
    ids = ("1", "2", "3")
    fill("shots", *((i, f"/shots/{i}.jpg", DAY) for i in ids))
    fill("scans", *((i, f"/scans/{i}.jpg", DAY) for i in ids))
    register(*(f"/own/{i}.jpg" for i in ids))
    run(SHOTS)
    before = snapshot(database)
    assert labels_of(database, second) == ({}, DayCounts(3, 0, 0, 3))
    with pytest.raises(UnusableIds, match=r"/(scans|own)/.*/shots/.*of another source, 'shots'") as refused:
        run(second)
    assert refused.value.exit_code == 2
    assert snapshot(database) == before
    source = opened(database, second)
    (history,) = read_history(database, [("stub", ID)], source.picture_of("1", "/another/1.jpg"))
    assert history.state == "pending"
    assert labels_of(database, SHOTS)[0] == {f"/shots/{i}.jpg": f"/shots/{i}.jpg" for i in ids}


def test_sources_whose_ids_differ_share_a_database(database, fill, run):
    fill("shots", ("a", "/shots/a.jpg", DAY))
    fill("scans", ("b", "/scans/b.jpg", DAY))
    assert run(SHOTS) + run(SCANS) == ["/shots/a.jpg", "/scans/b.jpg"]
    for settings, location in ((SHOTS, "/shots/a.jpg"), (SCANS, "/scans/b.jpg")):
        assert run(settings) == []
        assert labels_of(database, settings) == ({location: location}, DayCounts(1, 1, 0, 0))


def test_our_own_images_go_on_wherever_they_move_beside_another_source(database, fill, register, run):
    fill("shots", ("a", "/shots/a.jpg", DAY))
    register("/own/1.jpg")
    run(SourceSettings())
    run(SHOTS)
    with database.write() as connection:
        connection.execute(images.update().values(location="/moved/1.jpg"))
    assert run(SourceSettings()) == []
    assert labels_of(database, SourceSettings()) == ({"/moved/1.jpg": "/own/1.jpg"}, DayCounts(1, 1, 0, 0))


@pytest.mark.parametrize("settings", [SHOTS, QUERY], ids=["table", "query"])
def test_names_that_restart_each_day_are_refused(database, fill, run, settings):
    fill("shots", ("IMG_1", "/mon/1.jpg", MONDAY), ("IMG_2", "/mon/2.jpg", MONDAY), ("IMG_1", "/tue/1.jpg", TUESDAY))
    assert run(settings, MONDAY) == ["/mon/1.jpg", "/mon/2.jpg"]
    before = snapshot(database)
    assert labels_of(database, settings, TUESDAY) == ({}, DayCounts(1, 0, 0, 1))
    with pytest.raises(UnusableIds, match=r"IMG_1 is '/tue/1.jpg', and also '/mon/1.jpg'"):
        run(settings, TUESDAY)
    assert snapshot(database) == before
    assert len(labels_of(database, settings, MONDAY)[0]) == 2


@pytest.mark.parametrize("bad", [(), ("/old.jpg",), ("/new.jpg",), ("/old.jpg", "/new.jpg")])
def test_an_id_that_was_used_again_is_that_of_the_new_picture(database, fill, run, execute, bad):
    """Whether either of them is predicted or rejected; a settled rejection of the former one hides nothing."""
    fill("shots", ("7", "/old.jpg", MONDAY))
    run(SHOTS, MONDAY, bad)
    execute("DELETE FROM shots")
    fill("shots", ("7", "/new.jpg", DAY))
    assert labels_of(database, SHOTS) == ({}, DayCounts(1, 0, 0, 1))
    assert run(SHOTS, DAY, bad) == ["/new.jpg"]
    assert run(SHOTS, DAY, bad) == []
    found = {} if "/new.jpg" in bad else {"/new.jpg": "/new.jpg"}
    assert labels_of(database, SHOTS) == (found, DayCounts(1, len(found), 1 - len(found), 0))
    number = [len(rows) for rows in snapshot(database)]
    assert number == [len(found), len(found), 1 - len(found)]


@pytest.mark.parametrize("second", [SHOTS, SourceSettings()], ids=["a table", "ours"])
def test_a_run_that_waited_for_its_day_checks_the_ids_again(database, fill, register, run, second):
    """Both are the first of their source, and have found no results."""
    fill("scans", ("1", "/scans/1.jpg", DAY))
    fill("shots", ("1", "/shots/1.jpg", DAY))
    register("/own/1.jpg")
    waiting = opened(database, second)
    check_ids(database, waiting, DAY, [ID])
    run(SCANS)
    with pytest.raises(UnusableIds, match=r"its result for '/scans/1.jpg' of another source, 'scans'"):
        check_ids_again(database, waiting, DAY, [ID])


def test_bytes_in_a_column_are_those_of_their_own_day(url, database, execute, run, kind):
    types = {"sqlite": ("BLOB", "TEXT"), "postgres": ("BYTEA", "TIMESTAMPTZ"), "mariadb": ("BLOB", "DATETIME")}
    execute("CREATE TABLE scans (id INTEGER, picture {}, came {})".format(*types[kind]))
    rows = [{"picture": str(day).encode(), "at": str(noon_of(day))[:19]} for day in (MONDAY, TUESDAY)]
    execute(("INSERT INTO scans VALUES (1, :picture, :at)", rows))
    settings = SourceSettings(table="scans", bytes="picture", time="came", time_zone="UTC")
    reader = RowReader(url, settings)
    for day in (MONDAY, TUESDAY):
        ((ref,),) = [list(Source(database, settings).select_new(day, ID))]
        assert read_image(ref.location, ReadLimits((), 100, rows=reader)).data == str(day).encode()
    reader._open[0].close()
    run(settings, MONDAY)
    assert run(settings, MONDAY) == []
    assert labels_of(database, settings, TUESDAY) == ({}, DayCounts(1, 0, 0, 1))
    with pytest.raises(UnusableIds, match=rf"row:1@{TUESDAY}.*and also 'row:1@{MONDAY}"):
        run(settings, TUESDAY)


SECRETS = ("https://host/1.jpg?key=secret", "s3://user:word@bucket/1.jpg")


@pytest.mark.parametrize("location", [*SECRETS, "/A ä 😀.jpg", "/trailing ", "/a\\x00b.jpg", "", None])
def test_a_location_is_the_same_however_it_is_stored(database, fill, run, location):
    fill("shots", ("1", location, DAY), ("2", "/2.jpg", DAY))
    assert run(SHOTS, bad=[location or ""]) == [location or "", "/2.jpg"]
    assert run(SHOTS) == []


@pytest.mark.parametrize(("stored", "listed"), [
    ("https://host/1.jpg?a", "https://host/2.jpg?a"), ("/a.jpg", "/A.jpg"), ("/a.jpg", "/a.jpg "), ("/a.jpg", "/ä.jpg")
])  # fmt: skip
def test_locations_are_compared_exactly(database, fill, run, execute, stored, listed):
    fill("shots", ("1", stored, DAY))
    run(SHOTS)
    execute(("UPDATE shots SET path = :path", [{"path": listed}]))
    assert run(SHOTS) == [listed]
    assert run(SHOTS) == []


def test_bytes_of_file_names_are_compared_too(database, execute, run, kind):
    bytes_ = {"sqlite": "BLOB", "postgres": "BYTEA", "mariadb": "VARBINARY(100)"}[kind]
    execute(f"CREATE TABLE shots (id INTEGER, path {bytes_}, taken DATE)")
    execute(("INSERT INTO shots VALUES (1, :path, '2026-11-20')", [{"path": "/ä.jpg".encode()}]))
    listing = None if kind == "sqlite" else database  # as a project's database is opened
    assert run(SHOTS, listing=listing) == ["/ä.jpg"]
    assert run(SHOTS, listing=listing) == []
    execute(("UPDATE shots SET path = :path", [{"path": "/ö.jpg".encode()}]))
    assert run(SHOTS, listing=listing) == ["/ö.jpg"]


def test_a_source_in_another_database_is_compared_too(database, tmp_path, run):
    with Database(f"sqlite:///{tmp_path / 'theirs.db'}") as listing:
        with listing.write() as connection:
            connection.execute(text("CREATE TABLE shots (id TEXT, path TEXT, taken TEXT DEFAULT '2026-11-20')"))
            rows = "('1', '/1.jpg'), ('2', 'https://host/2.jpg?key=secret'), ('3', NULL)"
            connection.execute(text(f"INSERT INTO shots (id, path) VALUES {rows}".replace(":", r"\:")))
        assert len(run(SHOTS, listing=listing)) == 3
        assert run(SHOTS, listing=listing) == []
        with listing.write() as connection:
            connection.execute(text("UPDATE shots SET path = '/new.jpg' WHERE id = '1'"))
        assert len(labels_of(database, SHOTS, listing=listing)[0]) == 2
        assert run(SHOTS, listing=listing) == ["/new.jpg"]
        with listing.write() as connection:
            connection.execute(text("INSERT INTO shots VALUES ('1', '/again.jpg', '2026-11-19')"))
        with pytest.raises(UnusableIds, match="'/again.jpg', and also '/new.jpg'"):
            run(SHOTS, DAY.before(1), listing=listing)


def test_results_whose_location_is_not_known_count(database, fill, run, execute):
    fill("shots", ("1", "/1.jpg", DAY))
    run(SHOTS)
    execute("UPDATE infer_predictions SET location = NULL", "UPDATE infer_runs SET source_id = NULL")
    assert run(SHOTS) == []
    assert labels_of(database, SHOTS) == ({"/1.jpg": "/1.jpg"}, DayCounts(1, 1, 0, 0))
