"""The executors that run chunks on this machine: `cpu`, with a model in each worker, and `cuda`, with one GPU.

Processes start with the first chunk and end with the `with` block. This module does not load torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Protocol

from infer_app.domain import Chunk, ChunkResult
from infer_app.handlers.handler_spec import HandlerSpec
from infer_app.handlers.open_handler import OpenCpuHandler, OpenLoadHandler, OpenPredictHandler
from infer_app.machine import usable_cores
from infer_app.workers.pool import Stage, WorkerPool, slots_for
from infer_app.workers.shared_ring import Ring


class Executor(Protocol):
    """Runs chunks in worker processes. The caller that opens it closes it; `run` may be called again after `close`."""

    name: str
    device: str
    device_stages: frozenset[str]  # stages that one process runs for all images
    handler: HandlerSpec
    num_threads: int  # of a worker's model

    @property
    def num_cores(self) -> int: ...

    @property
    def num_workers(self) -> int: ...

    @property
    def num_predictors(self) -> int:
        """Return the number of processes that predict."""

    @property
    def chunk_size(self) -> int | None:
        """Return the maximum number of images in a chunk, or None without a maximum."""

    def run(self, chunks: Iterable[Chunk]) -> Iterator[ChunkResult]:
        """Yield results in any order, with every ref of every chunk in exactly one of them."""

    def close(self) -> None:
        """End the processes; the next run starts others."""

    def __enter__(self) -> Executor: ...

    def __exit__(self, *exception: object) -> None: ...


class _LocalExecutor:
    """Runs chunks in a worker pool on this machine."""

    def __init__(self, handler: HandlerSpec, num_workers: int) -> None:
        self.handler = handler
        self.num_cores = usable_cores()
        self.num_workers = num_workers or self.num_cores
        self.num_threads = handler.num_threads
        self._closing = ExitStack()
        self._pool: WorkerPool

    def run(self, chunks: Iterable[Chunk]) -> Iterator[ChunkResult]:
        return self._pool.run(chunks)

    def worker_pids(self) -> list[int]:
        return self._pool.pids()

    def close(self) -> None:
        """End the processes; the next run starts others."""
        self._pool.close()

    def __exit__(self, *exception: object) -> None:
        self._closing.close()


class CpuExecutor(_LocalExecutor):
    """Workers that run their chunks to completion, by default one for each core."""

    name = "cpu"
    device = "cpu"
    device_stages: frozenset[str] = frozenset()
    chunk_size = None

    def __init__(self, handler: HandlerSpec, num_workers: int, timeout_s: float) -> None:
        """Make an executor; `num_workers` 0: one for each core. Each runs `handler.num_threads` threads."""
        super().__init__(handler, num_workers)
        self.num_predictors = self.num_workers
        self._pool = self._closing.enter_context(
            WorkerPool([Stage("predict", OpenCpuHandler(handler), self.num_workers)], timeout_s)
        )

    def __enter__(self) -> CpuExecutor:
        return self


class CudaExecutor(_LocalExecutor):
    """Loaders that decode into slots of a ring, and one process that copies the slots to the device and predicts.

    The device `cpu` works in the same way, with plain copies and the model on a core.
    """

    name = "cuda"
    num_predictors = 1
    device_stages = frozenset({"gpu-decode", "model", "outputs"})  # sequential; copies run in parallel

    def __init__(
        self, handler: HandlerSpec, num_workers: int, timeout_s: float, batch_size: int, size: int, device: str = "cuda"
    ) -> None:
        """Make an executor for chunks of at most `batch_size` images of (size, size, 3).

        `num_workers` 0: one loader for each core.
        """
        super().__init__(handler, num_workers)
        self.device = device
        self.chunk_size = batch_size  # a chunk fills one slot, which is one batch
        ring = self._closing.enter_context(Ring(slots_for(self.num_workers), batch_size, size))
        stages = [
            Stage("load", OpenLoadHandler(handler, ring), self.num_workers),
            Stage("predict", OpenPredictHandler(handler, ring, device), 1),
        ]
        self._pool = self._closing.enter_context(WorkerPool(stages, timeout_s, ring))

    def __enter__(self) -> CudaExecutor:
        return self
