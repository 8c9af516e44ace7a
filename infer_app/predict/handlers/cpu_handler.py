"""The handler of the `cpu` executor, which takes a chunk from reading to predictions in one process."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from itertools import count

import numpy as np

from infer_app.artifact.artifact import Artifact
from infer_app.base.domain import Broken, Chunk, ChunkResult, FoundObject, Objects, Prediction, Sample
from infer_app.base.telemetry.stage_clock import StageClock
from infer_app.predict.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.predict.handlers.loader import Loader
from infer_app.predict.handlers.predictor import LoadedModel, Networks, result_of
from infer_app.predict.handlers.second_networks import SecondNetworks, stored_objects
from infer_app.predict.runtimes.fixed_batch import AdaptiveBatch
from infer_app.predict.runtimes.open_variant import open_variant
from infer_app.predict.verification.outputs import open_decoder
from infer_app.predict.workers.heartbeat import Heartbeat


class CpuHandler:
    """Processes each chunk to completion in one process, so that pixels stay in the cache of one core."""

    def __init__(self, loader: Loader, models: Sequence[LoadedModel], spec: HandlerSpec) -> None:
        self._loader = loader
        self._detector = spec.detector
        firsts = [model for model in models if model.model_index not in spec.second_networks]
        self._networks = Networks(firsts, spec.detector, spec.second_networks)
        self._second_networks = SecondNetworks(
            [model for model in models if model.model_index in spec.second_networks], loader
        )
        batch_size = max((model.batch_size for model in firsts), default=1)
        self._buffer = np.empty((batch_size, *loader.recipe.size.shape), np.uint8)

    @classmethod
    def open(cls, spec: HandlerSpec, is_first: bool = True) -> CpuHandler:
        """Open a handler and verify it on the golden images, which also warms it up. Raises ModelError."""
        artifacts = [model.open() for model in spec.models]
        models = [
            _open_model(number, model, artifact, spec.num_threads)
            for number, (model, artifact) in enumerate(zip(spec.models, artifacts, strict=True))
            if number not in spec.idle
        ]
        loader = Loader(spec, artifacts[0])
        handler = cls(loader, models, spec)
        for model in models:
            is_second = model.model_index in spec.second_networks
            load_pixels = handler._second_networks.pixels_of(model.model_index) if is_second else loader.pixels
            model.verify_golden(load_pixels, is_first=is_first)
        if torch := sys.modules.get("torch"):  # which a function of the user's own may have loaded
            torch.set_num_threads(spec.num_threads)
        return handler

    def process(self, chunk: Chunk, heartbeat: Heartbeat) -> ChunkResult:
        """Return every ref of the chunk as a prediction or as broken; a broken image never affects the others."""
        clock = StageClock()
        takes_pictures, takes_objects = self._networks.depending(chunk), bool(self._second_networks.wanted(chunk))
        self._loader.begin(chunk, takes_pictures, keeps_pictures=takes_objects)
        at_once = len(self._buffer) if takes_pictures else 1  # objects are cut out while a picture is in the cache
        results: list[Prediction | Broken] = []
        first = 0
        while first < len(chunk.refs):
            refs = chunk.refs[first : first + at_once]
            batch = self._loader.load(refs, first, self._buffer, heartbeat, clock)
            found = list(self._networks.predict(batch, chunk, first, heartbeat, clock))
            results += batch.broken
            results += found
            if takes_objects:
                objects = self._objects_of(batch.samples, chunk, found)
                for sample, of_sample in zip(batch.samples, objects, strict=True):
                    self._second_networks.add(chunk, sample, of_sample, heartbeat, clock)
            first += len(batch.samples) + len(batch.broken)
        results += self._second_networks.finish(chunk, heartbeat, clock)
        self._loader.learn(clock)
        return result_of(chunk, results, clock)

    def _objects_of(
        self, samples: Sequence[Sample], chunk: Chunk, found: Sequence[Prediction | Broken]
    ) -> list[Objects | Broken]:
        """Return the objects of each image, those just found or those stored; or why there are none."""
        if self._detector not in chunk.model_indices:
            return [stored_objects(sample, chunk.objects[sample.ref]) for sample in samples]
        results = {one.ref: one for one in found if one.model_index == self._detector}
        in_order = [results[sample.ref] for sample in samples]
        return [
            one if isinstance(one, Broken) else tuple(map(FoundObject, count(), one.output.objects or ()))
            for one in in_order
        ]

    def copy_slot(self, chunk: Chunk) -> bool:
        return False

    def prefetch(self, chunk: Chunk) -> None:
        self._loader.prefetch(chunk)


def _open_model(model_index: int, spec: ModelSpec, artifact: Artifact, num_threads: int) -> LoadedModel:
    open_batch = partial(open_variant, artifact, spec.variant, num_threads=num_threads)
    model = open_batch(spec.batch_size)
    predict = AdaptiveBatch(open_batch, model.batch_size, model)
    return LoadedModel(model_index, artifact, spec.variant, model.batch_size, predict, open_decoder(artifact))
