"""Prediction of batches of pixels in every executor: the model and the decoding of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from infer_app.domain import Batch, Broken, Prediction, Reason, Sample
from infer_app.errors import DeviceLost
from infer_app.models.artifact.artifact import Artifact
from infer_app.models.runtimes.device_errors import device_loss_raised, is_out_of_memory
from infer_app.models.verification.golden import check_golden
from infer_app.models.verification.outputs import OutputDecoder
from infer_app.telemetry.stage_clock import StageClock


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """An open model that is ready to predict."""

    model_index: int  # in the handler's models
    artifact: Artifact
    variant: str
    batch_size: int  # maximum number of images per call
    predict: Callable[[Tensor], Tensor]  # (n, H, W, 3) uint8 to (n, D) float32 on the CPU
    decode: OutputDecoder

    def verify_golden(
        self, load_pixels: Callable[[bytes], Tensor], predict: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        """Predict the golden images, which also warms the model up. Raises ModelError if the results differ."""
        check_golden(self.artifact, load_pixels, predict or self.predict, self.variant, self.batch_size)

    def batches(self, batch: Batch) -> Iterator[Batch]:
        """Split the batch into batches of at most `batch_size` images."""
        for first in range(0, len(batch.samples), self.batch_size):
            until = first + self.batch_size
            yield Batch(batch.pixels[first:until], batch.samples[first:until], ())

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
            yield self._broken(batch.samples[0], reason, _first_line(error), "model")
            return
        for i, sample in enumerate(batch.samples):
            yield from self.infer(Batch(batch.pixels[i : i + 1], (sample,), ()), clock)

    def _broken(self, sample: Sample, reason: Reason, detail: str, stage: str) -> Broken:
        return Broken(sample.ref, reason, detail, stage, sample.file, model_index=self.model_index)


def _first_line(error: BaseException) -> str:
    lines: Sequence[str] = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[-1]}"[:500]
