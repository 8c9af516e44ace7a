"""One core's way of an image: read, decode, transform, collate, model, outputs. The same code in every executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from infer_app.executors.spec import LaneSpec
from infer_app.images.bad_image import BadImage
from infer_app.images.collate import collate
from infer_app.images.decode import DecodeLimits, decode_image, decoder_name
from infer_app.images.location import ReadLimits, read_image
from infer_app.images.transform import transform
from infer_app.loading.mark import Mark
from infer_app.models.artifact import Artifact, open_artifact
from infer_app.models.golden import check_golden
from infer_app.models.outputs import decode_outputs
from infer_app.models.torchscript import BATCH_SIZE, build_cpu_variant
from infer_app.observe.stages import StageClock
from infer_app.records import Batch, Broken, Chunk, ChunkResult, FileFacts, ImageRef, Prediction, Reason, Sample


class CpuLane:
    """Runs each chunk to completion on one thread, so that pixels never leave the core they were made on."""

    def __init__(self, artifact: Artifact, read_limits: ReadLimits, decode_limits: DecodeLimits) -> None:
        self._artifact = artifact
        self._recipe = artifact.manifest.recipe
        self._preprocess = artifact.preprocess()
        self._predict: Callable[[Tensor], Tensor] = build_cpu_variant(artifact)
        self._read_limits = read_limits
        self._decode_limits = decode_limits
        size = self._recipe.size
        self._buffer = torch.empty((BATCH_SIZE, size, size, 3), dtype=torch.uint8)

    @classmethod
    def open(cls, spec: LaneSpec) -> CpuLane:
        """A lane that has proved itself on the golden images, which also warms it up. Raises ModelError."""
        torch.set_num_threads(1)  # a process per core: more threads would only get into each other's way
        lane = cls(open_artifact(spec.artifact), ReadLimits(spec.roots, spec.max_bytes), DecodeLimits(spec.max_pixels))
        lane.prove()
        return lane

    def prove(self) -> None:
        """The golden images through this very lane, from bytes to row. Raises ModelError when they differ."""
        check_golden(self._artifact, self._load_pixels, self._predict)

    def process(self, chunk: Chunk, mark: Mark) -> ChunkResult:
        """Every ref of the chunk as a prediction or as broken; what was broken never affects its neighbours."""
        clock = StageClock()
        predictions: list[Prediction] = []
        broken: list[Broken] = []
        for first in range(0, len(chunk.refs), BATCH_SIZE):
            refs = chunk.refs[first : first + BATCH_SIZE]
            samples = [self._load(ref, first + i, mark, clock) for i, ref in enumerate(refs)]
            with clock.time("collate"):
                batch = collate(samples, self._buffer)
            broken += batch.broken
            if batch.samples:
                mark.hold(first, "model")
                for result in self._infer(batch, clock):
                    (predictions if isinstance(result, Prediction) else broken).append(result)  # type: ignore[arg-type]
        return ChunkResult(chunk.number, tuple(predictions), tuple(broken), dict(clock.cpu_seconds))

    def _load(self, ref: ImageRef, position: int, mark: Mark, clock: StageClock) -> Sample | Broken:
        """One image's pixels. `mark` says what is in hand before each step that a broken file could crash or hang."""
        facts, stage = FileFacts(), "read"
        try:
            mark.hold(position, stage)
            with clock.time(stage):
                image = read_image(ref.location, self._read_limits)
            facts, stage = image.facts, "decode"
            mark.hold(position, stage, facts)
            with clock.time(stage):
                rgb = decode_image(image.data, self._recipe, self._decode_limits)
            stage = "transform"
            mark.hold(position, stage, facts)
            with clock.time(stage):
                return Sample(ref, transform(rgb, self._recipe, self._preprocess), facts)
        except BadImage as bad:
            return Broken(ref, bad.reason, bad.detail, stage, bad.facts or facts, decoder_name())
        except MemoryError:
            return Broken(ref, Reason.OUT_OF_MEMORY, f"no memory left to {stage} it", stage, facts, decoder_name())

    def _infer(self, batch: Batch, clock: StageClock) -> Iterator[Prediction | Broken]:
        """A batch the model refuses is tried again image by image, so that only the culprit is rejected."""
        try:
            with clock.time("model"):
                raw = self._predict(batch.pixels)
        except Exception as error:  # the model is the user's code, and torch.jit.Error is no RuntimeError
            yield from self._infer_one_by_one(batch, error, clock)
            return
        with clock.time("outputs"):
            outputs = decode_outputs(raw, self._artifact.manifest.output, self._artifact.labels)
        for sample, output in zip(batch.samples, outputs, strict=True):
            if output is None:
                yield _model_broke(
                    sample, Reason.NON_FINITE_OUTPUT, "the model's output has a NaN or an infinity", "outputs"
                )
            else:
                yield Prediction(sample.ref, output, sample.file.sha256)

    def _infer_one_by_one(self, batch: Batch, error: Exception, clock: StageClock) -> Iterator[Prediction | Broken]:
        if len(batch.samples) == 1:
            reason = Reason.OUT_OF_MEMORY if isinstance(error, MemoryError) else Reason.MODEL_ERROR
            yield _model_broke(batch.samples[0], reason, _first_line(error), "model")
            return
        for i, sample in enumerate(batch.samples):
            yield from self._infer(Batch(batch.pixels[i : i + 1], (sample,), ()), clock)

    def _load_pixels(self, data: bytes) -> Tensor:
        return transform(decode_image(data, self._recipe, self._decode_limits), self._recipe, self._preprocess)


def _model_broke(sample: Sample, reason: Reason, detail: str, stage: str) -> Broken:
    return Broken(sample.ref, reason, detail, stage, sample.file)


def _first_line(error: Exception) -> str:
    lines: Sequence[str] = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[-1]}"[:500]
