"""Three projects over one database of results, through any history: no row is wrong, lost, or deleted by another one.

A watched folder with two versions each of a detector and a second network, and two tables of the user's with one
classifier, which list other files under the same ids and names; ids are used again. What each row must say is told by
the bytes of its picture alone.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import text

from tests.faults.conftest import on
from tests.faults.launch import POINTS
from tests.faults.shared_folders import NETWORKS, TABLES, TONES, SharedFolders
from tests.support.patches import DETECTOR, SPECIES, build, is_species, write_sources
from tests.support.projects import DATE

STEPS, STEPS_FULL = 15, 500
ROWS = (
    "SELECT CASE WHEN c.source_id = 0 THEN 'folder' WHEN s.relation = 'shots' THEN 'table' ELSE s.relation END, m.name,"
    " c.id, r.model_id, '{table}', {columns}, c.location FROM infer_{table} r JOIN infer_models m ON m.id = r.model_id"
    " LEFT JOIN {found}infer_pictures c ON c.id = picture LEFT JOIN infer_sources s ON s.id = c.source_id"
)
COLUMNS = {
    "predictions": "r.label, r.sha256, r.num_objects",
    "rejections": "r.reason, r.sha256, NULL",
    "objects": "r.label, NULL, r.object",
    "object_predictions": "r.label, NULL, found.object",
}
FOUND = {"object_predictions": "infer_objects found ON found.id = r.object_id LEFT JOIN "}


class Row(NamedTuple):
    """What the oracle tells of a result."""

    project: str
    network: str
    picture: int
    model_id: str
    table: str
    label: str  # or the reason
    sha256: str | None
    number: int | None  # of its objects, or of the object
    name: str  # of its file, which no other one of the project ever has


@pytest.fixture(scope="session")
def three_models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("three-models")
    write_sources(folder)
    build(folder, DETECTOR, SPECIES, TONES)
    build(folder, (*DETECTOR, "--set", "max_objects=200"), (*SPECIES, "--set", "min_score=0.5"))
    return folder / "models"


class History(SharedFolders):
    """Commands that both projects run in any order; what must follow is told by what their files have ever held."""

    def run(self, project):
        self.infer(project, "run", "--date", DATE)

    def run_and_be_killed(self, project):
        faults = {"point": self.rng.choice(POINTS), "number": self.rng.randrange(1, 9)}
        self.infer(project, "run", "--date", DATE, faults=faults)

    def use_another_version(self, _):
        self.use_a_version(self.rng.choice([*self.versions]))

    def run_with_the_clock_behind(self, project):
        if library := next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None):
            self.infer(project, "run", "--date", DATE, LD_PRELOAD=str(library), FAKETIME="-40d")

    def run_beside_a_lock(self, project):
        with self.locked():
            running = self.start(project, "run", "--date", DATE)
            time.sleep(1)
        self.end(running)

    @contextmanager
    def locked(self):
        """Hold a lock that keeps others from writing."""
        with self.engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE" if self.is_file else "BEGIN")
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql("LOCK TABLE infer_runs IN EXCLUSIVE MODE")
            elif not self.is_file:
                connection.exec_driver_sql("SELECT * FROM infer_runs FOR UPDATE")
            yield
            connection.exec_driver_sql("ROLLBACK")

    def ask(self, project):
        what = self.rng.choice([("status",), ("list",), ("verify", "--date", DATE), ("doctor",)])
        self.infer(project, *what)

    def forget_what_is_missing(self, project):
        self.infer(project, "forget", "--missing", "--yes")

    def forget_while_nothing_is_listed(self, _):
        with self.source.connect() as connection:
            connection.execute(text("ALTER TABLE shots RENAME TO all_shots"))
            connection.execute(text("CREATE TABLE shots AS SELECT * FROM all_shots WHERE 1 = 0"))
        rows = self.rows()
        ran = self.infer("table", "forget", "--missing", "--yes")
        with self.source.connect() as connection:
            connection.execute(text("DROP TABLE shots"))
            connection.execute(text("ALTER TABLE all_shots RENAME TO shots"))
        assert self.rows() == rows, "results were deleted by an empty listing"
        assert ran[0] != 0 or not any(row.project == "table" for row in rows)

    def retry_the_replaced(self, project):
        self.infer(project, "retry", "--replaced", "--date", DATE)

    # What must hold

    def rows(self):
        """Return all rows of results, by what the oracle tells; each belongs to a picture."""
        with self.engine.connect() as connection:
            return Counter(
                Row(*row[:-1], Path(row[-1]).name)
                for table, columns in COLUMNS.items()
                for row in connection.execute(
                    text(ROWS.format(table=table, columns=columns, found=FOUND.get(table, "")))
                )
            )

    def there(self):
        """Return all files by project and name, also where the storage is away: no name is used twice."""
        folders = {"folder": [self.photos, self.folder / "away"]} | {one: [path] for one, path in self.shots.items()}
        return {(one, path.name): path for one, some in folders.items() for each in some for path in self.files(each)}

    def listed(self):
        """Return the names of the files that both tables list."""
        with self.source.connect() as connection:
            return set(connection.scalars(text("SELECT path FROM shots")))

    def check(self):
        """Every row says what its picture's bytes give, once."""
        rows = self.rows()
        found = defaultdict(list)  # (picture, version, table): labels of objects
        for row in rows:
            if row.table in ("objects", "object_predictions"):
                found[row.picture, row.model_id, row.table].append((row.number, row.label))
        for row, count in rows.items():
            assert count == 1
            assert row.network in NETWORKS[row.project]
            if row.table not in ("predictions", "rejections"):
                continue
            if row.label in ("not_found", "location_not_allowed"):  # the latter where its folder was moved since
                assert (row.project, row.name) not in self.there(), row
                continue
            if row.label == "other_file":  # tried again: a version of the detector has objects of the file before
                detected = ("predictions", "cells", row.picture)
                by_detector = (one for one in rows if (one.table, one.network, one.picture) == detected)
                assert any(one.sha256 != row.sha256 for one in by_detector), row
                continue
            sha256 = row.sha256 or hashlib.sha256(b"").hexdigest()  # none is kept of an empty file
            assert sha256 in self.held[row.project, row.name], row
            patches = self.contents[sha256]
            assert (patches is None) == (row.table == "rejections"), row
            if patches is None:
                continue
            animals, tones = patches
            if row.network == "tones":
                assert row.label in tones, row
                continue
            taken = [
                (i, one)
                for i, one in enumerate(animals)
                if row.network == "cells" or is_species(one, self.gates[row.model_id])
            ]
            said = [(i, one.place.label if row.network == "cells" else one.color) for i, one in taken]
            assert row.number == len(said)
            kind = "objects" if row.network == "cells" else "object_predictions"
            assert sorted(found[row.picture, row.model_id, kind]) == said
        with self.engine.connect() as connection:
            days = connection.execute(text("SELECT DISTINCT added_at FROM infer_images"))
            assert all(str(at).startswith(DATE) for (at,) in days), "registered under another day"

    def check_losses(self, before, project):
        """What a command deleted is of its own project, and of pictures that were replaced or are gone."""
        rows = self.rows()
        lost = before - rows
        assert {row.project for row in lost} <= {project}, lost
        there, listed = self.there(), self.listed()
        # Of objects of a former version of the detector, a second network's result gives way to a new rejection too.
        new = (row for row in rows - before if (row.network, row.label) == ("species", "other_file"))
        replaced = {(row.picture, row.model_id) for row in new}
        for row in lost:
            if (row.picture, row.model_id) in replaced:
                continue
            if row.table == "predictions" and (file := there.get((project, row.name))):
                is_gone = project in TABLES and row.name not in listed
                assert is_gone or hashlib.sha256(file.read_bytes()).hexdigest() != row.sha256, f"lost: {row}"

    def settle(self):
        """After nights without faults each picture that is there has one current result of each network."""
        self.bring_storage_back()
        for project in NETWORKS:
            for arguments in (("run",), ("retry", "--replaced"), ("run",)):
                ran = self.infer(project, *arguments, "--date", DATE)
                assert ran[0] == 0, ran
        self.check()
        empty, listed = hashlib.sha256(b"").hexdigest(), self.listed()
        with self.engine.connect() as connection:
            in_use = set(connection.scalars(text("SELECT id FROM infer_models WHERE in_use_since IS NOT NULL")))
            made = connection.execute(text("SELECT DISTINCT model_id, detector_id FROM infer_predictions")).all()
        assert {of for version, of in made if version in in_use and of} <= in_use, "of objects of a former detector"
        current = (row for row in self.rows().elements() if row.model_id in in_use)
        results = (row for row in current if row.table in ("predictions", "rejections"))
        shown = Counter((row.project, row.network, row.name, row.sha256 or empty) for row in results)
        for (project, name), path in self.there().items():
            if project == "folder" or name in listed:
                sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
                assert [shown[project, one, name, sha256] for one in NETWORKS[project]] == [1] * len(NETWORKS[project])


