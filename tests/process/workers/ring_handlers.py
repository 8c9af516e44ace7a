"""A loader and a device whose pixels say which image they are of, with the accidents of toy_handlers."""

from __future__ import annotations

import random
import resource
import time
import zlib
from dataclasses import dataclass, replace

import numpy as np

from infer_app.domain import Broken, Chunk, ChunkResult, Loaded, Output, Prediction, Reason
from infer_app.workers.heartbeat import Heartbeat
from infer_app.workers.shared_ring import Ring
from tests.process.workers.toy_handlers import FACTS, happen


@dataclass
class ToyLoader:
    """Fills a row with four bytes of its image's id, over and over; a location `broken` takes no row."""

    ring: Ring
    delay_s: float = 0.0

    def __call__(self) -> ToyLoader:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        return self

    def copy_slot(self, chunk: Chunk) -> bool:
        return False

    def prefetch(self, chunk: Chunk) -> None:
        pass

    def process(self, chunk: Chunk, heartbeat: Heartbeat) -> Loaded:
        rows = self.ring.pixels[chunk.slot].reshape(self.ring.batch_size, -1, 4)
        good = []
        for position, ref in enumerate(chunk.refs):
            heartbeat.record(position, "decode", FACTS)
            time.sleep(random.uniform(0, self.delay_s))
            happen(ref.location, "decode")
            if ref.location != "broken":
                rows[len(good)] = np.frombuffer(code(ref.image_id), np.uint8)
                good.append(ref)
        broken = tuple(Broken(ref, Reason.CORRUPT, "", "decode", FACTS) for ref in chunk.refs if ref not in good)
        result = ChunkResult(chunk.number, (), broken, num_loaded=len(good))
        return Loaded(replace(chunk, refs=tuple(good), files=(FACTS,) * len(good)), result)


@dataclass
class ToyDevice:
    """A prediction's label is what its row says; a slot that is taken is copied first, as a device does."""

    ring: Ring
    delay_s: float = 0.0

    def __call__(self) -> ToyDevice:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self.copies: dict[int, np.ndarray] = {}
        return self

    def copy_slot(self, chunk: Chunk) -> bool:
        self.copies[id(chunk)] = self.copy(chunk)
        return True

    def prefetch(self, chunk: Chunk) -> None:
        pass

    def copy(self, chunk: Chunk) -> np.ndarray:
        time.sleep(random.uniform(0, self.delay_s))
        return self.ring.pixels[chunk.slot][: len(chunk.refs)].copy()

    def process(self, chunk: Chunk, heartbeat: Heartbeat) -> ChunkResult:
        heartbeat.record(0, "model")
        rows = self.copies.pop(id(chunk)) if id(chunk) in self.copies else self.copy(chunk)
        time.sleep(random.uniform(0, self.delay_s))
        for ref in chunk.refs:
            happen(ref.location, "model")
        labels = [bytes(row.ravel()[:4]).hex() for row in rows]
        assert all((row.reshape(-1, 4) == row.ravel()[:4]).all() for row in rows)  # no row of two images
        predictions = tuple(
            Prediction(ref, Output(label), file)
            for ref, label, file in zip(chunk.refs, labels, chunk.files, strict=True)
        )
        return ChunkResult(chunk.number, predictions, ())


def code(image_id: str) -> bytes:
    return zlib.crc32(image_id.encode()).to_bytes(4, "big")
