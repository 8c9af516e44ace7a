"""One project through any history of files, commands, kills and ways to reach them: no row is wrong, lost or made twice.

A detector with two versions and a second network with two, over a table of the user's or watched folders; ids are used
again. What each row must say is told by the bytes of its picture alone.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter, defaultdict
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import text

from tests.faults.changing_project import FIRST, ChangingProject, ways_to
from tests.support.patches import DETECTOR, SPECIES, build, is_species, write_sources
from tests.support.projects import DATE

STEPS, STEPS_FULL, CALM = 12, 300, 30
EMPTY = hashlib.sha256(b"").hexdigest()
ROWS = (
    "SELECT m.name, c.id, r.model_id, '{table}', {columns}, c.location FROM infer_{table} r"
    " JOIN infer_models m ON m.id = r.model_id LEFT JOIN {found}infer_pictures c ON c.id = picture"
)
COLUMNS = {
    "predictions": "r.label, r.sha256, r.num_objects, r.run_id, r.detector_id",
    "rejections": "r.reason, r.sha256, NULL, NULL, r.detector_id",
    "objects": "r.label, NULL, r.object, NULL, NULL",
    "object_predictions": "r.label, NULL, found.object, NULL, NULL",
}
FOUND = {"object_predictions": "infer_objects found ON found.id = r.object_id LEFT JOIN "}


class Row(NamedTuple):
    """What the oracle tells of a result."""

    network: str
    picture: int
    model_id: str
    table: str
    label: str  # or the reason
    sha256: str | None
    number: int | None  # of its objects, or of the object
    run: str | None  # that predicted it
    detector_id: str | None
    name: str  # of its file, which no other one ever has

    @property
    def is_result(self):
        return self.table in ("predictions", "rejections")


@pytest.fixture(scope="session")
def two_versions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two-versions")
    write_sources(folder)
    build(folder, DETECTOR, SPECIES, (*DETECTOR, "--set", "max_objects=200"), (*SPECIES, "--set", "min_score=0.5"))
    return folder / "models"


class History(ChangingProject):
    """Commands in any order; what must follow is told by what the files have ever held."""

    forgotten: str | None = None  # the version whose results the last command was to delete

    def run(self, **more):
        self.ran(self.infer("run", "--date", DATE, **more))

    def run_and_be_killed(self):
        self.run(kill=True)

    def run_with_the_clock_behind(self):
        if library := next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None):
            self.run(LD_PRELOAD=str(library), FAKETIME="-40d")

    def run_beside_a_lock(self):
        with self.locked():
            running = self.start("run", "--date", DATE)
            time.sleep(1)
        self.ran(self.end(running))

    def ran(self, ended):
        """Where most files are others than those that were predicted, it may ask whether another folder is meant."""
        if "--other-source" in "".join(ended[1:]):
            assert 2 * sum(len(held) > 1 for held in self.held.values()) > min(20, len(self.held)) / 2, ended
            self.infer("run", "--date", DATE, "--other-source")

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

    def ask(self):
        self.infer(*self.rng.choice([("status",), ("list",), ("verify", "--date", DATE), ("doctor",)]))

    def maintain(self):
        retry, kill = ("retry", "--date", DATE), self.rng.random() < 0.4
        commands = (retry, (*retry, "--replaced"), ("forget", "--missing", "--yes"), ("db", "upgrade"), ("db", "join"))
        self.infer(*self.rng.choice(commands), kill=kill)

    def use_another_version(self):
        self.use_a_version(self.rng.choice([*self.versions]))

    def forget_a_version(self):
        network = self.rng.choice([*self.versions])
        self.forgotten = self.rng.choice(self.versions[network])
        self.infer("forget", "--model", f"{network}@{self.forgotten}", "--yes", "--even-most")

    def forget_while_nothing_is_listed(self):
        rows, listing = self.rows(), self.listing
        self.listing = 'query = "SELECT * FROM shots WHERE 1 = 0"'
        ran = self.infer("forget", "--missing", "--yes")
        self.listing = listing
        assert self.watches or self.rows() == rows, "results were deleted by an empty listing"
        assert self.watches or ran[0] != 0 or not rows

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

    def check(self):
        """Every row says what its picture's bytes give, once."""
        rows, there = self.rows(), self.files()
        results = Counter((row.name, row.model_id) for row in rows.elements() if row.is_result)
        assert not (several := {one for one, count in results.items() if count > 1}), several
        found = defaultdict(list)  # (picture, version, table): labels of objects
        for row, count in rows.items():
            assert count == 1
            if not row.is_result:
                found[row.picture, row.model_id, row.table].append((row.number, row.label))
        for row in rows:
            if not row.is_result:
                continue
            if row.label in ("not_found", "location_not_allowed"):  # the latter where its folder was moved since
                assert row.name not in there, row
                continue
            if row.label == "other_file":  # tried again: a version of the detector has objects of the file before
                detected = ("predictions", "cells", row.picture)
                by_detector = (one for one in rows if (one.table, one.network, one.picture) == detected)
                assert any(one.sha256 != row.sha256 for one in by_detector), row
                continue
            sha256 = row.sha256 or EMPTY  # none is kept of an empty file
            assert sha256 in self.held[row.name], row
            patches = self.contents[sha256]
            assert (patches is None) == (row.table == "rejections"), row
            if patches is None:
                continue
            is_detector = row.network == "cells"
            taken = [
                (i, one) for i, one in enumerate(patches) if is_detector or is_species(one, self.gates[row.model_id])
            ]
            said = [(i, one.place.label if is_detector else one.color) for i, one in taken]
            assert row.number == len(said)
            kind = "objects" if is_detector else "object_predictions"
            assert sorted(found[row.picture, row.model_id, kind]) == said

    def check_losses(self, before):
        """What a command deleted or predicted again is of pictures that were replaced or are gone, or was to be."""
        rows = self.rows()
        lost, there, listed = before - rows, self.files(), self.listed()
        # Of objects of a former version of the detector, a second network's result gives way to a new one too.
        new = (row for row in rows - before if row.network == "species" and row.is_result)
        replaced = {(row.picture, row.model_id): row for row in new}
        for row in lost:
            if row.table != "predictions" or self.forgotten in (row.model_id, row.detector_id):
                continue
            now = replaced.get((row.picture, row.model_id))
            if now and (now.label == "other_file" or now.detector_id != row.detector_id):
                continue
            if (file := there.get(row.name)) and row.name in listed:
                assert hashlib.sha256(file.read_bytes()).hexdigest() != row.sha256, f"lost: {row}"
        self.forgotten = None

    def settle(self):
        """After nights without faults each picture that is there has one current result of each network."""
        self.bring_storage_back()
        for arguments in (("run",), ("retry", "--replaced"), ("run",)):
            ran = self.infer(*arguments, "--date", DATE)
            self.ran(ran)
            assert ran[0] == 0 or "--other-source" in ran[2], ran
        self.check()
        listed = self.listed()
        with self.engine.connect() as connection:
            in_use = set(connection.scalars(text("SELECT id FROM infer_models WHERE in_use_since IS NOT NULL")))
            made = connection.execute(text("SELECT DISTINCT model_id, detector_id FROM infer_predictions")).all()
            pictures = Counter(Path(one).name for one in connection.scalars(text("SELECT location FROM infer_pictures")))
            viewed = connection.execute(text("SELECT model, model_id, location FROM infer_current_predictions")).all()
        assert {of for version, of in made if version in in_use and of} <= in_use, "of objects of a former detector"
        rows = [row for row in self.rows().elements() if row.model_id in in_use and row.is_result]
        shown = Counter((row.network, row.name, row.sha256 or EMPTY) for row in rows)
        for name, path in self.files().items():
            if name in listed:
                sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
                assert [shown[one, name, sha256] for one in self.versions] == [1, 1], name
        assert max(pictures.values()) == 1, pictures
        seen = sorted((model, Path(location).name) for model, version, location in viewed if version in in_use)
        assert seen == sorted((row.network, row.name) for row in rows if row.table == "predictions"), "views"
        self.compare_counts([row for row in rows if row.name in listed], listed & pictures.keys() if self.watches else listed)

    def compare_counts(self, rows, listed):
        """What commands tell of both days is what rows and pictures say."""
        of = {(network, table): sorted(row.name for row in rows if (row.network, row.table) == (network, table))
              for network in self.versions for table in ("predictions", "rejections")}  # fmt: skip
        counted = Counter()
        days = str((date.today() - date.fromisoformat(FIRST)).days + 1)
        for day in self.told("status", "--days", days)["days"]:
            counted.update({(day["model"], key): day[key] for key in ("eligible", "predicted", "rejected", "pending")})
        for network in self.versions:
            done = [len(of[network, table]) for table in ("predictions", "rejections")]
            told = [counted[network, key] for key in ("eligible", "predicted", "rejected", "pending")]
            assert told == [len(listed), *done, 0], (network, told)
            (self.folder / "export.jsonl").unlink(missing_ok=True)
            to = ("--to", str(self.folder / "export.jsonl"), "--format", "jsonl")
            self.told("export", "--date", FIRST, "--until", DATE, "--model", network, *to)
            lines = map(json.loads, (self.folder / "export.jsonl").read_text().splitlines())
            assert sorted({Path(one["location"]).name for one in lines}) == of[network, "predictions"], "export"
        for state, table in (("predicted", "predictions"), ("rejected", "rejections"), ("pending", None)):
            images = [one for day in (FIRST, DATE) for one in self.told("list", "--state", state, "--date", day)["images"]]
            for network in self.versions:
                names = sorted(Path(one["location"]).name for one in images if one["model"] == network)
                assert names == of.get((network, table), []), state
        for day in (FIRST, DATE):
            assert self.told("verify", "--date", day)["balanced"]

    def told(self, *command):
        code, out, errors = self.infer(*command, "--json")
        assert code == 0, out + errors
        return json.loads(out)


