"""The `cpu` executor: one supervised process per core, each running its chunks to completion with one thread."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from infer_app.executors.spec import LaneSpec
from infer_app.loading.workers import Workers
from infer_app.records import Chunk, ChunkResult


class CpuExecutor:
    """Chunks in, results out in any order. Processes start with the first chunk and end with the `with`."""

    name = "cpu"
    device = "cpu"

    def __init__(self, lane: LaneSpec, num_workers: int, timeout_s: float) -> None:
        self.num_cores = num_workers or available_cores()
        self._workers = Workers(lane.open, self.num_cores, timeout_s)

    def run(self, chunks: Iterable[Chunk]) -> Iterator[ChunkResult]:
        return self._workers.run(chunks)

    def __enter__(self) -> CpuExecutor:
        self._workers.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._workers.__exit__(*exception)


def available_cores() -> int:
    """Cores this process may run on: affinity counts, the machine's size doesn't."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
