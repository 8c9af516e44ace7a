"""Stops a day that rejects too many images, and keeps a fault of the model from rejecting its images.

A broken file is rejected at once. A failure of the model or of the preprocess function may not be the image's fault, so
such failures are held until enough images have been processed. If most of those failed, it is one fault: none of them
is rejected, the run ends with exit code 3, and the images stay pending.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from infer_app.domain import TRANSIENT_REASONS, Broken, ChunkResult
from infer_app.settings.sections import rejection_budget

PROBATION_IMAGES = 300  # a share of a few percent can't be estimated from fewer
FEW_FAILURES = 10  # so many may be the images' fault, whatever share that is, if most images succeed
_ANY_NUMBER = 10**9


class FailureBudget:
    """Decides which of one model's failures on one day may be rejected."""

    def __init__(self, max_rejected: str) -> None:
        """Take `max_rejected` as in the settings: "5%" (at least 10) or "25"."""
        self.stopped: str | None = None  # why no more images should be taken
        self._max_rejected = max_rejected
        self._allows_all = rejection_budget(max_rejected, _ANY_NUMBER) >= _ANY_NUMBER
        self._num_images = 0
        self._num_counted = 0  # rejections that are not retried automatically
        self._on_probation: list[ChunkResult] = []
        self._num_since = 0  # images since the first result on probation

    def admit(self, result: ChunkResult) -> Iterator[ChunkResult]:
        """Yield what may be written by now; images that are never yielded stay pending."""
        failed = [broken for broken in result.broken if broken.may_be_models_fault]
        final = [broken for broken in result.broken if not broken.may_be_models_fault and _is_final(broken)]
        self._num_images += result.num_images
        self._num_counted += len(failed) + len(final)
        if self._num_images >= PROBATION_IMAGES and self._num_counted > self._allowed(self._num_images):
            what = f"{self._num_counted:,} of {self._num_images:,} images were rejected or failed"
            self._stop(f"{what}, more than --max-rejected {self._max_rejected} allows: the rest stays pending", failed)
        if self.stopped is not None:
            yield _without(result, [*failed, *final])
            return
        yield _without(result, failed)
        if failed:
            self._on_probation.append(ChunkResult(result.number, (), tuple(failed), result.model_indices))
        if self._on_probation:
            self._num_since += result.num_images
        if self._num_since >= PROBATION_IMAGES:
            yield from self.settle()

    def settle(self) -> Iterator[ChunkResult]:
        """Yield the failures on probation if they are the images' fault; otherwise stop."""
        failed = [broken for result in self._on_probation for broken in result.broken]
        if self._is_one_fault(len(failed)):
            what = f"{len(failed):,} of {self._num_since:,} images failed in the model or its preprocessing"
            self._stop(f"{what}: the rest stays pending", [])
        yield from self._on_probation
        self._on_probation, self._num_since = [], 0

    def _is_one_fault(self, num_failed: int) -> bool:
        """Return whether so many failures are a fault of the model: more than the day or its last part may have."""
        if self._allows_all:
            return False
        few = FEW_FAILURES if 2 * num_failed < self._num_images else 1
        is_most = num_failed > max(few, self._num_since // 2)
        return is_most or num_failed > self._allowed(self._num_images)

    def _allowed(self, num_images: int) -> int:
        return max(FEW_FAILURES, rejection_budget(self._max_rejected, num_images))

    def _stop(self, why: str, failed: list[Broken]) -> None:
        failed = [*(broken for result in self._on_probation for broken in result.broken), *failed]
        example = f" (the last: {failed[-1].detail}; none was rejected for it)" if failed else ""
        self.stopped = self.stopped or f"{why}{example}"
        self._on_probation.clear()


def _is_final(broken: Broken) -> bool:
    return broken.reason not in TRANSIENT_REASONS


def _without(result: ChunkResult, left_out: list[Broken]) -> ChunkResult:
    if not left_out:
        return result
    out = frozenset(left_out)
    return replace(result, broken=tuple(broken for broken in result.broken if broken not in out))
