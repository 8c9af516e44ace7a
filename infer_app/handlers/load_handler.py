"""The handler of a loader in the `cuda` executor, which fills the slots of the ring. It loads no torch."""

from __future__ import annotations

import os
from dataclasses import replace

from infer_app.domain import Chunk, ChunkResult, Loaded
from infer_app.handlers.handler_spec import HandlerSpec
from infer_app.handlers.loader import Loader
from infer_app.telemetry.stage_clock import StageClock
from infer_app.workers.heartbeat import Heartbeat
from infer_app.workers.shared_ring import Ring


class LoadHandler:
    """Decodes the images of a chunk into its slot."""

    def __init__(self, loader: Loader, ring: Ring, is_traced: bool = False) -> None:
        self._loader = loader
        self._ring = ring
        self._slots = ring.pixels
        self._is_traced = is_traced

    @classmethod
    def open(cls, spec: HandlerSpec, ring: Ring) -> LoadHandler:
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # of torch, if a preprocess function of the user's own loads it
        return cls(Loader(spec, spec.models[0].open()), ring, spec.trace)

    def process(self, chunk: Chunk, heartbeat: Heartbeat) -> Loaded:
        assert chunk.slot is not None
        clock = StageClock(self._is_traced)
        self._loader.begin(chunk, chunk.model_indices)
        batch = self._loader.load(chunk.refs, 0, self._slots[chunk.slot], heartbeat, clock)
        self._loader.learn(clock)
        result = ChunkResult(chunk.number, (), batch.broken, chunk.model_indices, num_loaded=len(batch.samples))
        good = replace(
            chunk,
            refs=tuple(sample.ref for sample in batch.samples),
            files=tuple(sample.file for sample in batch.samples),
        )
        return Loaded(good, clock.stamp(result))

    def copy_slot(self, chunk: Chunk) -> bool:
        return False

    def prefetch(self, chunk: Chunk) -> None:
        self._loader.prefetch(chunk)
