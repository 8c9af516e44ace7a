"""The list of images is the user's table, whatever has become of its rows since the last run."""

import random
from datetime import datetime, timedelta

import pytest
from sqlalchemy import insert, select, update
from sqlalchemy import table as lightweight_table
from sqlalchemy.sql import column, delete

from infer_app.base.day import between
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing import update_list as module
from infer_app.tables.listing.row_images import RowReader
from infer_app.tables.listing.update_list import update_list
from infer_app.tables.results.schema import pictures
from tests.conftest import DAY
from tests.support.listings import ALL_DAYS, source_of

SETTINGS = SourceSettings(table="shots", location="path", time="taken", time_zone="UTC", camera="cam")
SHOTS = lightweight_table("shots", *(column(name) for name in ("row", "id", "path", "taken", "cam")))
COVERED = between([DAY.before(1), DAY])
TIMES = [DAY.start.replace(tzinfo=None) + timedelta(hours=h) for h in range(-100, 48, 7)]


@pytest.fixture
def shots(execute, database, kind):
    at = {"sqlite": "TEXT", "postgres": "TIMESTAMP", "mariadb": "DATETIME"}[kind]
    execute(
        f"CREATE TABLE shots (row INTEGER PRIMARY KEY, id VARCHAR(20), path VARCHAR(200), taken {at}, cam VARCHAR(9))"
    )
    return database


class Table:
    """Rows that change at random."""

    def __init__(self, database, seed):
        self.database, self.random = database, random.Random(seed)
        self.rows, self.gone, self.number = {}, [], 0

    def change(self):
        act = self.random.choice(["add", "add", "add", "copy", "time", "time", "path", "camera", "delete", "back"])
        chosen = self.random.choice([*self.rows]) if self.rows else None
        if act == "back" and self.gone:
            self._add(**self.gone.pop())
        elif chosen is None or act in ("add", "back"):
            self._add(self.random.choice([f"IMG_{self.random.randrange(30)}", None]), f"/{self.number}.jpg")
        elif act == "copy":  # a join that gives a row twice, perhaps with another time
            self._add(self.rows[chosen]["id"], self.rows[chosen]["path"])
        elif act == "delete":
            self.gone.append({name: self.rows[chosen][name] for name in ("id", "path", "taken", "cam")})
            del self.rows[chosen]
            self._write(delete(SHOTS).where(SHOTS.c.row == chosen))
        else:
            new = {"time": {"taken": self._time()}, "path": {"path": f"/moved/{self.number}.jpg"}}
            self._set(chosen, new.get(act, {"cam": self.random.choice(["a", "b"])}))

    def _time(self):
        return self.random.choice([*TIMES, None])

    def _add(self, id, path, taken=..., cam="a"):
        self.number += 1
        row = {"row": self.number, "id": id, "path": path, "taken": self._time() if taken is ... else taken, "cam": cam}
        self.rows[self.number] = row
        self._write(insert(SHOTS).values(self._stored(row)))

    def _set(self, chosen, new):
        self.rows[chosen] |= new
        self._write(update(SHOTS).where(SHOTS.c.row == chosen).values(self._stored(new)))

    def _stored(self, row):
        is_text = self.database.file is not None
        return row | ({"taken": row["taken"] and str(row["taken"])} if is_text and "taken" in row else {})

    def _write(self, statement):
        with self.database.write() as connection:
            connection.execute(statement)

    def times(self):
        """The times of the rows of each picture."""
        found = {}
        for row in self.rows.values():
            found.setdefault((row["id"] or row["path"], row["path"]), []).append((row["taken"], row["cam"]))
        return found


def listed(database):
    wanted = select(
        *(pictures.c[name] for name in ("id", "image_id", "location", "added_at", "camera", "unlisted_since"))
    )
    with database.read() as connection:
        rows = connection.execute(wanted).all()
    assert len({(row.image_id, row.location) for row in rows}) == len(rows)
    numbers = {(row.image_id, row.location): row.id for row in rows}
    return numbers, {(row.image_id, row.location): row for row in rows if row.unlisted_since is None}


@pytest.mark.parametrize("seed", range(3))
def test_the_list_is_the_table_after_any_changes(shots, seed, monkeypatch):
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 4)
    table, source = Table(shots, seed), source_of(shots, SETTINGS)
    source.camera_of = lambda named, location: named
    start, end = (time.replace(tzinfo=None) for time in (COVERED.start, COVERED.end))
    numbers = {}
    for _ in range(25):
        for _ in range(table.random.randrange(1, 12)):
            table.change()
        update_list(source, COVERED, recent=table.random.choice([1, 5, 1000]))
        times, (found, rows) = table.times(), listed(shots)
        assert numbers.items() <= found.items()
        numbers = found
        covered = {key for key, some in times.items() if any(at and start <= at < end for at, _ in some)}
        assert covered <= rows.keys()
        for key, row in rows.items():
            if start <= row.added_at < end:
                assert (row.added_at, row.camera) in times[key]
            elif key in covered:  # another row has it at a time that was not read
                assert row.added_at in {at for at, _ in times[key]}
        is_unlisted = found.keys() - rows.keys()
        assert not any(at and start <= at < end for key in is_unlisted for at, _ in times.get(key, ()))
    update_list(source, ALL_DAYS, recent=0)
    times, (_, rows) = table.times(), listed(shots)
    assert rows.keys() == {key for key, some in times.items() if any(at for at, _ in some)}
    assert all((row.added_at, row.camera) in times[key] for key, row in rows.items())
    before = listed(shots)
    assert update_list(source, ALL_DAYS, recent=0).num_new == 0
    assert listed(shots) == before


