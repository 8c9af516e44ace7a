"""Measure rows of results written and new images selected per second, on SQLite, PostgreSQL and MariaDB.

The code is that of a run: a transaction per chunk, of 8, 64 and 256 images, and in bulk. *again* writes the same rows a
second time, as a run does whose commit was lost: every row is then an update. With `--objects` each image has as many
rows of detected objects, which are then counted beside its own.
*sqlite-rollback* is a file created by another program, which keeps its journal mode. The servers are private ones on
this machine: over a network each transaction would take four or five round trips more.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from processes import busy_seconds
from sqlalchemy import text

from infer_app.base.day import Day
from infer_app.base.domain import ChunkResult, DetectedObject, FileFacts, ImageRef, Output, Prediction
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.image_registry import add_objects
from infer_app.tables.listing.source import Source
from infer_app.tables.results.migrate import upgrade
from infer_app.tables.results.runs import RunModel, RunStore
from infer_app.tables.results.schema import metadata, project_table
from infer_app.tables.results.sink import Sink
from tests.databases import servers

RESULTS = Path(__file__).resolve().parent / "results"
DAY = Day.of(date(2026, 11, 20), "UTC")
MODEL = RunModel("stub", "0123456789abcdef", "cpu-torchscript", {})
TOP5 = json.dumps(
    {"top": [{"label": f"a label of the usual length {place}", "score": 0.5 / place} for place in range(1, 6)]}
)
CHUNK_SIZES = (8, 64, 256, 10_000)
MAX_CHUNKS = 400


@dataclass(frozen=True, slots=True)
class Rates:
    """Rows per second."""

    new: float
    again: float
    others: float  # share of the machine that other programs used meanwhile


def main() -> None:
    flags = read_flags()
    found: dict[str, dict[str, Any]] = {}
    for name in flags.only or OPENERS:
        try:
            with OPENERS[name]() as database:
                found[name] = measure(database, flags.num_rows, flags.rounds, flags.objects)
        except servers.NoServer as missing:
            print(f"{name}: skipped, {missing}")
    result = {"date": date.today().isoformat(), "machine": describe_machine(), "databases": found}
    table = render(result)
    print(table)
    if flags.save:
        (RESULTS / "database.md").write_text(f"# Rows of results written and images selected\n{table}\n")


def measure(database: Database, num_rows: int, rounds: int, num_objects: int) -> dict[str, Any]:
    upgrade(database)
    version = describe_server(database)
    print(f"{version}", flush=True)
    written: dict[int, list[Rates]] = {size: [] for size in CHUNK_SIZES}
    for _ in range(rounds):
        for size in CHUNK_SIZES:
            written[size].append(write_rows(database, min(num_rows, MAX_CHUNKS * size), size, num_objects))
            rates = written[size][-1]
            print(f"  {size:,} per transaction: {rates.new:,.0f} new, {rates.again:,.0f} again per second", flush=True)
    return {
        "version": version,
        "rows_per_second": {
            str(size): {key: [getattr(rate, key) for rate in rates] for key in ("new", "again", "others")}
            for size, rates in written.items()
        },
        "selected_per_second": select_rows(database, num_rows),
    }


def write_rows(database: Database, num_rows: int, chunk_size: int, num_objects: int) -> Rates:
    """Write the rows of `num_rows` images into empty tables, twice, and return the rates."""
    empty(database)
    run_id = RunStore(database).open_run(DAY, MODEL)
    sink = Sink(database, MODEL.model_id, MODEL.variant, run_id)
    chunks = [
        ChunkResult(0, tuple(prediction(n, num_objects) for n in range(first, min(first + chunk_size, num_rows))), ())
        for first in range(0, num_rows, chunk_size)
    ]
    seconds, busy, start = [], busy_seconds(), time.perf_counter()
    for _ in range(2):
        began = time.perf_counter()
        for chunk in chunks:
            sink.commit_chunk(chunk)
        seconds.append(time.perf_counter() - began)
    cores = (busy_seconds() - busy) / (time.perf_counter() - start)
    own = 1.0 if database.file is not None else 2.0  # this process, and the server's
    written = num_rows * (1 + num_objects)
    return Rates(written / seconds[0], written / seconds[1], max(0.0, cores - own) / (os.cpu_count() or 1))


def select_rows(database: Database, num_rows: int) -> float:
    """Return the new images selected per second, of a day of `num_rows` images of which half are predicted."""
    empty(database)
    add_objects(database, ((f"/{number}.jpg", None) for number in range(num_rows)), datetime(2026, 11, 20, 12))
    source = Source(database, SourceSettings())
    run_id = RunStore(database).open_run(DAY, MODEL)
    done = list(source.select_new(DAY, MODEL.model_id))[::2]
    sink = Sink(database, MODEL.model_id, MODEL.variant, run_id)
    sink.commit_chunk(ChunkResult(0, tuple(Prediction(ref, Output()) for ref in done), ()))
    start = time.perf_counter()
    found = sum(1 for _ in source.select_new(DAY, MODEL.model_id))
    assert found == num_rows - len(done)
    return num_rows / (time.perf_counter() - start)


def prediction(number: int, num_objects: int) -> Prediction:
    """Return a typical prediction: a label, its score, the five best labels, and the file's checksum."""
    box = random.Random(number).random
    objects = tuple(DetectedObject(f"label {n}", n, box(), box(), box(), box(), box()) for n in range(num_objects))
    output = Output("tabby cat", 0.5, TOP5, objects=objects) if objects else Output("tabby cat", 0.5, TOP5)
    return Prediction(ImageRef(str(number), f"/{number}.jpg"), output, FileFacts(sha256="ab" * 32))


