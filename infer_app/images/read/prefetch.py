"""Fetches remote images before their turn, several at a time: a worker that read one after another would only wait.

Images are taken in the order in which they were expected. At most so many are fetched or held as two for each thread,
and no new one is begun while HELD_BYTES wait to be taken.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from infer_app.domain import Chunk, ImageRef
from infer_app.images.read.bad_image import ImageBytes
from infer_app.images.read.read_image import ReadLimits
from infer_app.images.read.remote import read_remote
from infer_app.locations import is_remote

HELD_BYTES = 64 << 20
KNOWN_CHUNKS = 4  # more than a worker can have at a time


class Prefetch:
    """`expect` and `read` may be called from different threads. Threads are started when something is to be read."""

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._pool = ThreadPoolExecutor(limits.remote.concurrency, "prefetch")
        self._lock = threading.Lock()
        self._waiting: deque[ImageRef] = deque()
        self._begun: dict[ImageRef, Future[ImageBytes]] = {}
        self._known: deque[Chunk] = deque(maxlen=KNOWN_CHUNKS)

    def expect(self, chunk: Chunk) -> None:
        """Its images are to be read after those of the chunks before. Told twice of a chunk it does nothing."""
        with self._lock:
            if any(chunk is known for known in self._known):
                return
            self._known.append(chunk)
            self._waiting.extend(ref for ref in chunk.refs if is_remote(ref.location))
            self._begin_more()

    def read(self, ref: ImageRef) -> ImageBytes:
        """Waits for an image; one that nobody expected is read all the same. Raises BadImage."""
        with self._lock:
            if ref not in self._begun:
                with suppress(ValueError):
                    self._waiting.remove(ref)
                self._begin(ref)
            future = self._begun[ref]
        try:
            return future.result()
        finally:
            with self._lock:
                del self._begun[ref]
                self._begin_more()

    def _begin_more(self) -> None:
        limit = 2 * self._limits.remote.concurrency
        while self._waiting and len(self._begun) < limit and self._held_bytes() < HELD_BYTES:
            self._begin(self._waiting.popleft())

    def _begin(self, ref: ImageRef) -> None:
        self._begun[ref] = self._pool.submit(read_remote, ref.location, self._limits.max_bytes, self._limits.remote)

    def _held_bytes(self) -> int:
        fetched = (future for future in self._begun.values() if future.done() and future.exception() is None)
        return sum(len(future.result().data) for future in fetched)
