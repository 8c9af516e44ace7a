"""One core's way of an image: read, decode, transform, collate, model, outputs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from infer_app.domain import Broken, Chunk, ChunkResult, Prediction
from infer_app.handlers.adaptive_batch import Halving
from infer_app.handlers.handler_spec import LaneSpec, ModelSpec
from infer_app.handlers.loader import Loader
from infer_app.handlers.predictor import LaneModel
from infer_app.models.artifact.artifact import open_artifact
from infer_app.models.runtimes.variants import open_variant
from infer_app.telemetry.stage_clock import StageClock
from infer_app.workers.heartbeat import Mark


class CpuLane:
    """Runs each chunk to completion in one process, so that pixels never leave the core they were made on."""

    def __init__(self, loader: Loader, models: Sequence[LaneModel], is_traced: bool = False) -> None:
        self._loader = loader
        self._models = tuple(models)
        self._is_traced = is_traced
        size, batch_size = loader.recipe.size, max(model.batch_size for model in models)
        self._buffer = torch.empty((batch_size, size, size, 3), dtype=torch.uint8)

    @classmethod
    def open(cls, spec: LaneSpec) -> CpuLane:
        """A lane that has proved itself on the golden images, which also warms it up. Raises ModelError."""
        torch.set_num_threads(spec.num_threads)
        models = [_open_model(number, model, spec.num_threads) for number, model in enumerate(spec.models)]
        lane = cls(Loader(spec, models[0].artifact), models, spec.trace)
        lane.prove()
        return lane

    def prove(self) -> None:
        """The golden images through this very lane. Raises ModelError when they differ."""
        for model in self._models:
            model.prove(self._loader.pixels)

    def process(self, chunk: Chunk, mark: Mark) -> ChunkResult:
        """Every ref of the chunk as a prediction or as broken; what was broken never affects its neighbours."""
        clock = StageClock(self._is_traced)
        self._loader.begin(chunk)
        predictions: list[Prediction] = []
        broken: list[Broken] = []
        for first in range(0, len(chunk.refs), len(self._buffer)):
            refs = chunk.refs[first : first + len(self._buffer)]
            batch = self._loader.load(refs, first, self._buffer, mark, clock)
            broken += batch.broken
            for model in (self._models[number] for number in chunk.models):
                for part in model.batches(batch):
                    mark.hold(first, "model")
                    for result in model.infer(part, clock):
                        (predictions if isinstance(result, Prediction) else broken).append(result)  # type: ignore[arg-type]
        self._loader.learn(clock)
        return clock.stamp(ChunkResult(chunk.number, tuple(predictions), tuple(broken), chunk.models))

    def take(self, chunk: Chunk) -> bool:
        return False

    def expect(self, chunk: Chunk) -> None:
        self._loader.expect(chunk)


def _open_model(number: int, spec: ModelSpec, num_threads: int) -> LaneModel:
    artifact = open_artifact(spec.artifact)
    open_batch = partial(open_variant, artifact, spec.variant, num_threads=num_threads)
    model = open_batch(spec.batch_size)
    predict = Halving(open_batch, model.batch_size, model)
    return LaneModel(number, artifact, spec.variant, model.batch_size, predict)
