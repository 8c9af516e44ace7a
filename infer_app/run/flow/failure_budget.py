"""Decides which failures of one model on one day may be rejected."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from infer_app.base.domain import IN_CONTENT, TRANSIENT_REASONS, Broken, ChunkResult, Reason, may_be_models_fault
from infer_app.base.locations import stored_location
from infer_app.base.settings.sections import RunSettings, rejection_budget

PROBATION_IMAGES = 300  # a share of a few percent can't be estimated from fewer
FEW_FAILURES = 10  # so many may be the images' fault, whatever share that is, if most images succeed
FEW_ALIKE = 3  # so many files that are refused alike are their own fault, even if nothing else is there
MOST = 0.5  # of a day's images
_ANY_NUMBER = 10**9


@dataclass(slots=True)
class _Probation:
    """Failures that are held, and the number of images since the first of them."""

    failures: list[Broken] = field(default_factory=list)
    num_since: int = 0

    def add(self, failures: Sequence[Broken], num_images: int) -> None:
        self.failures += failures
        self.num_since += num_images if self.failures else 0

    @property
    def is_over(self) -> bool:
        return self.num_since >= PROBATION_IMAGES


@dataclass(frozen=True, slots=True)
class EarlierResults:
    """What other runs of the day have written."""

    num_predicted: int = 0  # images that the model was given
    rejected: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by reason and stage

    @property
    def of_model(self) -> int:
        return sum(count for kind, count in self.rejected.items() if may_be_models_fault(*kind))

    @property
    def of_files(self) -> Counter[str]:
        """Return what was found in the content of files, by reason."""
        found = Counter[str]()
        for (reason, stage), count in self.rejected.items():
            found[reason] += count if reason in IN_CONTENT and not may_be_models_fault(reason, stage) else 0
        return found


class FailureBudget:
    """Decides which of one model's failures on one day may be rejected, and stops a day that rejects too many images.

    A failure of the model or of the preprocess function may not be the image's fault, nor what is found in a file that
    a decoder refuses. Such failures are held until enough images have been processed, or to the end of the day. If the
    model failed on most of these, or if most images of the day are refused for one reason, it is one fault: none of
    them is rejected, the run ends with exit code 3, and the images stay pending. Several runs of a day decide as one
    would; what earlier ones have rejected stays. Images that could not be read count for nothing.
    """

    def __init__(self, settings: RunSettings, read_earlier: Callable[[], EarlierResults] = EarlierResults) -> None:
        """Take the settings of the run; `read_earlier` is asked once there are failures."""
        self.stopped: str | None = None  # why no more images should be taken
        self._max_rejected = settings.max_rejected
        self._earlier = cache(read_earlier)
        self._share = rejection_budget(settings.max_rejected, _ANY_NUMBER) / _ANY_NUMBER
        self._num_images = 0  # but for those that later runs try again
        self._num_given = 0  # of these, to the model
        self._num_read = 0  # and those in whose content a decoder found a fault
        self._num_counted = 0  # rejections that are not retried automatically
        self._of_model = _Probation()
        self._of_files = _Probation()

    def admit(self, result: ChunkResult) -> Iterator[ChunkResult]:
        """Yield what may be written by now; images that are never yielded stay pending."""
        of_model = [broken for broken in result.broken if broken.may_be_models_fault]
        rejected = [broken for broken in result.broken if not broken.may_be_models_fault]
        final = [broken for broken in rejected if broken.reason not in TRANSIENT_REASONS]
        of_files = [broken for broken in final if broken.reason in IN_CONTENT]
        num_given = result.num_asked - len(rejected)
        num_read = num_given + len(of_files)
        self._num_images += num_given + len(final)
        self._num_given += num_given
        self._num_read += num_read
        self._num_counted += len(of_model) + len(final)
        if self._num_images >= PROBATION_IMAGES and self._num_counted > self._allowed(self._num_images):
            yield from self._decide_files()
            failed, self._of_model = [*self._of_model.failures, *of_model], _Probation()
            what = f"{self._num_counted:,} of {self._num_images:,} images were rejected or failed"
            self._stop(f"{what}, more than --max-rejected {self._max_rejected} allows", failed)
        if self.stopped is not None:
            yield _without(result, [*of_model, *final])
            return
        yield _without(result, [*of_model, *of_files])
        self._of_model.add(of_model, num_given)
        self._of_files.add(of_files, num_read)
        if self._of_model.is_over:
            yield from self._decide_model()
        if self._of_files.is_over:
            yield from self._decide_files()

    def decide(self) -> Iterator[ChunkResult]:
        """Yield the failures on probation if they are the images' fault; otherwise stop."""
        yield from self._decide_model()
        yield from self._decide_files()

    def _decide_model(self) -> Iterator[ChunkResult]:
        held, self._of_model = self._of_model, _Probation()
        if held.failures and self._is_models_fault(len(held.failures), held.num_since):
            what = f"{len(held.failures):,} of {held.num_since:,} images failed in the model or its preprocessing"
            self._stop(what + _besides(self._earlier().of_model), held.failures)
        else:
            yield ChunkResult(0, (), tuple(held.failures))

    def _decide_files(self) -> Iterator[ChunkResult]:
        held, self._of_files = self._of_files.failures, _Probation()
        counts = Counter(broken.reason for broken in held)
        one_fault = {reason for reason, count in counts.items() if self._is_decoders_fault(reason, count)}
        for reason in sorted(one_fault):
            besides = _besides(self._earlier().of_files[reason])
            what = f"{counts[reason]:,} of {self._num_read:,} images are {reason}{besides}, which may be one fault"
            hint = "; if these files are broken, reject them by --max-rejected 100%"
            self._stop(what, [broken for broken in held if broken.reason is reason], hint)
        yield ChunkResult(0, (), tuple(broken for broken in held if broken.reason not in one_fault))

    def _is_models_fault(self, num_failed: int, num_since: int) -> bool:
        """Return whether so many failures are a fault of the model: more than the run, its end or the day may have."""
        if self._share >= 1:
            return False
        earlier = self._earlier()
        num_of_day = self._num_given + earlier.num_predicted + earlier.of_model
        of_day = self._are_too_many(num_failed + earlier.of_model, num_of_day, num_of_day)
        return of_day or self._are_too_many(num_failed, num_since, self._num_given)

    def _are_too_many(self, num_failed: int, num_since: int, num_given: int) -> bool:
        few = FEW_FAILURES if 2 * num_failed < num_given else 1
        return num_failed > max(few, num_since // 2) or num_failed > self._allowed(num_given)

    def _is_decoders_fault(self, reason: Reason, num_alike: int) -> bool:
        """Return whether most images of the day are refused alike; those of the run alone, if former ones might be."""
        earlier = self._earlier()
        before = earlier.of_files[reason]
        read_before = earlier.num_predicted + earlier.of_model + earlier.of_files.total()
        if self._are_most(before, read_before):  # which --max-rejected has allowed
            return self._are_most(num_alike, self._num_read)
        return self._are_most(num_alike + before, self._num_read + read_before)

    def _are_most(self, num_alike: int, num_read: int) -> bool:
        return num_alike > max(FEW_ALIKE, max(MOST, self._share) * num_read)

    def _allowed(self, num_images: int) -> int:
        return max(FEW_FAILURES, rejection_budget(self._max_rejected, num_images))

    def _stop(self, why: str, failed: Sequence[Broken], hint: str = "") -> None:
        example = ""
        if failed:
            location = stored_location(failed[-1].ref.location)
            example = f" (the last: {location}: {failed[-1].detail}; none was rejected for it{hint})"
        self.stopped = self.stopped or f"{why}: the rest stays pending{example}"


def _besides(num_earlier: int) -> str:
    return f", besides {num_earlier:,} that earlier runs of the day rejected" if num_earlier else ""


def _without(result: ChunkResult, held: Sequence[Broken]) -> ChunkResult:
    if not held:
        return result
    out = frozenset(held)
    return replace(result, broken=tuple(broken for broken in result.broken if broken not in out))
