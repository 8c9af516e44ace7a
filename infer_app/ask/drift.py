"""A day's labels, and their distance from those of the days before."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from infer_app.ask.figures.figures import Figures
from infer_app.base.day import Day

Counts = Mapping[str, int]  # predictions by label

NUM_LABELS = 200  # kept per day; the page shows fewer
NUM_MOVED = 8
NUM_DRAWS = 200
WORTH_A_LOOK = 0.1  # with many images the chance level is near 0, and every day differs a little from the last
SURE = 3.0  # standard errors; chance alone exceeds it in one of 400 comparisons


@dataclass(frozen=True, slots=True)
class Drift:
    """Distance of a day's labels from those before: 0 for the same shares, 1 for no label in common."""

    distance: float
    by_chance: float  # 95th percentile of the distance without any change
    num_before: int  # predictions of the days before

    @property
    def is_notable(self) -> bool:
        return self.distance > max(self.by_chance, WORTH_A_LOOK)


@dataclass(frozen=True, slots=True)
class MovedLabel:
    """A label whose share has changed."""

    label: str
    share: float  # of the day's predictions, 0-1
    share_before: float
    is_sure: bool  # changed by more than chance


@dataclass(frozen=True, slots=True)
class LabelCount:
    """A label's count and its share of the predictions."""

    label: str
    count: int
    share: float  # of the day's predictions with a label, 0-1; of a detector of its shown objects
    share_7: float | None  # of the seven days before; None if they have no predictions
    share_28: float | None


@dataclass(frozen=True, slots=True)
class Labels:
    """A day's labels, compared with the 7 and the 28 days before it."""

    num_labels: int
    most: tuple[LabelCount, ...]  # the most frequent first
    drift_7: Drift | None
    drift_28: Drift | None
    moved: tuple[MovedLabel, ...]  # since the seven days before


def days_before(day: Day, num_days: int) -> Day:
    """Return the days before the day as one interval, which ends where the day starts."""
    return replace(day, start=day.before(num_days).start, end=day.start)


def gather_labels(figures: Figures, day: Day) -> Labels | None:
    """Return the day's labels; None for a model without labels and for a day without predictions."""
    today = figures.count_labels(day)
    if not today:
        return None
    week, month = (figures.count_labels(days_before(day, num_days)) for num_days in (7, 28))
    sums = [sum(counts.values()) for counts in (today, week, month)]
    most = [
        LabelCount(
            label,
            count,
            count / sums[0],
            week.get(label, 0) / sums[1] if sums[1] else None,
            month.get(label, 0) / sums[2] if sums[2] else None,
        )
        for label, count in list(today.items())[:NUM_LABELS]
    ]
    return Labels(
        len(today), tuple(most), drift(today, week), drift(today, month), moved_labels(today, week, NUM_MOVED)
    )


def drift(today: Counts, before: Counts) -> Drift | None:
    """Return the drift; None if one of the two has no predictions."""
    if not sum(today.values()) or not sum(before.values()):
        return None
    return Drift(jensen_shannon(today, before), chance(today, before), sum(before.values()))


def jensen_shannon(p: Counts, q: Counts) -> float:
    """Return the Jensen–Shannon distance of two sets of counts, logarithms to base 2: 0 to 1.

    sqrt(½ Σ pᵢ log₂(pᵢ/mᵢ) + ½ Σ qᵢ log₂(qᵢ/mᵢ)) of the shares pᵢ and qᵢ, mᵢ = (pᵢ + qᵢ)/2: the square root of the
    divergence of Lin (1991), Divergence measures based on the Shannon entropy, IEEE Transactions on Information
    Theory 37(1), which Endres and Schindelin (2003), A new metric for probability distributions, ibid. 49(7), show to
    be a metric. Unlike the population stability index it needs no placeholder for labels that one side lacks.
    """
    total_p, total_q = sum(p.values()), sum(q.values())
    pairs = [(p.get(label, 0) / total_p, q.get(label, 0) / total_q) for label in p.keys() | q.keys()]
    divergence = math.fsum(_half(a, (a + b) / 2) + _half(b, (a + b) / 2) for a, b in pairs)
    return math.sqrt(min(1.0, max(0.0, divergence)))


def chance(today: Counts, before: Counts) -> float:
    """Return the 95th percentile of the distance of two samples of these sizes drawn from the same distribution.

    Computed by drawing them (a parametric bootstrap): few images of many labels differ much by chance alone, where the
    usual approximations fail. The seed is fixed, so the result is reproducible.
    """
    import numpy as np  # takes 0.1 s, which only a report needs to spend

    sums = np.array([today.get(label, 0) + before.get(label, 0) for label in sorted(today.keys() | before.keys())])
    shares = sums / sums.sum()
    random = np.random.default_rng(0)
    p = random.multinomial(sum(today.values()), shares, NUM_DRAWS) / sum(today.values())
    q = random.multinomial(sum(before.values()), shares, NUM_DRAWS) / sum(before.values())
    middle = (p + q) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(p > 0, p * np.log2(p / middle), 0) + np.where(q > 0, q * np.log2(q / middle), 0)
    return float(np.quantile(np.sqrt(np.clip(parts.sum(axis=1) / 2, 0, 1)), 0.95))


def moved_labels(today: Counts, before: Counts, limit: int) -> tuple[MovedLabel, ...]:
    """Return the labels whose share changed most; empty if one side has no predictions."""
    num_today, num_before = sum(today.values()), sum(before.values())
    if not num_today or not num_before:
        return ()
    every = [
        MovedLabel(
            label,
            today.get(label, 0) / num_today,
            before.get(label, 0) / num_before,
            abs(z_score(today.get(label, 0), num_today, before.get(label, 0), num_before)) >= SURE,
        )
        for label in today.keys() | before.keys()
    ]
    changed = [one for one in every if one.share != one.share_before]
    return tuple(sorted(changed, key=lambda one: (-abs(one.share - one.share_before), one.label))[:limit])


def z_score(count: int, total: int, count_before: int, total_before: int) -> float:
    """Return the difference of two shares in standard errors of their pooled share; 0 if it is undefined."""
    if not total or not total_before:
        return 0.0
    pooled = (count + count_before) / (total + total_before)
    error = math.sqrt(pooled * (1 - pooled) * (1 / total + 1 / total_before))
    return (count / total - count_before / total_before) / error if error else 0.0


def _half(share: float, middle: float) -> float:
    return share * math.log2(share / middle) / 2 if share else 0.0