def test_other_zones_move_the_pictures_that_are_known(shots, execute):
    execute(f"INSERT INTO shots VALUES (1, 'a', '/a.jpg', '{DAY} 23:30:00', 'a')")
    update_list(source_of(shots, SETTINGS), COVERED)
    there = SETTINGS.model_copy(update={"time_zone": "Asia/Tokyo"})
    update_list(source_of(shots, there), DAY.before(-9))
    _, rows = listed(shots)
    assert rows["a", "/a.jpg"].added_at == datetime.combine(DAY.date, datetime.min.time()) + timedelta(hours=14.5)


@pytest.mark.parametrize("num_back", [9, 4])
def test_a_table_that_was_empty_for_a_night_has_all_its_images_again(shots, execute, num_back, monkeypatch):
    """It may come back in part: with the rows of the last days."""
    monkeypatch.setattr(module, "PROBED", 5)
    days = [DAY.before(number) for number in range(9)]
    rows = [f"({number}, 'i{number}', '/{number}.jpg', '{day} 12:00:00', 'a')" for number, day in enumerate(days)]
    execute(f"INSERT INTO shots VALUES {', '.join(rows)}")
    source = source_of(shots, SETTINGS)
    update_list(source, ALL_DAYS)
    execute("DELETE FROM shots")
    assert update_list(source, DAY, recent=2).num_unlisted == 9
    execute(f"INSERT INTO shots VALUES {', '.join(rows[:num_back])}")
    update_list(source, DAY, recent=2)
    assert len(listed(shots)[1]) == num_back


def test_another_column_of_times_moves_all_images(shots, execute):
    execute(
        "ALTER TABLE shots ADD COLUMN made VARCHAR(30)",
        f"INSERT INTO shots VALUES (1, 'a', '/a.jpg', '{DAY} 12:00:00', 'a', '{DAY.before(3)} 12:00:00')",
    )
    update_list(source_of(shots, SETTINGS), ALL_DAYS)
    update_list(source_of(shots, SETTINGS.model_copy(update={"time": "made"})), DAY.before(-9))
    assert listed(shots)[1]["a", "/a.jpg"].added_at.date() == DAY.before(3).date


def test_a_writer_of_the_same_file_waits_for_one_transaction_of_some_rows(shots, monkeypatch):
    """No read is open while rows are written, and each transaction has ROWS_AT_ONCE of them."""
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 10)
    table = Table(shots, 0)
    for _ in range(60):
        table.change()
    begun, written = Database.write, []

    def recorded(self, *arguments):
        written.append(self)
        return begun(self, *arguments)

    monkeypatch.setattr(Database, "write", recorded)
    changes = update_list(source_of(shots, SETTINGS), ALL_DAYS, recent=0)
    assert len(written) >= changes.num_new / 10 > 1


def test_pictures_of_one_id_and_time_in_a_column_are_named(shots, execute, caplog):
    execute("ALTER TABLE shots ADD COLUMN picture VARCHAR(9)")
    rows = [f"({number}, {one}, NULL, '{DAY} 12:00:00', 'a', 'x')" for number, one in enumerate(["'a'", "'a'", "NULL"])]
    execute(f"INSERT INTO shots VALUES {', '.join(rows)}")
    settings = SourceSettings(table="shots", bytes="picture", time="taken", time_zone="UTC")
    assert [update_list(source_of(shots, settings), COVERED).num_new for _ in range(2)] == [2, 0]
    assert caplog.text.count("another row has the id and time: 1 picture") == 2
    (reference,) = [ref for ref in source_of(shots, settings).select_new(DAY, "") if ref.image_id.startswith("row:")]
    reader = RowReader(shots.url, settings)
    assert reader.read(reference.location.removeprefix("row:"), 100) in ((1, b"x"), (1, "x"))


def test_a_signature_is_no_id_and_no_picture_of_its_own(shots, execute):
    execute(f"INSERT INTO shots VALUES (1, NULL, 'https://host/a.jpg?sig=SECRET1', '{DAY} 12:00:00', 'a')")
    source = source_of(shots, SETTINGS)
    update_list(source, COVERED)
    assert [ref.location for ref in source.select_new(DAY, "")] == ["https://host/a.jpg?sig=SECRET1"]
    execute("UPDATE shots SET path = 'https://host/a.jpg?sig=SECRET2'")
    source = source_of(shots, SETTINGS)
    assert update_list(source, COVERED).num_new == 0
    assert [ref.location for ref in source.select_new(DAY, "")] == ["https://host/a.jpg?sig=SECRET2"]
    assert "SECRET" not in str(listed(shots))
