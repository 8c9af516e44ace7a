"""Measure what commands cost in a project that has run for N days: 1,000 photos a day in a table of the user's own,
two classifiers, and a detector that finds two objects a photo.

The last day is predicted by the command, and its rows are copied into each day before it. Each command is then a
process of its own, measured three times, on SQLite or on a PostgreSQL as Debian installs it. Photos are small: the
database is measured. A project that is kept can be copied and measured with another version of the program, which
upgrades its tables first.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import describe_machine, undisturbed
from PIL import Image
from processes import run_measured, tree_cpu_seconds

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sqlalchemy import Column, Connection, Date, DateTime, create_engine, insert, select
from sqlalchemy.exc import OperationalError

from infer_app.base.locations import picture_key
from infer_app.tables.results.schema import objects, pictures, predictions, project_table, rejections, runs
from tests.support.detectors import Quadrants, built_detector
from tests.support.networks import Tiles, built_colors
from tests.support.projects import Project

ROOT = Path(__file__).resolve().parents[1]
PER_DAY = 1000
REJECTED = range(0, PER_DAY, 200)  # photos of each day whose files end early
NUM_LABELS, EXPORTED_DAYS, ROUNDS = 50, 97, 3
WITHOUT_NEWS = "run, nothing new"
TABLE = ("CREATE TABLE photos (id INTEGER PRIMARY KEY, path TEXT, taken TIMESTAMP)",
         "CREATE INDEX photos_taken ON photos (taken, id)")  # fmt: skip
# Seconds, and the peak of the largest process of the program, which is larger than that of the process that starts it.
LAUNCHER = """
import resource, subprocess, sys, time
start = time.perf_counter()
code = subprocess.call(sys.argv[2:], stderr=open(sys.argv[1], "w"))
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, file=sys.stderr)
sys.exit(code)
"""


@dataclass(frozen=True, slots=True)
class Cost:
    seconds: float
    cpu_seconds: float  # of the program and the database's server
    peak_mib: int
    others: float  # share of the machine that other programs used, without the database's server
    load: float


@dataclass(frozen=True, slots=True)
class Opened:
    """A project whose database answers at this URL; a PostgreSQL has a server, with this process."""

    folder: Path
    url: str
    server: int | None

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        engine = create_engine(self.url if self.server else f"sqlite:///{self.folder / 'infer.db'}")
        with engine.connect() as connection:
            yield connection
        engine.dispose()

    def infer(self, *arguments: str) -> tuple[str, Cost]:
        """Return what the command prints, and its cost. Raises SystemExit if it fails."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("INFER_")}
        environ |= {"PYTHONPATH": str(ROOT), "INFER_DATABASE__URL": self.url}
        log = self.folder / "errors.log"
        command = [sys.executable, "-S", "-c", LAUNCHER, str(log), sys.executable, "-m", "infer_app", *arguments]
        load, before = os.getloadavg()[0], self._server_seconds()
        used = run_measured(command, folder=self.folder, environ=environ)
        if used.exit_code:
            raise SystemExit(f"infer {' '.join(arguments)}: {used.exit_code}\n{used.output}\n{log.read_text()}")
        seconds, peak_mib = used.errors.split()
        of_server = self._server_seconds() - before
        others = max(0.0, used.others - of_server / used.seconds / (os.cpu_count() or 1))
        return used.output, Cost(float(seconds), used.cpu_seconds + of_server, int(peak_mib), others, load)

    def _server_seconds(self) -> float:
        return tree_cpu_seconds(self.server) if self.server else 0.0


def main() -> None:
    flags = read_flags()
    with ExitStack() as stack:
        folder = flags.measure or flags.keep
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="infer-days-")))
            folder.chmod(0o755)  # for the server's user
        project = None if flags.measure else Project(folder / "project")
        opened = stack.enter_context(open_database(folder.resolve(), flags.database))
        if project:
            started = time.perf_counter()
            make(project, opened, flags.days)
            print(f"{flags.days:,} days made in {time.perf_counter() - started:.0f} s\n", flush=True)
        else:
            print(f"`infer db upgrade` took {opened.infer('db', 'upgrade')[1].seconds:.2f} s\n", flush=True)
        num_photos = measure(opened, flags.patience)
        print_sizes(opened, num_photos)
    machine = describe_machine()
    print(f"\n{machine['processor']}, {machine['cores']} cores, Python {machine['python']}; {date.today().isoformat()}")


