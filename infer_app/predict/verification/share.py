"""A share that was counted on some of the images to come, and the interval in which that of all of them lies."""

import math
from dataclasses import dataclass

import numpy as np

from infer_app.base.printing import counted

OUTSIDE = 0.025  # probability beyond each end: a 95 % interval
_HALVINGS = 50  # of 0-1, to 1e-15


@dataclass(frozen=True, slots=True)
class Share:
    """How many labels or objects of some are kept; as text `99 of 100 labels: between 94.6 and 99.97 %`."""

    kept: float  # 0-1
    of: int
    noun: str  # of what is counted
    num_independent: int | None = None  # fewer than `of` if several are of an image, and lost together

    @property
    def interval(self) -> tuple[float, float]:
        """Return the ends of the exact 95 % interval, 0-1 (Clopper and Pearson, Biometrika 26, 1934).

        Beyond an end lie the shares that would give a count as far off in less than one of 40 cases.
        """
        of = self.of if self.num_independent is None else self.num_independent
        kept = self._count(of)
        return _lower_end(kept, of), 1 - _lower_end(of - kept, of)

    @property
    def between(self) -> str:
        """Return the interval as `between 94.6 and 99.97 %`."""
        low, high = map(_percent, self.interval)
        return f"between {low} and {high} %"

    @property
    def counts(self) -> str:
        """Return what was counted as `99 of 100 labels`."""
        return f"{self._count(self.of):,} of {counted(self.of, self.noun)}"

    def __str__(self) -> str:
        return f"{self.counts}: {self.between}"

    def _count(self, of: int) -> int:
        return int(self.kept * of + 1e-6)  # rounded down, but for errors of floats


def _lower_end(kept: int, of: int) -> float:
    """Return the share with which `kept` or more of `of` has the probability OUTSIDE, 0 if none is kept."""
    if not kept:
        return 0.0
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, of + 1)))])
    counts = np.arange(kept, of + 1)
    ways = log_factorials[of] - log_factorials[counts] - log_factorials[of - counts]
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        share = (low + high) / 2
        tail = np.exp(ways + counts * math.log(share) + (of - counts) * math.log1p(-share)).sum()
        low, high = (low, share) if tail > OUTSIDE else (share, high)
    return low


def _percent(share: float) -> str:
    """Return it in percent, with as many decimals as tell it from 100 %."""
    missing = 100 * (1 - share)
    decimals = max(1, math.ceil(-math.log10(missing))) if missing > 1e-9 else 0
    return f"{100 * share:.{decimals}f}"
