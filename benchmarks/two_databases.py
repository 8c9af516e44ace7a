"""Measure selecting and counting a day's new images if another database lists them, for pairs of databases.

Half of the day is predicted. Each pair is compared with one database alone, of the results' kind. The servers are
private ones on this machine: over a network each page of 5,000 ids would take two round trips more.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from contextlib import ExitStack
from datetime import date, datetime, timedelta
from itertools import islice
from pathlib import Path

from database import OPENERS
from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from infer_app.base.day import Day
from infer_app.base.domain import ChunkResult, ImageFile, Output, Prediction
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.cross_database_source import PAGE_SIZE, CrossDatabaseSource
from infer_app.tables.listing.image_registry import DatedImage, register
from infer_app.tables.listing.source import Source
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.migrate import upgrade
from infer_app.tables.results.runs import RunModel, RunStore
from infer_app.tables.results.sink import Sink
from infer_app.tables.results.sources import RunSource, record_source

DAY = Day.of(date(2026, 11, 20), "UTC")
MODEL = RunModel("stub", "0123456789abcdef", "cpu-torchscript", {})
AT_ONCE = 10_000
PAIRS = ("sqlite-postgres", "postgres-sqlite", "sqlite-mariadb", "mariadb-sqlite")


def main() -> None:
    flags = read_flags()
    print(f"| {flags.num_images:,} images | new selected, µs per image | first page, ms | day counted, s | peak MiB |")
    print("|---|---:|---:|---:|---:|")
    for pair in flags.pairs:
        kinds = pair.split("-")
        with ExitStack() as stack:
            listing, results = (stack.enter_context(OPENERS[kind]()) for kind in kinds)
            for database in (listing, results):
                upgrade(database)
                fill_images(database, flags.num_images)
            settings = SourceSettings()
            reader = stack.enter_context(Database(listing.url, read_only=True))
            report(f"{kinds[0]}, results in {kinds[1]}", CrossDatabaseSource(reader, settings, results))
            report(f"{kinds[1]} alone", Source(results, settings))
    machine = describe_machine()
    print(f"\n{machine['processor']}, {machine['cores']} cores; pages of {PAGE_SIZE:,} ids; {date.today().isoformat()}")


def fill_images(database: Database, num_images: int) -> None:
    """Register images, spread over the day."""
    at, step = datetime(2026, 11, 20), timedelta(days=1) / num_images
    files = (ImageFile(f"/srv/photos/2026/{number:09}.jpg") for number in range(num_images))
    for _ in register(
        database, files, lambda new: [DatedImage(one, at + int(one.location[-13:-4]) * step) for one in new]
    ):
        pass


def predict_half(source: Source) -> None:
    number = record_source(source.results, source.identity)
    run_id = RunStore(source.results).open_run(DAY, MODEL, source_id=number)
    sink = Sink(source.results, MODEL.model_id, MODEL.variant, run_id, source=RunSource(number))
    half = iter(list(source.select_new(DAY, MODEL.model_id))[::2])
    while some := list(islice(half, AT_ONCE)):
        sink.commit_chunk(ChunkResult(0, tuple(Prediction(ref, Output("cat", 0.5)) for ref in some), ()))
    RunStore(source.results).fail_run(run_id, 1, "")


def report(name: str, source: Source) -> None:
    predict_half(source)
    start, first, found = time.perf_counter(), 0.0, 0
    for page in source.select_pages(DAY, MODEL.model_id):
        first = first or time.perf_counter() - start
        found += len(page)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    counts = ListedImages(source.results, source).count_day(DAY, MODEL.model_id)
    counting = time.perf_counter() - start
    assert found == counts.pending
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    figures = (f"{1e6 * seconds / counts.eligible:.1f}", f"{1e3 * first:.0f}", f"{counting:.1f}", str(peak))
    print(f"| {name} | {' | '.join(figures)} |", flush=True)


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--num-images", type=int, default=100_000)
    parser.add_argument("--pairs", nargs="+", choices=PAIRS, default=PAIRS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
