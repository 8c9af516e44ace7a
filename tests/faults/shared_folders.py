"""Three projects over one database, and what may happen to their files and tables meanwhile."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from PIL import Image, PngImagePlugin
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from infer_app.tables.engine.connect import Database
from tests.support.patches import COLORS, draw
from tests.support.projects import DATE, INFER, PLAIN

NOON = 1_795_176_000  # of DATE
TONES = ("colors.ts", "--name", "tones", "--labels", "colors.txt", *PLAIN)
NETWORKS = {"folder": ("cells", "species"), "table": ("tones",), "others": ("tones",)}
TABLES = {"table": "shots", "others": "others"}  # that list the same ids and names, of other files
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


class SharedFolders:
    """The projects, and what their files have ever held."""

    def __init__(self, folder, url, source_url, models, rng):
        self.folder, self.rng, self.source_url = folder, rng, source_url or url
        self.engine = create_engine(Database(url).url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        self.source = create_engine(Database(self.source_url).url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        self.is_file = url.startswith("sqlite")
        table = TABLE + (f'database_url = "{source_url}"\n' if source_url else "")
        configs = {"folder": FOLDER, "table": table, "others": table.replace('"shots"', '"others"')}
        for name, own in configs.items():
            project = folder / name
            (project / ("photos" if name == "folder" else "pictures")).mkdir(parents=True)
            (project / "infer.toml").write_text(CONFIG.format(url=url) + own)
            (project / "own.py").write_text((models.parent / "own.py").read_text())
            for model in NETWORKS[name]:
                shutil.copytree(models / model, project / "models" / model)
        built = [json.loads(file.read_text()) for file in sorted(models.glob("*/*/manifest.json"))]
        self.versions = {name: [one["model_id"] for one in built if one["name"] == name] for name in NETWORKS["folder"]}
        self.gates = {one["model_id"]: one["crop"]["min_score"] for one in built if one.get("crop")}
        self.photos = folder / "folder" / "photos"
        self.shots = {name: folder / name / "pictures" for name in TABLES}
        self.contents = {}  # by sha256: the patches, or None of a broken file
        self.held = defaultdict(set)  # by project and file name: the checksums of what it ever held
        self.serial, self.is_away, self.log = 0, False, []
        for project in NETWORKS:
            self.infer(project, "db", "upgrade")
        for network in self.versions:
            self.use_a_version(network)
        with self.source.connect() as connection:
            for table in TABLES.values():
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

    def write(self, project, path):
        data = self.content()
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        self.serial += 1
        os.utime(path, (NOON + self.serial, NOON + self.serial))
        self.held[project, path.name].add(hashlib.sha256(data).hexdigest())

    def files(self, folder):
        return sorted(path for path in folder.rglob("*.png"))

    def add_photo(self):
        if not self.is_away:
            self.write("folder", self.photos / f"cam{self.rng.randrange(3)}" / f"{self.serial:04}.png")

    def replace_a_file(self):
        found = [("folder", path) for path in self.files(self.photos) if not self.is_away]
        found += [(project, path) for project, folder in self.shots.items() for path in self.files(folder)]
        if found:
            self.write(*self.rng.choice(found))

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
        """Add one to both tables, by a new id or by one of a row that was deleted."""
        name = f"{self.serial:04}.png"
        for project, folder in self.shots.items():
            self.write(project, folder / name)
        with self.source.connect() as connection:
            first, last = connection.execute(text("SELECT coalesce(min(id), 1), coalesce(max(id), 0) FROM shots")).one()
            number = self.rng.choice([last + 1, *range(1, first)])
            values = {"id": number, "path": name, "at": f"{DATE} 12:00:00"}
            for table in TABLES.values():
                connection.execute(text(f"INSERT INTO {table} VALUES (:id, :path, :at)"), values)

    def remove_a_shot(self):
        with self.source.connect() as connection:
            if connection.scalar(text("SELECT count(*) FROM shots")) > 6:
                for table in TABLES.values():
                    connection.execute(text(f"DELETE FROM {table} WHERE id = (SELECT min(id) FROM {table})"))

    # Commands

    def use_a_version(self, network):
        self.infer("folder", "model", "use", f"{network}@{self.rng.choice(self.versions[network])}")

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
