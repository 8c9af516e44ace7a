"""Measure a night: a run that finds nothing new, and one that finds 1,000 photos, of three models and their own table.

On PostgreSQL as Debian installs it, on the same with its compiler off (`jit`), and on SQLite. The photos of the four
days that a run covers are predicted before, by the command. All are a few small pictures: the database is timed.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import date, datetime, timedelta
from pathlib import Path

import psycopg
from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sqlalchemy import make_url

from tests.databases import servers
from tests.support.networks import ChannelMeans, save
from tests.support.projects import INFER, Project, build_model

RESULTS = Path(__file__).parent / "results"
LAST = date(2026, 11, 20)
NUM_DAYS, NUM_NEW = 4, 1000
CREATE = "CREATE TABLE shots (id INTEGER PRIMARY KEY, path TEXT, at TIMESTAMP)"


def main() -> None:
    flags = read_flags()
    lines = [
        f"| {flags.num_images:,} photos, 3 models | nothing new, s | {NUM_NEW:,} new photos, s |",
        "|---|---:|---:|",
    ]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="infer-night-")))
        server = stack.enter_context(servers.installed_postgres()).url
        save(ChannelMeans(), folder / "colors.ts")
        for name, mean in (("a", "0,0,0"), ("b", "0.1,0,0"), ("c", "0.2,0,0")):
            build_model(folder, "colors.ts", name, "--recipe", "stretch", "--size", "16", "--mean", mean)
        for name in ("SQLite", "PostgreSQL, jit off", "PostgreSQL as installed"):
            url = "sqlite:///infer.db" if name == "SQLite" else stack.enter_context(servers.new_database(server))
            if name == "PostgreSQL, jit off":
                execute(server, folder, f"ALTER DATABASE {make_url(url).database} SET jit = off")
            project = folder / name.replace(" ", "-")
            quiet, new = measure(project, folder / "models", url, flags.num_images, flags.rounds)
            lines.append(f"| {name} | {quiet:.1f} | {new:.1f} |")
            print(lines[-1], flush=True)
    machine = describe_machine()
    lines += ["", f"{machine['processor']}, {machine['cores']} cores; nothing new: the median of {flags.rounds};"]
    lines += [f"load of the machine at the end, this program included: {os.getloadavg()[0]:.1f};"]
    lines += [f"`python benchmarks/night.py -n {flags.num_images}`, {date.today().isoformat()}"]
    print("\n".join(lines))
    if flags.save:
        (RESULTS / f"{date.today().isoformat()}-night.md").write_text("\n".join(lines) + "\n")


def measure(folder: Path, models: Path, url: str, num_images: int, rounds: int) -> tuple[float, float]:
    project = Project(folder, models)
    project.add_photos(20)
    project.forget_database()
    project.set("database", url=url)
    project.set("source", table="shots", id="id", location="path", time="at", time_zone="UTC")
    project.set("images", roots=[str(project.photos)])
    project.set("run", models=["a", "b", "c"])
    project.infer("db", "upgrade")
    fill(url, folder, 0, num_images, NUM_DAYS)
    night(folder)
    quiet = statistics.median(night(folder) for _ in range(rounds))
    fill(url, folder, num_images, NUM_NEW, 1)
    return quiet, night(folder)


def fill(url: str, folder: Path, first: int, count: int, num_days: int) -> None:
    times = (datetime(LAST.year, LAST.month, LAST.day, 12) - timedelta(days=i % num_days) for i in range(count))
    rows = [f"({first + i}, '{folder}/photos/{i % 20:04}.jpg', '{at}')" for i, at in enumerate(times)]
    execute(url, folder, *([CREATE] if first == 0 else []), f"INSERT INTO shots VALUES {', '.join(rows)}")


def execute(url: str, folder: Path, *statements: str) -> None:
    if url.startswith("sqlite"):
        with sqlite3.connect(folder / "infer.db") as connection:
            for statement in statements:
                connection.execute(statement)
        return
    with psycopg.connect(make_url(url).render_as_string(hide_password=False), autocommit=True) as server:
        for statement in statements:
            server.execute(statement)


def night(folder: Path) -> float:
    start = time.perf_counter()
    subprocess.run([str(INFER), "run", "--date", str(LAST), "--quiet"], cwd=folder, check=True)
    return time.perf_counter() - start


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--num-images", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", action="store_true", help="as results/<date>-night.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