def empty(database: Database) -> None:
    with database.write() as connection:
        for table in reversed(metadata.sorted_tables):
            if table is not project_table:  # the numbers given last, which go on
                connection.execute(table.delete())
    if database.dialect.name == "postgresql":
        with database.read() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT").execute(text("VACUUM"))


def describe_server(database: Database) -> str:
    with database.read() as connection:
        if database.file is not None:
            found = ("SELECT sqlite_version()", "PRAGMA journal_mode")
            return "SQLite {}, journal_mode {}".format(*(connection.exec_driver_sql(each).scalar() for each in found))
        version = str(connection.exec_driver_sql("SELECT version()").scalar())
        return version.partition(",")[0].partition(" on ")[0] if "PostgreSQL" in version else f"MariaDB {version}"


@contextmanager
def open_sqlite() -> Iterator[Database]:
    with tempfile.TemporaryDirectory(prefix="infer-bench-") as folder, Database(f"sqlite:///{folder}/b.db") as database:
        yield database


@contextmanager
def open_users_sqlite() -> Iterator[Database]:
    """Open a file created by another program, which keeps its rollback journal."""
    with open_sqlite() as database:
        assert database.file is not None
        with closing(sqlite3.connect(database.file)) as connection:
            connection.execute("CREATE TABLE their_own (x)")
        yield database


@contextmanager
def open_server(kind: str) -> Iterator[Database]:
    with ExitStack() as stack:
        url = os.environ.get(f"TEST_{kind.upper()}_URL") or stack.enter_context(getattr(servers, kind)()).url
        yield stack.enter_context(Database(stack.enter_context(servers.new_database(url))))


OPENERS = {
    "sqlite": open_sqlite,
    "sqlite-rollback": open_users_sqlite,
    "postgres": lambda: open_server("postgres"),
    "mariadb": lambda: open_server("mariadb"),
}


def render(result: dict[str, Any]) -> str:
    """Return a table of the medians of the rounds."""
    sizes = [f"{size:,} per transaction, new · again" for size in CHUNK_SIZES]
    lines = ["", f"| rows/s | {' | '.join(sizes)} | selected/s |", "|---" + "|---:" * (len(sizes) + 1) + "|"]
    for figures in result["databases"].values():
        middle = [
            " · ".join(f"{statistics.median(rates[key]):,.0f}" for key in ("new", "again"))
            for rates in figures["rows_per_second"].values()
        ]
        lines.append(f"| {figures['version']} | {' | '.join(middle)} | {figures['selected_per_second']:,.0f} |")
    machine = result["machine"]
    written = [rates for figures in result["databases"].values() for rates in figures["rows_per_second"].values()]
    taken = [share for rates in written for share in rates["others"]]
    tail = f"others used {statistics.median(taken):.0%} of the machine, {max(taken):.0%} at most" if taken else ""
    return "\n".join(
        [*lines, "", f"{machine['processor']}, {machine['cores']} cores, {tail}; Python {machine['python']}; "
         f"{result['date']}"]
    )  # fmt: skip


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--num-rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=list(OPENERS), default=[])
    parser.add_argument("--objects", type=int, default=0, help="rows of detected objects for each image")
    parser.add_argument("--save", action="store_true", help="write results/database.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
