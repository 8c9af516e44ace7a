"""One core's way of an image: read, decode, transform, collate, model, outputs. The same code in every executor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from infer_app.executors.spec import LaneSpec, ModelSpec
from infer_app.images.bad_image import BadImage
from infer_app.images.cache import PixelCache
from infer_app.images.cachekey import CacheKey
from infer_app.images.collate import collate
from infer_app.images.decode import DecodeLimits, decode_image, decoder_name
from infer_app.images.location import ReadLimits, read_ahead, read_image
from infer_app.images.transform import transform
from infer_app.loading.mark import Mark
from infer_app.models.artifact import Artifact, open_artifact
from infer_app.models.fixed_batch import FixedBatch
from infer_app.models.golden import check_golden
from infer_app.models.manifest import PREPROCESS_FILE
from infer_app.models.outputs import decode_outputs
from infer_app.models.variants import open_variant
from infer_app.observe.stages import StageClock
from infer_app.records import Batch, Broken, Chunk, ChunkResult, FileFacts, ImageRef, Prediction, Reason, Sample

WORTHWHILE_WAIT = 0.02  # of a chunk's time, spent waiting for its files


@dataclass(frozen=True, slots=True)
class LaneModel:
    """One model, open and ready to predict."""

    number: int  # its place in the lane
    artifact: Artifact
    variant: str
    predict: FixedBatch

    @classmethod
    def open(cls, number: int, spec: ModelSpec, num_threads: int) -> LaneModel:
        artifact = open_artifact(spec.artifact)
        return cls(number, artifact, spec.variant, open_variant(artifact, spec.variant, spec.batch_size, num_threads))


class CpuLane:
    """Runs each chunk to completion in one process, so that pixels never leave the core they were made on."""

    def __init__(self, spec: LaneSpec, models: Sequence[LaneModel]) -> None:
        self._models = tuple(models)
        self._recipe = models[0].artifact.manifest.recipe
        self._preprocess = models[0].artifact.preprocess()
        self._read_limits = ReadLimits(spec.roots, spec.max_bytes)
        self._decode_limits = DecodeLimits(spec.max_pixels)
        self._trace = spec.trace
        self._reads_wait = False  # from the first time on that they did: files in memory need no reading ahead
        self._cache = self._open_cache(spec)
        batch_size = max(model.predict.batch_size for model in models)
        self._buffer = torch.empty((batch_size, self._recipe.size, self._recipe.size, 3), dtype=torch.uint8)

    @classmethod
    def open(cls, spec: LaneSpec) -> CpuLane:
        """A lane that has proved itself on the golden images, which also warms it up. Raises ModelError."""
        torch.set_num_threads(spec.num_threads)
        lane = cls(spec, [LaneModel.open(i, model, spec.num_threads) for i, model in enumerate(spec.models)])
        lane.prove()
        return lane

    def prove(self) -> None:
        """The golden images through this very lane, from bytes to row. Raises ModelError when they differ."""
        for model in self._models:
            check_golden(model.artifact, self._load_pixels, model.predict, model.variant, model.predict.batch_size)

    def process(self, chunk: Chunk, mark: Mark) -> ChunkResult:
        """Every ref of the chunk as a prediction or as broken; what was broken never affects its neighbours."""
        clock = StageClock(self._trace)
        predictions: list[Prediction] = []
        broken: list[Broken] = []
        batch_size = len(self._buffer)
        for first in range(0, len(chunk.refs), batch_size):
            refs = chunk.refs[first : first + batch_size]
            samples = [self._load(ref, first + i, mark, clock) for i, ref in enumerate(refs)]
            clock.refs = refs
            with clock.time("collate"):
                batch = collate(samples, self._buffer)
            broken += batch.broken
            for part, model in self._parts(batch, chunk.models):
                mark.hold(first, "model")
                for result in _infer(model, part, clock):
                    (predictions if isinstance(result, Prediction) else broken).append(result)  # type: ignore[arg-type]
        self._reads_wait |= clock.wait_seconds["read"] > WORTHWHILE_WAIT * sum(clock.wall_seconds.values())
        return clock.stamp(ChunkResult(chunk.number, tuple(predictions), tuple(broken), chunk.models))

    def expect(self, chunk: Chunk) -> None:
        """Has the kernel read the files of a chunk while another one is decoded and predicted, where reading waits."""
        for ref in chunk.refs if self._reads_wait else ():
            read_ahead(ref.location, self._read_limits)

    def _parts(self, batch: Batch, models: Sequence[int]) -> Iterator[tuple[Batch, LaneModel]]:
        """What each model is given at a time; models may differ in how many images they take."""
        for model in (self._models[number] for number in models):
            step = model.predict.batch_size
            for first in range(0, len(batch.samples), step):
                until = first + step
                yield Batch(batch.pixels[first:until], batch.samples[first:until], ()), model

    def _open_cache(self, spec: LaneSpec) -> PixelCache | None:
        if spec.cache is None:
            return None
        manifest = self._models[0].artifact.manifest
        key = CacheKey.of(self._recipe, spec.max_pixels, manifest.preprocess, manifest.files.get(PREPROCESS_FILE))
        return PixelCache.open(spec.cache.folder, spec.cache.max_bytes, key)

    def _load(self, ref: ImageRef, position: int, mark: Mark, clock: StageClock) -> Sample | Broken:
        """One image's pixels. `mark` says what is in hand before each step that a broken file could crash or hang."""
        facts, stage = FileFacts(), "read"
        clock.refs = (ref,)
        try:
            mark.hold(position, stage)
            with clock.time(stage):
                image = read_image(ref.location, self._read_limits)
            facts = image.facts
            if (kept := self._cached(facts, clock)) is not None:
                return Sample(ref, kept, facts)
            stage = "decode"
            mark.hold(position, stage, facts)
            with clock.time(stage):
                picture = decode_image(image.data, self._recipe, self._decode_limits)
            stage = "transform"
            mark.hold(position, stage, facts)
            with clock.time(stage):
                pixels = transform(picture, self._recipe, self._preprocess)
            self._keep(facts, pixels, clock)
            return Sample(ref, pixels, facts)
        except BadImage as bad:
            return Broken(ref, bad.reason, bad.detail, stage, bad.facts or facts, decoder_name())
        except MemoryError:
            return Broken(ref, Reason.OUT_OF_MEMORY, f"no memory left to {stage} it", stage, facts, decoder_name())

    def _cached(self, facts: FileFacts, clock: StageClock) -> Tensor | None:
        if self._cache is None or facts.sha256 is None:
            return None
        row = torch.empty(self._buffer.shape[1:], dtype=torch.uint8)
        with clock.time("cache"):
            return row if self._cache.get(facts.sha256, row.numpy()) else None

    def _keep(self, facts: FileFacts, pixels: Tensor, clock: StageClock) -> None:
        if self._cache is not None and facts.sha256 is not None:
            with clock.time("cache"):
                self._cache.put(facts.sha256, pixels.numpy())

    def _load_pixels(self, data: bytes) -> Tensor:
        return transform(decode_image(data, self._recipe, self._decode_limits), self._recipe, self._preprocess)