@contextmanager
def open_database(folder: Path, kind: str) -> Iterator[Opened]:
    """Open a project's database; a PostgreSQL, whose data lie beside the project, is started and stopped."""
    data, project = folder / "postgresql", folder / "project"
    if kind == "sqlite" and not data.exists():
        yield Opened(project, "sqlite:///infer.db", None)
        return
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    with tempfile.TemporaryDirectory(prefix="infer-db-", dir="/tmp") as door:  # short enough for a socket's path
        user = "nobody" if os.geteuid() == 0 else None  # the server refuses to run as root
        call = partial(subprocess.run, check=True, stdout=subprocess.DEVNULL, cwd="/", user=user)
        is_new = not data.exists()
        data.mkdir(exist_ok=True)
        if user:
            shutil.chown(data, user)
            shutil.chown(door, user)
        if is_new:
            order = ["--locale", "C.UTF-8", "--locale-provider", "icu", "--icu-locale", "en-US"]
            call([f"{programs}/initdb", "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "utf8", *order])
        control = [f"{programs}/pg_ctl", "-D", str(data), "-w"]
        call([*control, "-l", f"{door}/log", "-o", f"-k {door} -c listen_addresses=", "start"])
        try:
            server = int((data / "postmaster.pid").read_text().split()[0])
            yield Opened(project, f"postgresql://postgres@/postgres?host={door}", server)
        finally:
            call([*control, "-m", "fast", "stop"])


def make(project: Project, opened: Opened, num_days: int) -> None:
    """Make a project whose last day is yesterday."""
    last = datetime.now(UTC).date() - timedelta(days=1)
    project.set("source", table="photos", id="id", location="path", time="taken", time_zone="UTC", base="photos")
    project.set("run", time_zone="UTC")
    build_models(project.folder)
    save_photos(project.photos / str(last))
    for back in range(1, num_days):
        (project.photos / str(last - timedelta(days=back))).symlink_to(str(last))
    opened.infer("db", "upgrade")
    first, midnight, step = (num_days - 1) * PER_DAY + 1, datetime(*last.timetuple()[:3]), timedelta(days=1) / PER_DAY
    rows = (f"({first + i}, '{last}/{i:04}.jpg', '{midnight + i * step}')" for i in range(PER_DAY))
    with opened.connect() as connection:
        for statement in (*TABLE, f"INSERT INTO photos VALUES {', '.join(rows)}"):
            connection.exec_driver_sql(statement)
        connection.commit()
        opened.infer("run", "--date", str(last), "--lookback", "0")
        fill(connection, last, num_days)


def build_models(folder: Path) -> None:
    labels = folder / "classes.txt"
    labels.write_text("".join(f"kind of animal {number}\n" for number in range(NUM_LABELS)))
    torch.manual_seed(1)
    linear = torch.nn.Linear(36, NUM_LABELS)
    torch.nn.init.normal_(linear.weight, std=3)
    for name, mean in (("fauna", 0.0), ("species", 0.2)):
        built_colors(folder, torch.nn.Sequential(Tiles(), linear), name=name, labels=labels, mean=(mean, mean, mean))
    built_detector(folder, Quadrants(), "boxes", name="objects")


def save_photos(folder: Path) -> None:
    """Save photos of four quarters, half of which are red: these are what the detector finds."""
    random = np.random.default_rng(1)
    folder.mkdir()
    for number in range(PER_DAY):
        quarters = random.integers(0, 256, (2, 2, 3), np.uint8)
        quarters[..., 0] = random.integers(60, 256, (2, 2)) * random.integers(0, 2, (2, 2))
        quarters[..., 1] = 0
        file = folder / f"{number:04}.jpg"
        Image.fromarray(quarters).resize((64, 48), Image.Resampling.NEAREST).save(file, subsampling=0)
        if number in REJECTED:
            file.write_bytes(file.read_bytes()[:400])


def fill(connection: Connection, last: date, num_days: int) -> None:
    """Copy the rows of the last day into each day before it, the first day first."""
    is_sqlite, execute = connection.dialect.name == "sqlite", connection.exec_driver_sql
    for setting in ("PRAGMA synchronous = OFF", "PRAGMA cache_size = -1000000") if is_sqlite else ():
        execute(setting)
    tables = (predictions, objects, rejections, runs)
    for name in ("photos", *(table.name for table in tables)):
        execute(f"CREATE TEMPORARY TABLE last_{name} AS SELECT * FROM {name}")
    shown = connection.execute(select(pictures)).mappings().all()
    num_objects = int(execute("SELECT max(id) FROM infer_objects").scalar() or 0)
    for back in range(num_days - 1, 0, -1):
        day, taken = last - timedelta(days=back), earlier("taken", back, is_sqlite)
        values = f"id - {back * PER_DAY}, '{day}' || substr(path, 11), {taken}"
        execute(f"INSERT INTO photos SELECT {values} FROM last_photos")
        connection.execute(insert(pictures), [{**picture, **copied_picture(picture, day, back)} for picture in shown])
        for table in tables:
            names = ", ".join(table.columns.keys())
            values = ", ".join(copied(column, back, num_objects, is_sqlite) for column in table.columns)
            execute(f"INSERT INTO {table.name} ({names}) SELECT {values} FROM last_{table.name}")
        if back % 50 == 1:
            connection.commit()
    counts = {"last_picture": num_days * PER_DAY, "last_object": num_days * num_objects}
    connection.execute(project_table.update().values(counts))
    for name in ("infer_models.created_at", "infer_models.in_use_since"):
        table_name, _, column_name = name.partition(".")
        execute(f"UPDATE {table_name} SET {column_name} = {earlier(column_name, num_days - 1, is_sqlite)}")
    connection.commit()
    connection.execution_options(isolation_level="AUTOCOMMIT")
    for statement in ["PRAGMA wal_checkpoint(TRUNCATE)"] if is_sqlite else ["VACUUM ANALYZE", "CHECKPOINT"]:
        connection.exec_driver_sql(statement)  # a server does both by itself, in time


def copied_picture(picture: Mapping[str, Any], day: date, back: int) -> dict[str, object]:
    """Return the columns of a picture that differ in its copy."""
    image_id, location = str(int(picture["image_id"]) - back * PER_DAY), f"{day}{picture['location'][10:]}"
    own = {"id": picture["id"] + back * PER_DAY, "image_id": image_id, "location": location}
    return own | {"key": picture_key(image_id, location), "first_seen": picture["first_seen"] - 86400 * back}


def copied(column: Column[Any], back: int, num_objects: int, is_sqlite: bool) -> str:
    """Return the SQL of the value of a column in the copy of a row."""
    if isinstance(column.type, Date | DateTime):
        return earlier(column.name, back, is_sqlite)
    if column.name == "picture":
        return f"picture + {back * PER_DAY}"
    if column is objects.c.id:
        return f"id + {back * num_objects}"
    return f"{column.name} || '-{back}'" if column.name in ("id", "run_id") else column.name


def earlier(column_name: str, num_days: int, is_sqlite: bool) -> str:
    if is_sqlite:
        return f"date({column_name}, '-{num_days} days') || substr({column_name}, 11)"
    return f"{column_name} - INTERVAL '{num_days} days'"


def measure(opened: Opened, patience_s: float) -> int:
    """Print what each command costs; return the number of photos."""
    with opened.connect() as connection:
        num_photos, latest = connection.exec_driver_sql("SELECT count(*), max(taken) FROM photos").one()
    last = date.fromisoformat(str(latest)[:10])
    first, age = last - timedelta(days=EXPORTED_DAYS - 1), (datetime.now(UTC).date() - last).days
    target = opened.folder / "exported.csv"
    commands = {
        "status": f"status --days {13 + age}",  # of the day after the last: the default
        "pending": "list",
        "report": f"report --date {last}",
        "doctor": "doctor",
        WITHOUT_NEWS: f"run --date {last} --json",
        "export": f"export --date {first} --until {last} --model species --format csv --to {target}",
        "verify": f"verify --date {last}",
        "predictions": f"list --state predicted --date {last} --csv",
        "explain": f"explain --image {num_photos // 2}",
    }
    print(f"| {num_photos:,} photos | best, s | worst, s | CPU s | peak MiB | others' share | load before |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, command in commands.items():
        rounds = [undisturbed(partial(run_once, opened, name, command), patience_s) for _ in range(ROUNDS)]
        seconds, cpu_seconds = [cost.seconds for cost in rounds], min(cost.cpu_seconds for cost in rounds)
        peak_mib = max(cost.peak_mib for cost in rounds)
        busy = [(f"{cost.others:.0%}", f"{cost.load:.1f}") for cost in rounds]
        others, loads = (", ".join(one) for one in zip(*busy, strict=True))
        cells = f"{min(seconds):.2f} | {max(seconds):.2f} | {cpu_seconds:.2f} | {peak_mib} | {others} | {loads}"
        print(f"| {name} | {cells} |", flush=True)
        if name == "export":
            num_rows = target.read_bytes().count(b"\n") - 1
            print(f"| export, rows/s of {num_rows:,} | {num_rows / min(seconds):,.0f} | | | | | |", flush=True)
    return int(num_photos)


def run_once(opened: Opened, name: str, command: str) -> Cost:
    output, cost = opened.infer(*command.split())
    if name == WITHOUT_NEWS:
        assert all(model["selected"] == model["day"]["pending"] == 0 for model in json.loads(output)["models"])
    return cost


def print_sizes(opened: Opened, num_photos: int) -> None:
    of_each = "SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC"
    of_all = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    if opened.server:
        of_each = """SELECT relname, pg_table_size(oid) FROM pg_class
            WHERE relkind IN ('r', 'i') AND relnamespace = 'public'::regnamespace ORDER BY 2 DESC"""
        of_all = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relname ~ '^infer_'"
    with opened.connect() as connection:
        total = int(connection.exec_driver_sql(of_all).scalar() or 0)
        print(f"\n{total / num_photos:,.0f} bytes of the database for each photo\n")
        print("| table or index | MB | bytes for each photo |\n|---|---:|---:|")
        with suppress(OperationalError):  # a SQLite without dbstat
            for name, size in connection.exec_driver_sql(of_each):
                if size > total / 1000:
                    print(f"| {name} | {size / 1e6:,.1f} | {size / num_photos:,.0f} |")


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=100)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="make the project there, and keep it")
    parser.add_argument("--measure", type=Path, metavar="FOLDER", help="upgrade and measure one that was kept")
    parser.add_argument("--patience", type=float, default=20, metavar="SECONDS", help="of waiting for a quiet machine")
    return parser.parse_args()


if __name__ == "__main__":
    main()
