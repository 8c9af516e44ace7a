"""Measure everything of a run except its images: a day of a million rows, predicted by a stub.

Selection, chunking, outage detection, commits and counts are the program's own; passing chunks to processes is not
included. The rate of a run on real images divided by this rate is the share of one core that its coordinator uses.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from infer_app.base.day import Day
from infer_app.base.domain import Chunk, ChunkResult, FileFacts, Output, Prediction
from infer_app.base.read_limits import ReadLimits
from infer_app.base.settings.load import load_settings
from infer_app.base.settings.sections import SourceSettings
from infer_app.base.telemetry.display import Display, Progress
from infer_app.predict.executors import Executor
from infer_app.predict.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.run.flow.run_plan import RunPlan
from infer_app.run.group_run import GroupRun
from infer_app.run.run_day import run_day
from infer_app.run.stop import Stop
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.image_registry import add_objects
from infer_app.tables.listing.source import Source
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.results.migrate import upgrade
from infer_app.tables.results.runs import RunModel

RESULTS = Path(__file__).resolve().parent / "results"
DAY = Day.of(date(2026, 11, 20), "UTC")
MODEL = RunModel("stub", "0123456789abcdef", "cpu-torchscript", {})
TOP5 = json.dumps({"top": [{"label": f"a label of the usual length {n}", "score": 0.5 / n} for n in range(1, 6)]})
MIB = 1 << 20


class StubPool:
    """A pool that predicts immediately and samples the memory of the process."""

    def __init__(self, num_images: int) -> None:
        self._marks = [num_images * tenth // 10 for tenth in range(1, 11)]
        self.memory: list[int] = []
        self.first_result_at: float | None = None

    def run(self, chunks: Iterable[Chunk]) -> Iterator[ChunkResult]:
        done = 0
        for chunk in chunks:
            output = Output("tabby cat", 0.5, TOP5)
            file = FileFacts(sha256="ab" * 32)
            yield ChunkResult(chunk.number, tuple(Prediction(ref, output, file) for ref in chunk.refs), ())
            self.first_result_at = self.first_result_at or time.perf_counter()
            done += len(chunk.refs)
            while self._marks and done >= self._marks[0]:
                self.memory.append(resident_bytes())
                self._marks.pop(0)


def main() -> None:
    flags = read_flags()
    with tempfile.TemporaryDirectory(prefix="infer-bench-") as folder, Database(f"sqlite:///{folder}/b.db") as database:
        upgrade(database)
        locations = ((f"/photos/{number:08}.jpg", None) for number in range(flags.num_images))
        add_objects(database, locations, datetime(2026, 11, 20, 12))
        config = Path(folder, "infer.toml")
        config.write_text('[database]\nurl = "sqlite:///b.db"\n')
        figures = measure(database, config, flags.num_images, flags.chunk_size)
    print(json.dumps(figures, indent=2))
    if flags.save:
        file = RESULTS / f"{date.today().isoformat()}-coordinator.json"
        file.write_text(json.dumps({"machine": describe_machine(), **figures}, indent=2) + "\n")


def measure(database: Database, config: Path, num_images: int, chunk_size: int) -> dict[str, Any]:
    pool = StubPool(num_images)
    spec = ModelSpec(config.parent, MODEL.variant, MODEL.model_id, {})  # which nothing opens
    handler = HandlerSpec((spec,), ReadLimits((), 0), 0, num_threads=1)
    executor = Executor("stub", "cpu", handler, pool, num_cores=1, num_workers=1)  # type: ignore[arg-type]
    source = Source(database, SourceSettings())
    project = ProjectDatabase(database, source)
    settings = {"images": {"roots": ["/photos"]}, "run": {"chunk_size": chunk_size, "max_rejected": "1%"}}
    loaded, plan = load_settings(config, settings), RunPlan((), (SimpleNamespace(is_idle=False),), (MODEL,))  # type: ignore[arg-type]
    executors = SimpleNamespace(open=lambda _: executor, end_workers=lambda: None)
    before, cpu, start = resident_bytes(), time.process_time(), time.perf_counter()
    with Stop() as stop:
        group = GroupRun(loaded, project, plan, executors, stop, Display(Progress(quiet=True)))  # type: ignore[arg-type]
        (report,) = run_day(group, DAY)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    assert report.day.predicted == num_images, report.day
    return {
        "images": num_images,
        "chunk_size": chunk_size,
        "images_per_second": round(num_images / seconds),
        "images_per_cpu_second": round(num_images / cpu),
        "first_chunk_committed_s": round((pool.first_result_at or start) - start, 3),
        "mib_before": round(before / MIB),
        "mib_at_each_tenth": [round(size / MIB) for size in pool.memory],
    }


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--num-images", type=int, default=1_000_000)
    parser.add_argument("--chunk-size", type=int, default=256)
    parser.add_argument("--save", action="store_true", help="write results/<date>-coordinator.json")
    return parser.parse_args()


if __name__ == "__main__":
    main()