def _infer(model: LaneModel, batch: Batch, clock: StageClock) -> Iterator[Prediction | Broken]:
    """A batch the model refuses is tried again image by image, so that only the culprit is rejected."""
    try:
        with clock.time("model"):
            raw = model.predict(batch.pixels)
    except Exception as error:  # the model is the user's code, and torch.jit.Error is no RuntimeError
        yield from _infer_one_by_one(model, batch, error, clock)
        return
    with clock.time("outputs"):
        outputs = decode_outputs(raw, model.artifact.manifest.output, model.artifact.labels)
    for sample, output in zip(batch.samples, outputs, strict=True):
        if output is None:
            detail = "the model's output has a NaN or an infinity"
            yield _model_broke(model, sample, Reason.NON_FINITE_OUTPUT, detail, "outputs")
        else:
            yield Prediction(sample.ref, output, sample.file.sha256, model.number)


def _infer_one_by_one(
    model: LaneModel, batch: Batch, error: Exception, clock: StageClock
) -> Iterator[Prediction | Broken]:
    if len(batch.samples) == 1:
        reason = Reason.OUT_OF_MEMORY if isinstance(error, MemoryError) else Reason.MODEL_ERROR
        yield _model_broke(model, batch.samples[0], reason, _first_line(error), "model")
        return
    for i, sample in enumerate(batch.samples):
        yield from _infer(model, Batch(batch.pixels[i : i + 1], (sample,), ()), clock)


def _model_broke(model: LaneModel, sample: Sample, reason: Reason, detail: str, stage: str) -> Broken:
    return Broken(sample.ref, reason, detail, stage, sample.file, model=model.number)


def _first_line(error: Exception) -> str:
    lines: Sequence[str] = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[-1]}"[:500]
