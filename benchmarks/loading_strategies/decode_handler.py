"""Handle chunks as a run does, but only up to the model: decode their files into a buffer that is reused."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from infer_app.base.domain import Broken, Chunk, ChunkResult, ImageRef, Output, Prediction, Reason
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.workers.heartbeat import Heartbeat
from loading_strategies.workload import BATCH_SIZE, PixelReaders


@dataclass(frozen=True)
class OpenHandler:
    """A picklable function that opens the handler in a worker; `needs_pillow` also rejects what Pillow can't read."""

    readers: PixelReaders
    needs_pillow: bool = False

    def __call__(self) -> DecodeHandler:
        torch.set_num_threads(1)  # a process per core, as in a run
        return DecodeHandler(self.readers, self.needs_pillow)


class DecodeHandler:
    """A handler that returns an empty prediction for each file that it could load."""

    def __init__(self, readers: PixelReaders, needs_pillow: bool) -> None:
        self._readers = readers
        self._needs_pillow = needs_pillow
        self._buffer = np.empty((BATCH_SIZE, *readers.artifact.manifest.recipe.size.shape), np.uint8)

    def copy_slot(self, chunk: Chunk) -> bool:
        return False

    def prefetch(self, chunk: Chunk) -> None:
        pass

    def process(self, chunk: Chunk, heartbeat: Heartbeat) -> ChunkResult:
        results = []
        for position, ref in enumerate(chunk.refs):
            heartbeat.record(position, "decode")
            results.append(self._load(ref, position))
        good = tuple(result for result in results if isinstance(result, Prediction))
        return ChunkResult(chunk.number, good, tuple(result for result in results if isinstance(result, Broken)))

    def _load(self, ref: ImageRef, position: int) -> Prediction | Broken:
        try:
            self._buffer[position] = self._readers.with_turbo(ref.location)
            if self._needs_pillow:
                self._readers.with_pillow(ref.location)
        except BadImage as bad:
            return Broken(ref, bad.reason, bad.detail, "decode")
        except Exception as error:  # Pillow raises whatever the damage leads to
            return Broken(ref, Reason.CORRUPT, f"Pillow: {error}", "decode")
        return Prediction(ref, Output())
