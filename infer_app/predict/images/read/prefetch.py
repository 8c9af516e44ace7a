"""Prefetch remote images, several at a time: a worker that reads one after another spends its time waiting.

Images are read in the order in which they were expected. At most two for each thread are being fetched or held, and
none is started while so many bytes are held.
"""

import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from infer_app.base.domain import Chunk, ImageRef
from infer_app.base.locations import is_remote
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.read.bad_image import ImageBytes
from infer_app.predict.images.read.remote import CheckAnswer, read_remote

HELD_BYTES = 64 << 20
KNOWN_CHUNKS = 4  # more than a worker has at a time


class Prefetch:
    """A prefetcher whose methods may be called from different threads; it starts its own with the first read."""

    def __init__(self, limits: ReadLimits, check: CheckAnswer = lambda _: None, most_bytes: int = HELD_BYTES) -> None:
        self._limits, self._check, self._most_bytes = limits, check, most_bytes
        self._pool = ThreadPoolExecutor(limits.remote.concurrency, "prefetch")
        self._lock = threading.Lock()
        self._waiting: deque[ImageRef] = deque()
        self._started: dict[ImageRef, Future[ImageBytes]] = {}
        self._known: deque[Chunk] = deque(maxlen=KNOWN_CHUNKS)

    def expect(self, chunk: Chunk) -> None:
        """Queue the images of a chunk behind those of earlier chunks. Does nothing for a chunk that is known."""
        with self._lock:
            if any(chunk is known for known in self._known):
                return
            self._known.append(chunk)
            self._waiting.extend(ref for ref in chunk.refs if is_remote(ref.location))
            self._start_more()

    def read(self, ref: ImageRef) -> ImageBytes:
        """Return an image, after fetching it now if it was not expected. Raises BadImage."""
        with self._lock:
            if ref not in self._started:
                with suppress(ValueError):
                    self._waiting.remove(ref)
                self._start(ref)
            future = self._started[ref]
        try:
            return future.result()
        finally:
            with self._lock:
                del self._started[ref]
                self._start_more()

    def _start_more(self) -> None:
        limit = 2 * self._limits.remote.concurrency
        while self._waiting and len(self._started) < limit and self._held_bytes() < self._most_bytes:
            self._start(self._waiting.popleft())

    def _start(self, ref: ImageRef) -> None:
        limits = self._limits
        self._started[ref] = self._pool.submit(read_remote, ref.location, limits.max_bytes, limits.remote, self._check)

    def _held_bytes(self) -> int:
        fetched = (future for future in self._started.values() if future.done() and future.exception() is None)
        return sum(len(future.result().data) for future in fetched)
