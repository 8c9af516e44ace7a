"""Two projects over one database of results, through any history: no row is wrong, lost, or deleted by the other one.

A watched folder with a detector and a second network, and a table of the user's with a classifier, whose ids are the
same numbers. A third project lists other files under the ids and names of the second. What each row must say is told
by the bytes of its picture alone.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.faults.conftest import on
from tests.faults.launch import POINTS
from tests.faults.shared_folders import OWNERS, TONES, SharedFolders
from tests.support.patches import DETECTOR, SPECIES, build, is_species, write_sources
from tests.support.projects import DATE

STEPS, STEPS_FULL = 15, 500
ROWS = (
    "SELECT m.name, r.image_id, r.model_id, '{table}' AS kind, {columns} FROM infer_{table} r"
    " JOIN infer_models m ON m.id = r.model_id"
)
COLUMNS = {
    "predictions": "r.label, r.sha256, r.num_objects, r.location",
    "rejections": "r.reason, r.sha256, NULL, r.location",
    "objects": "r.label, NULL, r.object, NULL",
    "object_predictions": "r.label, NULL, r.object, NULL",
}


@pytest.fixture(scope="session")
def three_models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("three-models")
    write_sources(folder)
    build(folder, DETECTOR, SPECIES, TONES)
    return folder / "models"


class History(SharedFolders):
    """Commands that both projects run in any order; what must follow is told by what their files have ever held."""

    def run(self, project):
        self.infer(project, "run", "--date", DATE)

    def run_and_be_killed(self, project):
        faults = {"point": self.rng.choice(POINTS), "number": self.rng.randrange(1, 9)}
        self.infer(project, "run", "--date", DATE, faults=faults)

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
            if not self.is_file:
                connection.exec_driver_sql("LOCK TABLE infer_runs IN EXCLUSIVE MODE")
            yield
            connection.exec_driver_sql("ROLLBACK")

    def ask(self, project):
        what = self.rng.choice([("status",), ("pending",), ("verify", "--date", DATE), ("doctor",)])
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
        assert ran[0] != 0 or not any(row[0] == "tones" for row in rows)

    def retry_the_replaced(self, project):
        self.infer(project, "retry", "--replaced", "--date", DATE)

    def be_a_stranger(self, _):
        """Once the table's project has results, no command of the stranger counts, shows or deletes one of them."""
        rows = self.rows()
        listed = self.of_table()
        has_results = any(row[0] == "tones" and listed.get(row[1]) == row[-1].split("/")[-1] for row in rows if row[-1])
        export = ("export", "--date", DATE, "--format", "jsonl", "--to", f"{self.serial}.jsonl")
        commands = [("run", "--date", DATE), ("status",), ("verify", "--date", DATE), ("pending",), export,
                    ("retry", "--replaced", "--date", DATE), ("forget", "--missing", "--yes")]  # fmt: skip
        if has_results:
            ran = self.infer("stranger", *self.rng.choice(commands))
            assert ran[0] == 2, ran
            assert self.rows() == rows

    # What must hold

    def rows(self):
        """Return all rows of results, by what the oracle tells."""
        with self.engine.connect() as connection:
            return Counter(
                tuple(row)
                for table, columns in COLUMNS.items()
                for row in connection.execute(text(ROWS.format(table=table, columns=columns)))
            )

    def there(self):
        """Return all files by name, also where the storage is away: no name is used twice."""
        folders = self.photos, self.folder / "away", self.shots
        return {path.name: path for folder in folders for path in self.files(folder)}

    def of_table(self):
        with self.source.connect() as connection:
            return {str(number): path for number, path, _ in connection.execute(text("SELECT * FROM shots"))}

    def check(self):
        """Every row says what its picture's bytes give, once."""
        rows = self.rows()
        found = defaultdict(list)  # (image, model, table): labels of objects
        for name, image_id, _, kind, label, _, number, _ in rows:
            if kind in ("objects", "object_predictions"):
                found[image_id, name, kind].append((number, label))
        for (name, image_id, _, kind, label, sha256, num_objects, location), count in rows.items():
            assert count == 1
            if kind not in ("predictions", "rejections"):
                continue
            if label in ("not_found", "location_not_allowed"):  # the latter where its folder was moved since
                assert Path(location).name not in self.there(), location
                continue
            sha256 = sha256 or hashlib.sha256(b"").hexdigest()  # none is kept of an empty file
            assert sha256 in self.held[Path(location).name], (name, image_id, location)
            patches = self.contents[sha256]
            assert (patches is None) == (kind == "rejections"), (name, image_id, label, location)
            if patches is None:
                continue
            animals, tones = patches
            if name == "tones":
                assert label in tones, (image_id, location)
                continue
            taken = [(i, one) for i, one in enumerate(animals) if name == "cells" or is_species(one)]
            said = [(i, one.place.label if name == "cells" else one.color) for i, one in taken]
            assert num_objects == len(said)
            assert sorted(found[image_id, name, "objects" if name == "cells" else "object_predictions"]) == said
        with self.engine.connect() as connection:
            days = connection.execute(text("SELECT DISTINCT added_at FROM infer_images"))
            assert all(str(at).startswith(DATE) for (at,) in days), "registered under another day"

    def check_losses(self, before, project):
        """What a command deleted is of its own project, and of pictures that were replaced or are gone."""
        lost = before - self.rows()
        assert {OWNERS[row[0]] for row in lost} <= {project}, lost
        there, listed = self.there(), set(self.of_table().values())
        for _, _, _, kind, _, sha256, _, location in lost:
            if kind == "predictions" and (file := there.get(Path(location).name)):
                is_gone = project == "table" and file.name not in listed
                now = hashlib.sha256(file.read_bytes()).hexdigest()
                assert is_gone or now != sha256, f"lost: {location}"

    def settle(self):
        """After nights without faults each picture that is there has one result of each network, of its bytes now."""
        self.bring_storage_back()
        for project in ("folder", "table"):
            for arguments in (("run",), ("retry", "--replaced"), ("run",)):
                ran = self.infer(project, *arguments, "--date", DATE)
                assert ran[0] == 0, ran
        self.check()
        empty = hashlib.sha256(b"").hexdigest()
        shown = Counter((row[0], Path(row[-1]).name, row[5] or empty) for row in self.rows() if row[-1])
        listed = set(self.of_table().values())
        for path in self.files(self.photos) + [one for one in self.files(self.shots) if one.name in listed]:
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
            for name in ("cells", "species") if self.photos in path.parents else ("tones",):
                assert shown[name, path.name, sha256] == 1, (name, path)


