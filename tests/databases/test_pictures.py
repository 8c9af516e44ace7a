"""A picture is told by its id and location, however it is listed, and a result is that of one picture."""

import pytest
from sqlalchemy import literal, text, update

from infer_app.base.domain import ImageFile
from infer_app.base.read_limits import ReadLimits
from infer_app.base.run_report import DayCounts
from infer_app.base.settings.sections import SourceSettings
from infer_app.predict.images.read.read_image import read_image
from infer_app.tables.engine.connect import Database
from infer_app.tables.forgettable_results import ForgettableCounts, forget, of_missing
from infer_app.tables.listing.image_registry import register as register_files
from infer_app.tables.listing.row_images import RowReader
from infer_app.tables.listing.watched_images import mark_missing
from infer_app.tables.results.schema import pictures
from infer_app.tables.rows.image_history import read_history
from tests.conftest import DAY
from tests.support.listings import at, select_new, source_of
from tests.support.shots import ID, MONDAY, QUERY, SCANS, SHOTS, TUESDAY, labels_of, noon_of, snapshot

EDITED = QUERY.model_copy(update={"query": "SELECT id, path, taken FROM shots WHERE id <> '2'"})
OURSELVES = None


def test_images_of_two_tables_and_registered_ones_have_results_of_their_own_though_ids_clash(
    database, fill, register, run
):
    ids = ("1", "2", "3")
    listed = {name: [f"/{name}/{i}.jpg" for i in ids] for name in ("shots", "scans", "own")}
    for table in ("shots", "scans"):
        fill(table, *zip(ids, listed[table], (DAY,) * 3, strict=True))
    register(*listed["own"])
    every = {"shots": SHOTS, "scans": SCANS, "own": OURSELVES}
    for name, settings in every.items():
        assert labels_of(database, settings) == ({}, DayCounts(3, 0, 0, 3))
        assert run(settings, bad=listed[name][:1]) == listed[name]
    for name, settings in every.items():
        assert run(settings) == []
        labels = {path: path for path in listed[name][1:]}
        assert labels_of(database, settings) == (labels, DayCounts(3, 2, 1, 0))
    (history,) = read_history(database, [("stub", ID)], source_of(database, SCANS).find_picture("2", "/another/2.jpg"))
    assert history.state == "pending"
    with database.write() as connection:  # ours keep their numbers wherever they move
        moved = literal("/moved").concat(pictures.c.location)
        connection.execute(update(pictures).where(pictures.c.registered == 1).values(location=moved))
    assert run(OURSELVES) == []
    labels = {f"/moved{path}": path for path in listed["own"][1:]}
    assert labels_of(database, OURSELVES) == (labels, DayCounts(3, 2, 1, 0))


def test_results_of_a_table_are_left_alone_by_what_happens_to_registered_photos_with_its_ids(database, fill, run):
    """One is replaced, one is gone."""
    files = [ImageFile(f"/own/{number}.jpg", 7, 1.0) for number in (1, 2, 3)]
    list(register_files(database, files, at(noon_of(DAY))))
    fill("shots", *((str(number), f"/shots/{number}.jpg", DAY) for number in (1, 2, 3)))
    for settings, name in ((OURSELVES, "own"), (SHOTS, "shots")):
        run(settings, bad=[f"/{name}/3.jpg"])
    before = labels_of(database, SHOTS)
    assert before[1] == DayCounts(3, 2, 1, 0)
    list(register_files(database, [files[2]._replace(size=8)], at(noon_of(DAY))))
    mark_missing(database, [2])
    gone = list(of_missing(database, source_of(database, OURSELVES), lambda paths: [True] * len(paths)))
    assert forget(database, gone, ForgettableCounts.of(gone)).predictions == 1
    assert labels_of(database, OURSELVES) == ({"/own/1.jpg": "/own/1.jpg"}, DayCounts(2, 1, 0, 1))
    assert labels_of(database, SHOTS) == before


@pytest.mark.parametrize("bad", [(), ("/old.jpg",), ("/new.jpg",), ("/old.jpg", "/new.jpg")])
def test_an_id_that_is_used_again_is_another_picture_and_the_former_one_keeps_its_result(
    database, fill, run, execute, bad
):
    """Whether either of them is predicted or rejected; a settled rejection of the former one hides nothing."""
    fill("shots", ("7", "/old.jpg", MONDAY))
    run(SHOTS, MONDAY, bad)
    former = labels_of(database, SHOTS, MONDAY)
    execute("UPDATE shots SET path = '/new.jpg'")
    assert labels_of(database, SHOTS, MONDAY) == ({}, DayCounts(1, 0, 0, 1))
    assert [run(SHOTS, MONDAY, bad) for _ in range(2)] == [["/new.jpg"], []]
    found = {} if "/new.jpg" in bad else {"/new.jpg": "/new.jpg"}
    assert labels_of(database, SHOTS, MONDAY) == (found, DayCounts(1, len(found), 1 - len(found), 0))
    assert [len(rows) for rows in snapshot(database)] == [2 - len(bad), 2 - len(bad), len(bad)]
    execute("UPDATE shots SET path = '/old.jpg'")
    assert run(SHOTS, MONDAY, bad) == []
    assert labels_of(database, SHOTS, MONDAY) == former


