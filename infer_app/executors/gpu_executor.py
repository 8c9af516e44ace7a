"""The `cuda` executor: processes decode into slots of a ring, one process copies them to the device and predicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from infer_app.domain import Chunk, ChunkResult
from infer_app.handlers.handler_spec import DeviceSpec, HandlerSpec, LoaderSpec
from infer_app.machine import usable_cores
from infer_app.workers.ring_pool import RingPool, slots_for
from infer_app.workers.shared_ring import Ring


class CudaExecutor:
    """Chunks in, results out in any order. Processes start with the first chunk and end with the `with`.

    On the device `cpu` it is the same, with plain copies and the model on a core.
    """

    name = "cuda"
    num_predictors = 1  # processes that predictions come from
    device_stages = frozenset({"gpu-decode", "model", "outputs"})  # one after the other; copies go on beside them

    def __init__(
        self, handler: HandlerSpec, num_workers: int, timeout_s: float, batch_size: int, size: int, device: str = "cuda"
    ) -> None:
        """A chunk has at most `batch_size` images, of (size, size, 3). `num_workers` 0: a loader for each core."""
        self.handler = handler
        self.device = device
        self.num_cores = usable_cores()
        self.num_workers = num_workers or self.num_cores
        self.num_threads = handler.num_threads
        self._ring = Ring(slots_for(self.num_workers), batch_size, size)
        self._workers = RingPool(
            self._ring,
            LoaderSpec(handler, self._ring).open,
            self.num_workers,
            DeviceSpec(handler, self._ring, device).open,
            timeout_s,
        )

    @property
    def chunk_size(self) -> int:
        """A chunk is a slot is a batch."""
        return self._ring.batch_size

    def run(self, chunks: Iterable[Chunk]) -> Iterator[ChunkResult]:
        return self._workers.run(chunks)

    def worker_pids(self) -> list[int]:
        return self._workers.pids()

    def close(self) -> None:
        """Ends the processes; the next run starts others."""
        self._workers.close()

    def __enter__(self) -> CudaExecutor:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
        self._ring.close()
