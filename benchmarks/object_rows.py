"""Measure rows of infer_objects written per second, on SQLite, PostgreSQL and MariaDB.

The code is that of a run: a transaction per chunk of 64 images, of 0, 1, 5 and 20 objects each, which holds the
predictions and the run's counts too; and in bulk, 64 × 500. *again* writes the same rows a second time, as a run does
whose commit was lost: every object is then deleted and written anew. *per CPU s* is per second of the CPU time of the
coordinator, which shares the machine with its workers. With `--before DIR`, a checkout of an earlier
commit, both write in turns, and the tables must be equal.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

from database import DAY, MODEL, OPENERS, describe_server, empty
from machine import describe_machine
from sqlalchemy import select

import infer_app
from infer_app.base.domain import ChunkResult, DetectedObject, FileFacts, ImageRef, Output, Prediction
from infer_app.base.size import Size
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.migrate import upgrade
from infer_app.tables.results.runs import RunStore
from infer_app.tables.results.schema import objects, predictions
from infer_app.tables.results.sink import Sink

RESULT = Path(__file__).resolve().parent / "results" / f"{date.today()}-object-rows.md"
CHUNK_SIZE = 64
OBJECTS_PER_IMAGE = (0, 1, 5, 20, 500)
MAX_ROWS = 200_000
LABELS = [f"a label of the usual length {number}" for number in range(80)]


def main() -> None:
    flags = read_flags()
    if flags.measure:
        print(json.dumps(measure(flags.measure, flags.num_images)))
        return
    folders = {"now": Path(__file__).resolve().parents[1]} | ({"before": flags.before} if flags.before else {})
    lines = ["", f"| {flags.num_images:,} images | objects each | rows/s new · again · per CPU s | images/s |"]
    lines[1] += " before, rows/s | ratio, new · again · per CPU s |" if flags.before else ""
    lines.append("|---" + "|---:" * (lines[1].count("|") - 2) + "|")
    for name in flags.only:
        rounds = [{side: run(folder, name, flags.num_images) for side, folder in folders.items()}
                  for _ in range(flags.rounds)]  # fmt: skip
        assert len({one["checksum"] for sides in rounds for one in sides.values()}) == 1, "the tables differ"
        lines += render(rounds)
    machine = describe_machine()
    table = "\n".join(lines)
    table += f"\n\n{machine['processor']}, {machine['cores']} cores, {describe_load()}; Python {machine['python']}; "
    table += f"`python benchmarks/object_rows.py -n {flags.num_images} --rounds {flags.rounds}`, {date.today()}"
    print(table)
    if flags.save:
        RESULT.write_text(f"# Rows of detected objects written\n{table}\n")


def run(folder: Path, name: str, num_images: int) -> dict[str, Any]:
    """Measure a checkout in a process of its own, by its copy of this script."""
    command = [sys.executable, str(folder / "benchmarks" / Path(__file__).name), "--measure", name, "-n"]
    environ = os.environ | {"PYTHONPATH": str(folder)}  # before the package that is installed
    done = subprocess.run([*command, str(num_images)], env=environ, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    assert Path(result.pop("package")).is_relative_to(folder)
    return result


def measure(name: str, num_images: int) -> dict[str, Any]:
    """Return rows per second by objects of each image, and a checksum of all tables that were written."""
    found: dict[str, Any] = {}
    checksum = hashlib.sha256()
    with OPENERS[name]() as database:
        upgrade(database)
        for each in OBJECTS_PER_IMAGE:
            found[str(each)] = write(database, make_chunks(min(num_images, MAX_ROWS // max(1, each)), each))
            add_rows(checksum, database)
        return {
            "package": infer_app.__file__,
            "version": describe_server(database),
            "rates": found,
            "checksum": checksum.hexdigest(),
        }


def write(database: Database, chunks: list[ChunkResult]) -> list[float]:
    """Write the chunks into empty tables, twice.

    Return images per second of each time, and per second of this process's CPU time over both.
    """
    empty(database)
    sink = Sink(database, MODEL.model_id, MODEL.variant, RunStore(database).open_run(DAY, MODEL))
    num_images, rates, cpu = sum(len(chunk.predictions) for chunk in chunks), [], time.process_time()
    for _ in range(2):
        start = time.perf_counter()
        for chunk in chunks:
            sink.commit_chunk(chunk)
        rates.append(num_images / (time.perf_counter() - start))
    return [*rates, 2 * num_images / (time.process_time() - cpu)]


def make_chunks(num_images: int, each: int) -> list[ChunkResult]:
    chance = random.Random(each)
    return [
        ChunkResult(0, tuple(make_prediction(chance, number, each) for number in range(first, first + CHUNK_SIZE)), ())
        for first in range(0, num_images, CHUNK_SIZE)
    ]


def make_prediction(chance: random.Random, number: int, each: int) -> Prediction:
    box = chance.random
    classes = [chance.randrange(len(LABELS)) for _ in range(each)]
    found = tuple(DetectedObject(LABELS[one], one, box(), box(), box(), box(), box()) for one in classes)
    output = Output(found[0].label if found else None, found[0].score if found else None, objects=found)
    return Prediction(
        ImageRef(str(number), f"/{number}.jpg"), output, FileFacts(sha256="ab" * 32, picture=Size(1920, 1080))
    )


def add_rows(checksum: Any, database: Database) -> None:
    """Add every row that was written to a checksum, but the time, the run and the numbers of objects."""
    for table in (predictions, objects):
        columns = [column for column in table.c if column.name not in ("id", "run_id", "created_at")]
        with database.read() as connection:
            checksum.update(repr(sorted(map(repr, connection.execute(select(*columns))))).encode())


def render(rounds: list[dict[str, dict[str, Any]]]) -> list[str]:
    """Return lines of the medians of the rounds; ratios are taken within a round."""
    lines = []
    version = rounds[0]["now"]["version"]
    for each in OBJECTS_PER_IMAGE:
        sides = {side: [one[side]["rates"][str(each)] for one in rounds] for side in rounds[0]}
        rates = {side: [statistics.median(column) for column in zip(*values, strict=True)]
                 for side, values in sides.items()}  # fmt: skip
        cells = [version, str(each), _rows(rates["now"], each), f"{rates['now'][0]:,.0f}"]
        if "before" in sides:
            ratios = [[new / old for new, old in zip(*both, strict=True)]
                      for both in zip(sides["now"], sides["before"], strict=True)]  # fmt: skip
            middle = [statistics.median(column) for column in zip(*ratios, strict=True)]
            cells += [_rows(rates["before"], each), " · ".join(f"{one:.2f}" for one in middle)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _rows(rates: list[float], each: int) -> str:
    return " · ".join(f"{rate * each:,.0f}" for rate in rates) if each else ""


def describe_load() -> str:
    return f"load of the machine at the end, this program included: {os.getloadavg()[0]:.1f}"


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--num-images", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=list(OPENERS), default=["sqlite", "postgres", "mariadb"])
    parser.add_argument("--before", type=Path, metavar="DIR", help="a checkout with this script to compare with")
    parser.add_argument("--save", action="store_true", help="write results/<date>-object-rows.md")
    parser.add_argument("--measure", choices=list(OPENERS), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