FILES = ("add_photo", "add_photo", "replace_a_file", "remove_a_photo", "move_the_folder", "take_storage_away",
         "bring_storage_back", "bring_storage_back", "add_shot", "remove_a_shot")  # fmt: skip
COMMANDS = ("run", "run", "run_and_be_killed", "run_with_the_clock_behind", "run_beside_a_lock", "ask",
            "use_another_version", "forget_what_is_missing", "forget_while_nothing_is_listed",
            "retry_the_replaced")  # fmt: skip


@pytest.mark.timeout(7200)
@on("sqlite")
@pytest.mark.parametrize("elsewhere", [False, True], ids=["one database", "source elsewhere"])
def test_no_history_makes_a_row_wrong_or_loses_one(url, elsewhere, tmp_path, three_models, seeded, request):
    source_url = f"sqlite:///{tmp_path / 'source.db'}" if elsewhere else None
    history = History(tmp_path / "history", url, source_url, three_models, seeded)
    request.addfinalizer(lambda: print("\n".join(history.log[-40:])))
    for step in range(STEPS_FULL if request.config.option.full else STEPS):
        for _ in range(seeded.randrange(3)):
            history.log.append(f"  {(event := seeded.choice(FILES))}")
            getattr(history, event)()
        command, project, before = seeded.choice(COMMANDS), seeded.choice([*NETWORKS]), history.rows()
        history.log.append(f"step {step}: {command}")
        getattr(history, command)(project)
        history.check()
        history.check_losses(before, project)
    history.settle()
