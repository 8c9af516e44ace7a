"""The `cpu` executor: supervised processes that each run their chunks to completion, by default one for each core."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from infer_app.domain import Chunk, ChunkResult
from infer_app.handlers.handler_spec import HandlerSpec
from infer_app.machine import usable_cores
from infer_app.workers.pool import WorkerPool


class CpuExecutor:
    """Chunks in, results out in any order. Processes start with the first chunk and end with the `with`."""

    name = "cpu"
    device = "cpu"
    device_stages: frozenset[str] = frozenset()
    chunk_size = None

    def __init__(self, handler: HandlerSpec, num_workers: int, timeout_s: float) -> None:
        """`num_workers` 0: one for each core. Each runs `handler.num_threads` threads."""
        self.handler = handler
        self.num_cores = usable_cores()
        self.num_workers = self.num_predictors = num_workers or self.num_cores
        self.num_threads = handler.num_threads
        self._workers = WorkerPool(handler.open, self.num_workers, timeout_s)

    def run(self, chunks: Iterable[Chunk]) -> Iterator[ChunkResult]:
        return self._workers.run(chunks)

    def worker_pids(self) -> list[int]:
        return self._workers.pids()

    def close(self) -> None:
        """Ends the workers; the next run starts others."""
        self._workers.close()

    def __enter__(self) -> CpuExecutor:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