FILES = ("add_photo", "add_photo", "replace_a_file", "remove_a_photo", "move_the_folder", "take_storage_away",
         "bring_storage_back", "bring_storage_back", "add_shot", "remove_a_shot")  # fmt: skip
COMMANDS = ("run", "run", "run_and_be_killed", "run_with_the_clock_behind", "run_beside_a_lock", "ask",
            "forget_what_is_missing", "forget_while_nothing_is_listed", "retry_the_replaced",
            "be_a_stranger")  # fmt: skip


@pytest.mark.timeout(7200)
@on("sqlite", of=("sqlite", "postgres"))
@pytest.mark.parametrize("elsewhere", [False, True], ids=["one database", "source elsewhere"])
def test_no_history_makes_a_row_wrong_or_loses_one(url, elsewhere, tmp_path, three_models, seeded, request):
    source_url = f"sqlite:///{tmp_path / 'source.db'}" if elsewhere else None
    history = History(tmp_path / "history", url, source_url, three_models, seeded)
    request.addfinalizer(lambda: print("\n".join(history.log[-40:])))
    for step in range(STEPS_FULL if request.config.option.full else STEPS):
        for _ in range(seeded.randrange(3)):
            history.log.append(f"  {(event := seeded.choice(FILES))}")
            getattr(history, event)()
        command, project, before = seeded.choice(COMMANDS), seeded.choice(["folder", "table"]), history.rows()
        history.log.append(f"step {step}: {command}")
        getattr(history, command)(project)
        history.check()
        history.check_losses(before, project)
    history.settle()
