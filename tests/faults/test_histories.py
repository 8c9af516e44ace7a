"""One project through any history of its files, commands, kills and settings: no row is wrong, lost or made twice.

A detector with two versions and a second network with two; ids are used again. What each row must say is told by the
bytes of its picture alone.
"""

import hashlib
import json
import time
from collections import Counter, defaultdict, namedtuple
from contextlib import ExitStack
from datetime import date
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.faults.changing_project import FIRST, ChangingProject, ways_to
from tests.support.patches import DETECTOR, SPECIES, build, is_species, write_sources
from tests.support.projects import DATE

STEPS, STEPS_FULL, CALM = 10, 300, 30
EMPTY = hashlib.sha256(b"").hexdigest()
RESULTS = ("predictions", "rejections")
OF_OBJECTS = "object_predictions r JOIN infer_objects d ON d.id = r.object_id"
ROWS = [
    f"SELECT m.name, c.id, r.model_id, '{table.split()[0]}', {columns}, c.location FROM infer_{table}"
    " JOIN infer_models m ON m.id = r.model_id LEFT JOIN infer_pictures c ON c.id = picture"
    for table, columns in {
        "predictions r": "r.label, r.sha256, r.num_objects, r.run_id, r.detector_id",
        "rejections r": "r.reason, r.sha256, NULL, NULL, r.detector_id",
        "objects r": "r.label, NULL, r.object, NULL, NULL",
        OF_OBJECTS: "r.label, NULL, d.object, NULL, NULL",
    }.items()
]
# A result, by what the oracle tells of it; `label` is also a reason, `number` that of an object, or how many there are.
Row = namedtuple("Row", "network picture model_id table label sha256 number run detector_id name")


@pytest.fixture(scope="session")
def two_versions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two-versions")
    write_sources(folder)
    build(folder, DETECTOR, SPECIES, (*DETECTOR, "--set", "max_objects=200"), (*SPECIES, "--set", "min_score=0.5"))
    return folder / "models"


