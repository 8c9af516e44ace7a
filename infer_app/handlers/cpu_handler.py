"""The handler of the `cpu` executor, which takes a chunk from reading to predictions in one process."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

import numpy as np

from infer_app.domain import Broken, Chunk, ChunkResult, Prediction
from infer_app.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.handlers.loader import Loader
from infer_app.handlers.predictor import LoadedModel, Networks, result_of
from infer_app.models.runtimes.fixed_batch import AdaptiveBatch
from infer_app.models.runtimes.open_variant import open_variant
from infer_app.models.verification.outputs import OutputDecoder
from infer_app.telemetry.stage_clock import StageClock
from infer_app.workers.heartbeat import Heartbeat


class CpuHandler:
    """Processes each chunk to completion in one process, so that pixels stay in the cache of one core."""

    def __init__(self, loader: Loader, models: Sequence[LoadedModel], is_traced: bool = False) -> None:
        self._loader = loader
        self._networks = Networks(models)
        self._is_traced = is_traced
        batch_size = max(model.batch_size for model in models)
        self._buffer = np.empty((batch_size, *loader.recipe.size.shape), np.uint8)

    @classmethod
    def open(cls, spec: HandlerSpec) -> CpuHandler:
        """Open a handler and verify it on the golden images, which also warms it up. Raises ModelError."""
        models = [_open_model(model_index, model, spec.num_threads) for model_index, model in enumerate(spec.models)]
        loader = Loader(spec, models[0].artifact)
        for model in models:
            model.verify_golden(loader.pixels)
        if torch := sys.modules.get("torch"):  # which a preprocess function or a head of the user's own may have loaded
            torch.set_num_threads(spec.num_threads)
        return cls(loader, models, spec.trace)

    def process(self, chunk: Chunk, heartbeat: Heartbeat) -> ChunkResult:
        """Return every ref of the chunk as a prediction or as broken; a broken image never affects the others."""
        clock = StageClock(self._is_traced)
        self._loader.begin(chunk)
        results: list[Prediction | Broken] = []
        for first in range(0, len(chunk.refs), len(self._buffer)):
            refs = chunk.refs[first : first + len(self._buffer)]
            batch = self._loader.load(refs, first, self._buffer, heartbeat, clock)
            results += batch.broken
            results += self._networks.predict(batch, chunk, first, heartbeat, clock)
        self._loader.learn(clock)
        return result_of(chunk, results, clock)

    def copy_slot(self, chunk: Chunk) -> bool:
        return False

    def prefetch(self, chunk: Chunk) -> None:
        self._loader.prefetch(chunk)


def _open_model(model_index: int, spec: ModelSpec, num_threads: int) -> LoadedModel:
    artifact = spec.open()
    open_batch = partial(open_variant, artifact, spec.variant, num_threads=num_threads)
    model = open_batch(spec.batch_size)
    predict = AdaptiveBatch(open_batch, model.batch_size, model)
    return LoadedModel(model_index, artifact, spec.variant, model.batch_size, predict, OutputDecoder(artifact))
