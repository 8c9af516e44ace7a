"""Two projects over one database of results, through any history: no row is wrong, lost, or deleted by the other one.

A watched folder with a detector and a second network, and a table of the user's with a classifier, whose ids are the
same numbers. A third project lists other files under the ids and names of the second. What each row must say is told
by the bytes of its picture alone.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, PngImagePlugin
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from infer_app.tables.engine.connect import Database
from tests.faults.conftest import on
from tests.faults.launch import POINTS
from tests.support.patches import COLORS, DETECTOR, PLAIN, SPECIES, build, draw, is_species, write_sources
from tests.support.projects import DATE, INFER

NOON = 1_795_176_000  # of DATE
STEPS, STEPS_FULL = 15, 500
TONES = ("colors.ts", "--name", "tones", "--labels", "colors.txt", *PLAIN)
OWNERS = {"cells": "folder", "species": "folder", "tones": "table"}
CONFIG = """
[database]
url = "{url}"
[run]
lookback = 0
workers = 2
chunk_size = 3
max_rejected = "100%"
"""
FOLDER = '[images]\nwatch = ["photos"]\n'
TABLE = """
[source]
table = "shots"
location = "path"
base = "pictures"
time = "taken"
time_zone = "UTC"
"""
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


class History:
    """Two projects and a stranger, and what their files have ever held."""

    def __init__(self, folder, url, source_url, models, rng):
        self.folder, self.rng, self.source_url = folder, rng, source_url or url
        self.engine = create_engine(Database(url).url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        self.source = create_engine(Database(self.source_url).url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        self.is_file = url.startswith("sqlite")
        table = TABLE + (f'database_url = "{source_url}"\n' if source_url else "")
        configs = {"folder": FOLDER, "table": table, "stranger": table.replace('"shots"', '"others"')}
        for name, own in configs.items():
            project = folder / name
            (project / ("photos" if name == "folder" else "pictures")).mkdir(parents=True)
            (project / "infer.toml").write_text(CONFIG.format(url=url) + own)
            (project / "own.py").write_text((models.parent / "own.py").read_text())
            for model, owner in OWNERS.items():
                if owner == name or (owner, name) == ("table", "stranger"):
                    shutil.copytree(models / model, project / "models" / model)
        self.photos, self.shots = folder / "folder" / "photos", folder / "table" / "pictures"
        self.contents = {}  # by sha256: the patches, or None of a broken file
        self.held = defaultdict(set)  # by file name: the checksums of what it ever held
        self.serial, self.is_away, self.log = 0, False, []
        self.infer("folder", "db", "upgrade")
        for project in ("table", "stranger"):
            self.infer(project, "db", "upgrade")
        with self.source.connect() as connection:
            for table in ("shots", "others"):  # the stranger's: the same ids and names, of other files
                columns = "id INTEGER PRIMARY KEY, path VARCHAR(99), taken TIMESTAMP"
                connection.execute(text(f"CREATE TABLE {table} ({columns})"))
        for _ in range(6):
            self.add_photo()
            self.add_shot()

    # What may happen to files and to the table

    def content(self):
        """Return a picture of its own, or in one of eight cases a broken one."""
        self.serial += 1
        if self.rng.random() < 0.12:
            data = b"" if self.rng.random() < 0.5 else f"no photo {self.serial}".encode()
            self.contents[hashlib.sha256(data).hexdigest()] = None
            return data
        colors = self.rng.choices(list(COLORS), k=self.rng.randrange(4))
        patches = draw(self.folder / "drawn.png", colors)
        text_chunk, buffer = PngImagePlugin.PngInfo(), io.BytesIO()
        text_chunk.add_text("Comment", str(self.serial))
        with Image.open(self.folder / "drawn.png") as picture:
            picture.save(buffer, "PNG", pnginfo=text_chunk)
            means = np.asarray(picture.convert("RGB").resize((16, 16), Image.Resampling.BILINEAR)).mean((0, 1))
        self.contents[hashlib.sha256(buffer.getvalue()).hexdigest()] = (
            patches,
            [color for color, mean in zip(COLORS, means, strict=True) if mean > means.max() - 2],
        )
        return buffer.getvalue()

    def write(self, path):
        data = self.content()
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        self.serial += 1
        os.utime(path, (NOON + self.serial, NOON + self.serial))
        self.held[path.name].add(hashlib.sha256(data).hexdigest())

    def files(self, folder):
        return sorted(path for path in folder.rglob("*.png"))

    def add_photo(self):
        if not self.is_away:
            self.write(self.photos / f"cam{self.rng.randrange(3)}" / f"{self.serial:04}.png")

    def replace_a_file(self):
        if found := self.files(self.photos) * (not self.is_away) + self.files(self.shots):
            self.write(self.rng.choice(found))

    def remove_a_photo(self):
        if len(found := self.files(self.photos)) > 6 and not self.is_away:
            self.rng.choice(found).unlink()

    def move_the_folder(self):
        if not self.is_away:
            moved = self.photos.with_name(f"photos{self.serial}")
            self.photos = self.photos.rename(moved)
            config = self.folder / "folder" / "infer.toml"
            config.write_text(CONFIG.format(url=self.url_of(config)) + FOLDER.replace("photos", moved.name))

    def url_of(self, config):
        return config.read_text().split('url = "')[1].split('"')[0]

    def take_storage_away(self):
        if not self.is_away:
            self.photos.rename(self.folder / "away")
            self.photos.mkdir()
            mark = self.rng.choice([None, "README.txt", ".not-mounted", "lost+found/", "cam0/"])
            if mark:
                there = self.photos / mark
                there.mkdir() if mark.endswith("/") else there.write_text("not mounted")
            self.is_away = True

    def bring_storage_back(self):
        if self.is_away:
            shutil.rmtree(self.photos)
            (self.folder / "away").rename(self.photos)
            self.is_away = False

    def add_shot(self):
        path = self.shots / f"{self.serial:04}.png"
        self.write(path)
        (self.folder / "stranger" / "pictures" / path.name).write_bytes(self.content())
        with self.source.connect() as connection:
            number = connection.scalar(text("SELECT coalesce(max(id), 0) + 1 FROM shots"))
            values = {"id": number, "path": path.name, "at": f"{DATE} 12:00:00"}
            for table in ("shots", "others"):
                connection.execute(text(f"INSERT INTO {table} VALUES (:id, :path, :at)"), values)

    def remove_a_shot(self):
        with self.source.connect() as connection:
            if connection.scalar(text("SELECT count(*) FROM shots")) > 6:
                for table in ("shots", "others"):
                    connection.execute(text(f"DELETE FROM {table} WHERE id = (SELECT min(id) FROM {table})"))

    # Commands

    def start(self, project, *arguments, faults=None, **environ):
        command = [INFER] if faults is None else [sys.executable, "-m", "tests.faults.launch", json.dumps(faults)]
        self.log.append(f"{project}: infer {' '.join(arguments)} {faults or ''}")
        return subprocess.Popen(
            [*command, *arguments], cwd=self.folder / project, text=True, start_new_session=True,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])} | environ,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def end(self, running):
        out, errors = running.communicate(timeout=200)
        self.log[-1] += f" -> {running.returncode}"
        assert "Traceback" not in errors, errors
        assert running.returncode != 1 or "verify" in running.args, out + errors
        return running.returncode, out + errors

    def infer(self, project, *arguments, **more):
        return self.end(self.start(project, *arguments, **more))

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
            if label == "not_found":
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
