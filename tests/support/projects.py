"""A project as a user has it: infer.toml, photos, and `infer` as a process."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import tomlkit
from PIL import Image

from infer_app.base import packages
from infer_app.cli.project import project as commands
from infer_app.tables.engine.connect import Database
from tests.support.preloaded import INFER, run_infer
from tests.support.results import register_rows

DATE = "2026-11-20"
REJECTED = "infer_rejections r JOIN infer_pictures c ON c.id = r.picture"  # with the images' ids and locations
PREDICTED = REJECTED.replace("rejections", "predictions")
EVERYWHERE: dict[str, str] = {}  # variables for every `infer` of a module
PLAIN = ("--recipe", "stretch", "--size", "16", "--set", "mean=0,0,0", "--set", "std=1,1,1")
HIDES = """from importlib.machinery import PathFinder
find_spec, find_distributions = PathFinder.find_spec, PathFinder.find_distributions
PathFinder.find_spec = lambda name, *more: None if name in {0} else find_spec(name, *more)
PathFinder.find_distributions = lambda *given: (one for one in find_distributions(*given) if one.name not in {0})
"""


def install(extra: str) -> str:
    """The command that `infer` prints: it may be run by `python3` where tests are run by `python`."""
    return packages.install(extra).replace(sys.executable, INFER.read_text().split("\n", 1)[0].removeprefix("#!"))


def found_first(folder: Path, **modules: str) -> dict[str, str]:
    """Write modules of this code; return variables by which `infer` finds these before all others."""
    folder.mkdir()
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(code)
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))}


def without(folder: Path, *packages: str) -> dict[str, str]:
    """Return variables by which `infer` runs as where these packages are not installed."""
    return found_first(folder, sitecustomize=HIDES.format(packages))


class Project:
    """A folder in which `infer` is run, with infer.toml, and with a folder of models if one is given."""

    def __init__(self, folder: Path, models: Path | None = None) -> None:
        self.folder = folder
        self.photos = folder / "photos"
        self.photos.mkdir(parents=True)
        commands.write_config(folder)
        if models:
            self.use_models(models)

    # What a test begins with, by the functions behind `infer db upgrade` and `images add`: no second for each

    def upgrade(self) -> None:
        commands.upgrade(self.folder / "infer.toml")

    def add(self, *paths: str, date: str = DATE) -> None:
        commands.add([self.folder / path for path in paths], date, self.folder / "infer.toml")

    def register_images(self, *locations: str, date: str = DATE, **facts: object) -> None:
        """Write rows of images at these locations, of noon of the date, as if there were files."""
        shared = {"added_at": datetime.fromisoformat(f"{date} 12:00:00")} | facts
        with Database(f"sqlite:///{self.folder / 'infer.db'}") as database, database.write() as connection:
            register_rows(connection, *({"location": location} | shared for location in locations))

    def add_photos(self, count: int, date: str = DATE) -> None:
        """Photos of one colour each, reddish, greenish and bluish in turn."""
        for i in range(count):
            color = tuple(220 - i % 40 if channel == i % 3 else 30 for channel in range(3))
            Image.new("RGB", (40 + i % 7, 30), color).save(self.photos / f"{i:04}.jpg")
        self.add("photos", date=date)

    def forget_database(self) -> None:
        """Let the project have another database from now on, as a user does who means it."""
        (self.folder / "infer.database-id").unlink(missing_ok=True)

    def set(self, section: str, **values: object) -> None:
        """Change settings in infer.toml."""
        config = self.folder / "infer.toml"
        settings = tomlkit.parse(config.read_text())
        settings.setdefault(section, tomlkit.table()).update(values)
        config.write_text(tomlkit.dumps(settings))

    def use_models(self, models: Path) -> None:
        """Copy this folder of models: whatever a test builds or damages, other tests don't see it."""
        shutil.rmtree(self.folder / "models", ignore_errors=True)
        shutil.copytree(models, self.folder / "models")

    def own_table(self, columns: str = "id, location, added_at", *values: object) -> None:
        """List the images by a table of the user's with these columns of ours."""
        self.write(f"CREATE TABLE shots AS SELECT {columns} FROM infer_images", *values)
        self.set("source", table="shots", time_zone="UTC")

    def keep(self) -> None:
        """Keep a copy, as which `restore` brings the project back."""
        shutil.copytree(self.folder, self.folder.with_name("kept"), symlinks=True)

    def restore(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self.folder.with_name("kept"), self.folder, symlinks=True)

    # The commands, each a process

    def infer(self, *arguments: str, exit_code: int = 0, **environ: str) -> str:
        """Standard output of `infer …`, which must end with `exit_code`."""
        run = run_infer(*arguments, cwd=self.folder, **EVERYWHERE | environ)
        assert run.returncode == exit_code, f"exit code {run.returncode}\n{run.stdout}\n{run.stderr}"
        self.errors = run.stderr
        return run.stdout

    def infer_json(self, *arguments: str, exit_code: int = 0, **environ: str) -> Any:
        return json.loads(self.infer(*arguments, "--json", exit_code=exit_code, **environ))

    def list_images(self, state: str, day: str | None = None, *flags: str, **environ: str) -> list[dict[str, Any]]:
        """Return what `infer list` has of a day, or without a day of all that it lists."""
        date = () if day is None else ("--date", day)
        listed: list[dict[str, Any]] = self.infer_json("list", "--state", state, *date, *flags, **environ)["images"]
        return listed

    def run_day(self, *flags: str, exit_code: int = 0, **environ: str) -> Any:
        """Return what a run of DATE alone reports."""
        return self.infer_json("run", "--date", DATE, "--lookback", "0", *flags, exit_code=exit_code, **environ)

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(INFER), *arguments],
            cwd=self.folder,
            env=os.environ | EVERYWHERE | environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    # Its tables

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / "infer.db")) as connection, connection:
            return connection.execute(sql).fetchall()

    def write(self, sql: str, *values: object) -> None:
        with closing(sqlite3.connect(self.folder / "infer.db")) as connection, connection:
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute(sql, values)

    def results(self) -> list[tuple[Any, ...]]:
        """What two runs must agree in: ids, labels, scores, reasons."""
        predicted = f"SELECT image_id, model_id, label, score, r.sha256 FROM {PREDICTED}"
        rejected = f"SELECT image_id, model_id, reason, NULL, r.sha256 FROM {REJECTED}"
        return self.rows(f"{predicted} UNION ALL {rejected} ORDER BY 1, 2")


def build_model(folder: Path, source: str, name: str, *flags: str) -> None:
    """Build a model of red, green and blue in `folder`, by the command."""
    (folder / "labels.txt").write_text("red\ngreen\nblue\n")
    mean = ("--set", "mean=0,0,0", "--set", "std=1,1,1")
    command = ("model", "build", source, "--name", name, "--labels", "labels.txt", *mean, *flags)
    run_infer(*command, cwd=folder).check_returncode()