def test_a_table_a_view_of_it_and_queries_on_it_share_its_pictures(database, fill, run, execute):
    """If id and location agree."""
    listed = ["/1.jpg", "/2.jpg", "/3.jpg"]
    fill("shots", *((str(number), path, DAY) for number, path in enumerate(listed, 1)))
    execute("CREATE VIEW seen AS SELECT id, path, taken FROM shots")
    execute("CREATE VIEW renamed AS SELECT id, path AS place, taken FROM shots WHERE id <> '2'")
    assert run(QUERY, bad=["/3.jpg"]) == listed
    seen = SHOTS.model_copy(update={"table": "seen"})
    for settings in (SHOTS, seen, QUERY):
        assert run(settings) == []
        assert labels_of(database, settings) == ({path: path for path in listed[:2]}, DayCounts(3, 2, 1, 0))
    for settings in (EDITED, SHOTS.model_copy(update={"table": "renamed", "location": "place"})):
        assert run(settings) == []
        assert labels_of(database, settings) == ({"/1.jpg": "/1.jpg"}, DayCounts(2, 1, 1, 0))
    by_path = SHOTS.model_copy(update={"id": "path"})
    assert labels_of(database, by_path) == ({}, DayCounts(3, 0, 0, 3))
    assert run(by_path) == listed
    assert [len(rows) for rows in snapshot(database)] == [5, 5, 1]


def test_bytes_in_a_column_are_those_of_their_own_day(url, database, execute, run, kind):
    types = {"sqlite": ("BLOB", "TEXT"), "postgres": ("BYTEA", "TIMESTAMPTZ"), "mariadb": ("BLOB", "DATETIME")}
    execute("CREATE TABLE scans (id INTEGER, picture {}, came {})".format(*types[kind]))
    rows = [{"picture": str(day).encode(), "at": str(noon_of(day))[:19]} for day in (MONDAY, TUESDAY)]
    execute(("INSERT INTO scans VALUES (1, :picture, :at)", rows))
    settings = SourceSettings(table="scans", bytes="picture", time="came", time_zone="UTC")
    reader = RowReader(url, settings)
    for day in (MONDAY, TUESDAY):
        (ref,) = select_new(database, settings, day)
        assert read_image(ref.location, ReadLimits((), 100, rows=reader)).data == str(day).encode()
        assert labels_of(database, settings, day) == ({}, DayCounts(1, 0, 0, 1))
        assert [run(settings, day) for _ in range(2)] == [[ref.location], []]
        assert labels_of(database, settings, day) == ({ref.location: ref.location}, DayCounts(1, 1, 0, 0))
    reader._open[0].close()


SECRETS = ("https://host/1.jpg?key=secret", "s3://user:word@bucket/1.jpg")


@pytest.mark.parametrize("location", [*SECRETS, "/A ä 😀.jpg", "/trailing ", "/a\\x00b.jpg", "", None])
def test_a_location_is_the_same_however_it_is_stored(database, fill, run, location):
    fill("shots", ("1", location, DAY), ("2", "/2.jpg", DAY))
    assert run(SHOTS, bad=[location or ""]) == [location or "", "/2.jpg"]
    assert run(SHOTS) == []


def test_pictures_of_a_table_in_another_database_are_those_of_a_copy_of_it(database, fill, tmp_path, run):
    listed = ["/1.jpg", "https://host/2.jpg?key=secret"]
    with Database(f"sqlite:///{tmp_path / 'theirs.db'}") as listing:
        with listing.write() as connection:
            connection.execute(text("CREATE TABLE shots (id TEXT, path TEXT, taken TEXT DEFAULT '2026-11-20')"))
            rows = "('1', '/1.jpg'), ('2', 'https://host/2.jpg?key=secret'), ('3', NULL)"
            connection.execute(text(f"INSERT INTO shots (id, path) VALUES {rows}".replace(":", r"\:")))
        assert run(SHOTS, listing=listing) == [*listed, ""]
        assert run(SHOTS, listing=listing) == []
        with listing.write() as connection:
            connection.execute(text("UPDATE shots SET path = '/new.jpg' WHERE id = '1'"))
            connection.execute(text("INSERT INTO shots VALUES ('1', '/again.jpg', '2026-11-19')"))
        assert len(labels_of(database, SHOTS, listing=listing)[0]) == 2
        assert run(SHOTS, listing=listing) == ["/new.jpg"]
        assert run(SHOTS, DAY.before(1), listing=listing) == ["/again.jpg"]
    fill("shots", ("1", listed[0], DAY), ("2", listed[1], DAY), ("4", "/4.jpg", DAY))
    assert labels_of(database, SHOTS) == ({path: path for path in listed}, DayCounts(3, 2, 0, 1))
    assert run(SHOTS) == ["/4.jpg"]