class History(ChangingProject):
    """Commands in any order; what must follow is told by what the files have ever held."""

    forgotten = None  # the version whose results the last command was to delete

    def run(self):
        clocks = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
        behind = [{"LD_PRELOAD": str(library), "FAKETIME": "-40d"} for library in clocks]
        more = self.rng.choice([*behind, *[{"kill": True}] * 4, *[{}] * 5])
        self.ran(self.infer("run", "--date", DATE, **more))

    def run_beside_a_lock(self):
        """A lock keeps it from writing for a second."""
        with self.engine.connect() as connection:
            kind = connection.dialect.name
            connection.exec_driver_sql("BEGIN IMMEDIATE" if kind == "sqlite" else "BEGIN")
            if kind == "postgresql":
                connection.exec_driver_sql("LOCK TABLE infer_runs IN EXCLUSIVE MODE")
            elif kind != "sqlite":
                connection.exec_driver_sql("SELECT * FROM infer_runs FOR UPDATE")
            running = self.start("run", "--date", DATE)
            time.sleep(1)
            connection.exec_driver_sql("ROLLBACK")
        self.ran(self.end(running))

    def ran(self, ended):
        """Where most files are others than those that were predicted, it may ask whether another folder is meant."""
        if "--other-source" in "".join(ended[1:]):
            assert 2 * sum(len(held) > 1 for held in self.held.values()) > min(20, len(self.held)) / 2, ended
            self.infer("run", "--date", DATE, "--other-source")

    def ask_or_maintain(self):
        network, day = self.rng.choice([*self.versions]), ("--date", self.rng.choice([FIRST, DATE]))
        version = f"{network}@{self.rng.choice(self.versions[network])}"
        ask = ("status",), ("list",), ("verify", *day), ("doctor",)
        change = ("retry", *day), ("retry", *day, "--replaced"), ("db", "upgrade"), ("model", "use", version)
        forget = ("forget", "--missing", "--yes"), ("forget", "--model", version, "--yes", "--even-most")
        command = self.rng.choice([*ask, *change, *change, *forget])
        self.forgotten = version.split("@")[1] if "--model" in command else None
        self.infer(*command, kill=self.rng.random() < 0.3)

    def forget_while_nothing_is_listed(self):
        rows, listing = self.rows(), self.listing
        self.listing = 'query = "SELECT * FROM shots WHERE 1 = 0"'
        ran = self.infer("forget", "--missing", "--yes")
        self.listing = listing
        assert self.watches or (self.rows() == rows and (ran[0] or not rows)), "deleted by an empty listing"

    def rows(self):
        """Return all rows of results, by what the oracle tells; each belongs to a picture."""
        with self.engine.connect() as connection:
            found = [row for sql in ROWS for row in connection.execute(text(sql))]
        return Counter(Row(*row[:-1], Path(row[-1]).name) for row in found)

    def check(self):
        """Every row says what its picture's bytes give, once."""
        rows, there = self.rows(), self.files()
        found = defaultdict(list)  # (picture, version, table): labels of objects
        for row in rows.elements():
            found[row.picture, row.model_id, row.table].append((row.number, row.label))
        results = Counter((row.name, row.model_id) for row in rows.elements() if row.table in RESULTS)
        assert not (several := {one for one, count in results.items() if count > 1}), several
        for row in (one for one in rows if one.table in RESULTS):
            sha256 = row.sha256 or EMPTY  # none is kept of an empty file
            if row.label in ("not_found", "location_not_allowed"):  # the latter where its folder was moved since
                assert row.name not in there, row
                continue
            if row.label == "other_file":  # tried again: a version of the detector has objects of the file before
                of_detector = (one for one in rows if (one.network, one.picture) == ("cells", row.picture))
                assert any(one.table == "predictions" and one.sha256 != row.sha256 for one in of_detector), row
                continue
            assert sha256 in self.held[row.name], row
            patches = self.contents[sha256]
            assert (patches is None) == (row.table == "rejections"), row
            if patches is None:
                continue
            kind, said = "objects", [(i, one.place.label) for i, one in enumerate(patches)]
            if row.network == "species":
                gate, kind = self.gates[row.model_id], "object_predictions"
                said = [(i, one.color) for i, one in enumerate(patches) if is_species(one, gate)]
            assert row.number == len(said)
            assert sorted(found[row.picture, row.model_id, kind]) == said

    def check_losses(self, before):
        """What a command deleted or predicted again is of pictures that were replaced or are gone, or was to be."""
        rows = self.rows()
        lost, there, listed = before - rows, self.files(), self.listed()
        # Of objects of a former version of the detector, a second network's result gives way to a new one too.
        new = (row for row in rows - before if row.network == "species" and row.table in RESULTS)
        replaced = {(row.picture, row.model_id): row for row in new}
        for row in lost:
            if row.table != "predictions" or self.forgotten in (row.model_id, row.detector_id):
                continue
            now = replaced.get((row.picture, row.model_id), row)
            is_of_others = now.label == "other_file" or now.detector_id != row.detector_id
            if not is_of_others and (file := there.get(row.name)) and row.name in listed:
                assert hashlib.sha256(file.read_bytes()).hexdigest() != row.sha256, f"lost: {row}"

    def settle(self):
        """After nights without faults each picture has one current result of a network; views and commands say so."""
        self.bring_storage_back()
        run = ("run", "--date", DATE)
        for arguments in (run, *(("retry", "--replaced", "--date", day) for day in (FIRST, DATE)), run):
            ran = self.infer(*arguments)
            self.ran(ran)
            assert ran[0] == 0 or "--other-source" in ran[2], ran
        self.check()
        listed = self.listed()
        with self.engine.connect() as connection:
            in_use = set(connection.scalars(text("SELECT id FROM infer_models WHERE in_use_since IS NOT NULL")))
            known = connection.scalars(text("SELECT location FROM infer_pictures"))
            pictures = Counter(Path(location).name for location in known)
            viewed = connection.execute(text("SELECT model, model_id, location FROM infer_current_predictions")).all()
        rows = [row for row in self.rows().elements() if row.model_id in in_use and row.table in RESULTS]
        shown = Counter((row.network, row.name, row.sha256 or EMPTY) for row in rows)
        for name in listed & self.files().keys():
            sha256 = hashlib.sha256(self.files()[name].read_bytes()).hexdigest()
            assert [shown[one, name, sha256] for one in self.versions] == [1, 1], name
        assert max(pictures.values()) == 1, pictures
        seen = sorted((model, Path(location).name) for model, version, location in viewed if version in in_use)
        count = [row for row in rows if row.table == "predictions" and row.detector_id in (None, *in_use)]
        assert seen == sorted((row.network, row.name) for row in count), "views"
        listed &= pictures.keys()
        rows = [row for row in rows if row.name in listed]
        assert {row.detector_id for row in rows} <= {None, *in_use}, "of objects of a former detector"
        days = self.told("status", "--days", str((date.today() - date.fromisoformat(FIRST)).days + 1))["days"]
        states, of_state = ("predicted", "rejected", "pending"), defaultdict(list)
        for day in (FIRST, DATE):
            assert self.told("verify", "--date", day)["balanced"]
            for state in states:
                for one in self.told("list", "--state", state, "--date", day)["images"]:
                    of_state[state, one["model"]].append(Path(one["location"]).name)
        for network in self.versions:
            names = [sorted(row.name for row in rows if (row.network, row.table) == (network, of)) for of in RESULTS]
            counts = [sum(day[key] for day in days if day["model"] == network) for key in ("eligible", *states)]
            assert counts == [len(listed), *map(len, names), 0], network
            again = {row.name for row in rows if (row.network, row.label) == (network, "not_found")}
            assert [sorted(of_state[state, network]) for state in states[:2]] == names
            assert {*of_state["pending", network]} <= again  # they are rejected for now
            to = ("--date", FIRST, "--until", DATE, "--format", "jsonl", "--to", str(file := self.new("export")))
            self.told("export", "--model", network, *to)
            lines = map(json.loads, file.read_text().splitlines())
            assert sorted({Path(one["location"]).name for one in lines}) == names[0]

    def told(self, *command):
        code, out, errors = self.infer(*command, "--json")
        assert code == 0, out + errors
        return json.loads(out)


