"""The last steps of every handler: run the networks on a batch of pixels, and decode their outputs."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from infer_app.artifact.artifact import Artifact
from infer_app.base.domain import Batch, Broken, Chunk, ChunkResult, Prediction, Reason, Sample
from infer_app.base.errors import DeviceLost, is_out_of_memory, lines_of
from infer_app.base.telemetry.stage_clock import StageClock
from infer_app.predict.verification.detection import compares_best_objects
from infer_app.predict.verification.golden import check_golden
from infer_app.predict.verification.vectors import Decode
from infer_app.predict.workers.heartbeat import Heartbeat

_DEVICE_FAILED = re.compile(r"CUDA error: .*")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """An open model that is ready to predict."""

    model_index: int  # in the handler's models
    artifact: Artifact
    variant: str
    batch_size: int  # maximum number of images per call
    predict: Callable[[np.ndarray], np.ndarray]  # (n, H, W, 3) uint8 to (n, D) float32
    decode: Decode

    def verify_golden(
        self,
        load_pixels: Callable[[bytes], np.ndarray],
        predict: Callable[[np.ndarray], np.ndarray] | None = None,
        is_first: bool = True,
    ) -> None:
        """Predict the golden images, which also warms the model up. Raises ModelError if the results differ.

        Of a large input, which takes seconds an image, the first worker alone predicts one, or all where they are
        judged together; the pool holds the results of the others back until then.
        """
        manifest = self.artifact.manifest
        is_large = manifest.recipe.size.is_large
        if is_large and not is_first:
            return
        numbers = [0] if is_large and not compares_best_objects(manifest.output) else None
        check_golden(self.artifact, load_pixels, predict or self.predict, self.variant, self.batch_size, numbers)

    def infer(self, batch: Batch, clock: StageClock) -> Iterator[Prediction | Broken]:
        """Predict a batch. If the model raises, retry image by image, so that only the failing images are rejected.

        Raises DeviceLost.
        """
        try:
            with clock.time("model"), device_loss_raised():
                raw = self.predict(batch.pixels)
            with clock.time("outputs"):
                outputs = self.decode(raw, [sample.file.picture for sample in batch.samples])
        except DeviceLost:
            raise
        except (Exception, SystemExit) as error:  # model and head are the user's code, torch.jit.Error no RuntimeError
            yield from self._one_by_one(batch, error, clock)
            return
        for sample, output in zip(batch.samples, outputs, strict=True):
            if output is None:
                detail = "the model's output has a NaN or an infinity"
                yield self._broken(sample, Reason.NON_FINITE_OUTPUT, detail, "outputs")
            else:
                yield Prediction(sample.ref, output, sample.file, self.model_index)

    def _one_by_one(self, batch: Batch, error: BaseException, clock: StageClock) -> Iterator[Prediction | Broken]:
        if len(batch.samples) == 1:
            reason = Reason.OUT_OF_MEMORY if is_out_of_memory(error) else Reason.MODEL_ERROR
            yield self._broken(batch.samples[0], reason, _detail(error), "model")
            return
        for i, sample in enumerate(batch.samples):
            yield from self.infer(Batch(batch.pixels[i : i + 1], (sample,), ()), clock)

    def _broken(self, sample: Sample, reason: Reason, detail: str, stage: str) -> Broken:
        return Broken(sample.ref, reason, detail, stage, sample.file, model_index=self.model_index)


def _detail(error: BaseException) -> str:
    return f"{type(error).__name__}: {lines_of(error)[-1] if str(error).strip() else ''}"[:500]


class Networks:
    """The networks of a handler that take whole pictures; each gets its pixels here, in every executor."""

    def __init__(
        self, models: Sequence[LoadedModel], detector: int | None = None, fed: frozenset[int] = frozenset()
    ) -> None:
        """Take the networks; a failure of the detector is one of those `fed` with its objects, too."""
        self._models = {model.model_index: model for model in models}
        self._blamed = {index: fed | {index} if index == detector else {index} for index in self._models}

    def depending(self, chunk: Chunk) -> frozenset[int]:
        """Return the models that the chunk's images are new for and that need the pixels of whole pictures."""
        blamed = (self._blamed[index] for index in chunk.model_indices if index in self._models)
        return frozenset().union(*blamed).intersection(chunk.model_indices)

    def predict(
        self, batch: Batch, chunk: Chunk, first: int, heartbeat: Heartbeat, clock: StageClock
    ) -> Iterator[Prediction | Broken]:
        """Predict a batch by the models that the chunk is for; `first`: index of its first image in the chunk."""
        for model in (self._models[index] for index in chunk.model_indices if index in self._models):
            for start in range(0, len(batch.samples), model.batch_size):
                part = slice(start, start + model.batch_size)
                heartbeat.record(first, "model", models=self._blamed[model.model_index])
                yield from model.infer(Batch(batch.pixels[part], batch.samples[part], ()), clock)


def result_of(chunk: Chunk, results: Sequence[Prediction | Broken], clock: StageClock) -> ChunkResult:
    """Return the result of a chunk, with what was measured."""
    return clock.stamp(ChunkResult.of(chunk.number, results, chunk.model_indices))


@contextmanager
def device_loss_raised() -> Iterator[None]:
    """Raise DeviceLost for errors after which the device is unusable in this process."""
    try:
        yield
    except RuntimeError as error:
        failure = _DEVICE_FAILED.search(str(error))
        if is_out_of_memory(error) or not (failure or type(error).__name__ == "AcceleratorError"):
            raise
        cause = failure.group() if failure else str(error)
        raise DeviceLost(f"the GPU failed: {cause}", "see `nvidia-smi` and the kernel's log (Xid)") from error