EVENTS = ("add_a_picture", "add_a_picture", "change_a_file", "change_a_file", "take_storage_away", "bring_storage_back",
          "bring_storage_back", "remove_a_row", "move_the_pictures", "list_them_otherwise", "rename_a_folder",
          "copy_a_folder", "join_from_another_machine")  # fmt: skip
COMMANDS = ("run", "run", "run", "run_and_be_killed", "run_and_be_killed", "run_with_the_clock_behind", "run_beside_a_lock",
            "ask", "maintain", "maintain", "use_another_version", "forget_a_version",
            "forget_while_nothing_is_listed")  # fmt: skip
SETUPS = [("sqlite", "watched"), ("sqlite", "table"), ("sqlite", "elsewhere"), ("postgres", "table"), ("mariadb", "table"),
          ("mariadb", "watched"), ("postgres", "elsewhere")]  # fmt: skip


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("kind", "listing"),
    [pytest.param(*one, marks=[pytest.mark.full] if i > 2 else []) for i, one in enumerate(SETUPS)],
    indirect=["kind"], scope="session",
)  # fmt: skip
def test_no_history_makes_a_row_wrong_or_loses_one(url, kind, listing, tmp_path, two_versions, seeded, request, new_database):
    folder = tmp_path / "history"
    folder.mkdir()
    with ExitStack() as stack:
        elsewhere = listing == "elsewhere" and ways_to(stack.enter_context(new_database("mariadb")), folder, stack)
        schema = "results" if kind == "postgres" and seeded.random() < 0.5 else None
        urls = ways_to(url, folder, stack)
        history = History(folder, urls, elsewhere, two_versions, seeded, watches=listing == "watched", schema=schema)
        request.addfinalizer(lambda: print("\n".join(history.log[-40:])))
        stack.callback(history.close)
        for step in range(1, (STEPS_FULL if request.config.option.full else STEPS) + 1):
            for event in seeded.choices(EVENTS, k=seeded.randrange(3)):
                if event not in ("remove_a_row", "list_them_otherwise") or not history.watches:
                    history.log.append(f"  {event}")
                    getattr(history, event)()
            command, before = seeded.choice(COMMANDS), history.rows()
            history.log.append(f"step {step}: {command}")
            getattr(history, command)()
            history.check()
            history.check_losses(before)
            if step % CALM == 0:
                history.settle()
        history.settle()