EVENTS = ("add_a_picture", "add_a_picture", "change_a_file", "change_a_file", "take_storage_away", "bring_storage_back",
          "bring_storage_back", "remove_a_row", "move_the_pictures", "list_them_otherwise", "rename_a_folder",
          "copy_a_folder", "join_from_another_machine")  # fmt: skip
COMMANDS = ("run", "run", "run", "run_beside_a_lock", "ask_or_maintain", "ask_or_maintain", "ask_or_maintain",
            "forget_while_nothing_is_listed")  # fmt: skip
SETUPS = [("sqlite", "watched"), ("sqlite", "table"), ("sqlite", "elsewhere"), ("postgres", "table"),
          ("mariadb", "table"), ("mariadb", "watched"), ("mariadb", "elsewhere")]  # fmt: skip


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("kind", "listing"),
    [pytest.param(*setup, marks=[pytest.mark.full] * (setup not in SETUPS[:3])) for setup in SETUPS],
    indirect=["kind"], scope="session",
)  # fmt: skip
def test_no_history_makes_a_row_wrong_or_loses_one(
    url, kind, listing, tmp_path, two_versions, seeded, request, new_database
):
    (folder := tmp_path / "history").mkdir()
    with ExitStack() as stack:
        elsewhere = listing == "elsewhere" and ways_to(stack.enter_context(new_database("postgres")), folder, stack)
        schema = seeded.choice(["results", None]) if kind == "postgres" else None
        urls, watches = ways_to(url, folder, stack), listing == "watched"
        history = History(folder, urls, elsewhere, two_versions, seeded, watches=watches, schema=schema)
        stack.enter_context(history.beside)
        for step in range(1, (STEPS_FULL if request.config.option.full else STEPS) + 1):
            command, before = seeded.choice(COMMANDS), history.rows()
            for one in (*seeded.choices(EVENTS, k=seeded.randrange(3)), command):
                print(f"{step}: {one}")
                getattr(history, one)()
            history.check()
            history.check_losses(before)
            if step % CALM == 0:
                history.settle()
        history.settle()
