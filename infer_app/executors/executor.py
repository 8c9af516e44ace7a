"""What a run asks of an executor: chunks in, results out in any order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from infer_app.domain import Chunk, ChunkResult
from infer_app.handlers.handler_spec import HandlerSpec


class Executor(Protocol):
    """Closed by whoever opened it; `run` may be called again after `close`."""

    name: str
    device: str
    device_stages: frozenset[str]  # those that one process does for all
    handler: HandlerSpec
    num_threads: int  # of a handler's model

    @property
    def num_cores(self) -> int: ...

    @property
    def num_workers(self) -> int: ...

    @property
    def num_predictors(self) -> int:
        """Processes that predictions come from."""

    @property
    def chunk_size(self) -> int | None:
        """Images of a chunk, at most; None where any number will do."""

    def run(self, chunks: Iterable[Chunk]) -> Iterator[ChunkResult]:
        """Every ref of every chunk is in exactly one result."""

    def close(self) -> None:
        """Ends the processes; the next run starts others."""

    def __enter__(self) -> Executor: ...

    def __exit__(self, *exception: object) -> None: ...
