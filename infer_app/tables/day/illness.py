"""Tells what may be wrong with a camera: a kind is a line of a table, and a function that compares a day with others.

These are the camera's own days on which it was well. What is told would be so by chance on few days alone.
"""

import math
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from itertools import groupby
from operator import attrgetter
from statistics import fmean, median, pvariance
from typing import Any, NamedTuple

from infer_app.base.printing import counted, one_line, percent
from infer_app.tables.cameras.camera_days import Arrival, CameraDay, DayResults

MIN_DAYS = 5  # to compare with
MIN_PICTURES = 5  # of a day, to judge what they are like
RARE = 1e-4  # what chance alone does less often is told
RARE_SILENCE = 1 / 500  # the same, of a camera that has sent every day; less often, of one that is used to gaps
MORE = 0.1  # by which a share must be higher than before
LESS = 0.5  # of the usual contrast or sharpness
FLOOD = 3  # times the usual number of pictures
MOVED = 14  # of the 64 bits of a look
UNLIKE, SCORE = 0.2, 0.1  # by which the share of a label must be higher than ever, and a mean score differ
SHIFT = timedelta(hours=36)  # of a clock, that no night explains
FIRST_YEAR = 2000  # a clock that shows an earlier one was never set


class Found(NamedTuple):
    """Says what is unlike before."""

    what: str
    chance: float | None = None  # that it would be so by chance; None: it can't


class Kind(NamedTuple):
    """Describes a kind of illness."""

    name: str  # of its notices
    has: str  # what the camera has
    hint: str
    find: Callable[[Any, Sequence[Any]], Found | None]  # by a day, and those before it
    judged: str = "num_images"  # the number of pictures of a day that it is judged by
    enough: int = MIN_PICTURES  # of them
    num_days: int = 1  # on which it must be so, of those that are judged, before it is told
    is_new_norm: bool = False  # once it has lasted: nothing need be wrong


@dataclass(frozen=True, slots=True)
class Illness:
    """Tells what is wrong with a camera."""

    kind: Kind
    camera: str
    since: date
    what: str
    chance: float | None = None

    @property
    def text(self) -> str:
        by_chance = "" if self.chance is None else f" (by chance 1 in {1 / max(self.chance, 1e-9):,.0f})"
        return f"has {self.kind.has} since {self.since}: {self.what}{by_chance}"


def find_illness(kinds: Iterable[Kind], days: Sequence[Any]) -> Illness | None:
    """Return the first of some kinds that a camera has on the last of its days, which are in order."""
    return next(filter(None, (_spell(kind, days) for kind in kinds)), None)


def find_silence(own: Sequence[Arrival], all_days: Set[int], *, is_daily: bool) -> Illness | None:
    """Return whether a camera is silent; `all_days`: how many days ago any camera has brought pictures.

    `is_daily`: it is to bring some on each of these days. Else it is silent for longer than it ever was.
    """
    first, last = own[0], own[-1]
    missed = sum(ago < last.ago for ago in all_days)
    numbers = {one.ago: one.num_images for one in own}
    known = [numbers.get(ago, 0) for ago in sorted(all_days) if last.ago <= ago <= first.ago]
    if missed and is_daily:
        return Illness(SILENT, last.camera, last.date, "some are expected every day")
    longest = max((len(list(gap)) for had_some, gap in groupby(known, bool) if not had_some), default=0)
    chance = _chance_of_none(known) ** missed
    if len(own) < MIN_DAYS or 2 * missed <= 3 * longest or chance > RARE_SILENCE / (1 + longest):
        return None
    what = f"it sent on {len(own)} of the {counted(len(known), 'day')} before, and on none since"
    return Illness(SILENT, last.camera, last.date, what, chance)


def _spell(kind: Kind, days: Sequence[Any]) -> Illness | None:
    """Return the illness that the last day has; a single day without it does not end it.

    What may be a new norm is one until it has lasted as long as the days before it, which are a week or more for each
    day on which it must be so.
    """
    before, ill, well = list[Any](), list[tuple[Any, Found]](), list[Any]()
    for day in (one for one in days if getattr(one, kind.judged) >= kind.enough):
        if found := kind.find(day, before):
            ill, well = [*ill, (day, found)], []
        elif ill and not well:
            well = [day]
        else:
            before, ill, well = [*before, *(one for one, _ in ill if kind.is_new_norm), *well, day], [], []
    if len(ill) < kind.num_days:
        return None
    known, lasted = ill[0][0].date - days[0].date, ill[-1][0].date - ill[0][0].date
    is_usual = kind.is_new_norm and known < max(lasted, timedelta(days=7 * kind.num_days))
    return None if is_usual else Illness(kind, ill[0][0].camera, ill[0][0].date, *ill[-1][1])


def _share(day: Any, before: Sequence[Any], pair: Callable[[Any], Any], says: str, least: float = MORE) -> Found | None:
    """Compare a share with that of the days before, by a beta-binomial distribution.

    `pair` returns the number of images that it is of, and that of all. Pictures of a day are alike, and tell less than
    their number: it is divided by how much more the shares of the days before differ than chance has them.
    """
    number, total = pair(day)
    if number < least * total:  # as on most days
        return None
    counts = [pair(one) for one in before]
    of_before, of_all = sum(one for one, _ in counts), sum(one for _, one in counts)
    if len(counts) < MIN_DAYS or number / total < (share := of_before / of_all) + MORE:
        return None
    spread = sum((one - share * its) ** 2 / its for one, its in counts) / (len(counts) - 1)
    alike = max(1.0, spread / (share * (1 - share))) if 0 < share < 1 else 1.0
    chance = _beta_binomial_tail(*(one / alike for one in (number, total, of_before, of_all)))
    what = f"{number:,} of {counted(total, 'image')} {says}, {percent(share)} before"
    return Found(what, chance) if chance < RARE else None


def _covered(day: CameraDay, before: Sequence[CameraDay]) -> Found | None:
    for name in ("sharpness", "contrast"):
        now, *usual = map(attrgetter(name), (day, *before))
        if not usual or now > LESS * (middle := median(usual)):
            continue
        chance = _tail(-math.log(max(0.01, now)), [-math.log(max(0.01, one)) for one in usual], least=0.15)
        if chance < RARE:
            return Found(f"{name} {now:.1f}, {middle:.1f} before", chance)
    return None


def _moved(day: CameraDay, before: Sequence[CameraDay]) -> Found | None:
    """Compare two pictures of the day with two of each day before, as nights may look otherwise than days."""
    if len(before) < MIN_DAYS or any(_distance(day, one) < MOVED for one in reversed(before)):
        return None  # as on most days
    now, *usual = (min(_distance(one, other) for other in before if other is not one) for one in (day, *before))
    chance = _tail(now, usual, least=3.0)
    what = f"{now} of 64 parts differ from any day before, {median(usual):.0f} usually"
    return Found(what, chance) if chance < RARE else None


def _distance(day: CameraDay, other: CameraDay) -> int:
    """Return in how many bits the looks of two days differ, by those that are most alike."""
    pairs = ((one, two) for one in (day.lowest, day.highest) for two in (other.lowest, other.highest))
    return min(((one ^ two) % 2**64).bit_count() for one, two in pairs)


def _unlike(day: DayResults, before: Sequence[DayResults]) -> Found | None:
    """Compare the share of each label with the highest one too, as labels come in bursts, and the mean score."""
    for label, number in day.labels.items():
        says = f'are "{one_line(label)}"' if label else "have no label"
        pair = lambda one, label=label: (one.labels[label], one.num_images)  # noqa: E731
        is_most = all(number / day.num_images > UNLIKE + one.labels[label] / one.num_images for one in before)
        if is_most and (found := _share(day, before, pair, says)):
            return found
    scores = [one.score for one in before if one.num_scored >= MIN_PICTURES]
    apart = abs(day.score - (usual := median(scores or [day.score])))
    chance = 2 * _tail(usual + apart, scores, least=0.03) if apart > SCORE and day.num_scored >= MIN_PICTURES else 1.0
    return Found(f"the mean score is {day.score:.2f}, {usual:.2f} before", chance) if chance < RARE else None


def _flooded(day: CameraDay, before: Sequence[CameraDay]) -> Found | None:
    usual = median([one.num_images for one in before] or [0])
    if day.num_images < FLOOD * max(usual, MIN_PICTURES):
        return None
    chance = _tail(2 * math.sqrt(day.num_images), [2 * math.sqrt(one.num_images) for one in before], least=1.0)
    return Found(f"{counted(day.num_images, 'image')} a day, {usual:,.0f} before", chance) if chance < RARE else None


def _wrong_clock(one: Arrival, before: Sequence[Arrival]) -> Found | None:
    """Compare when the pictures were taken with when they came."""
    if one.first.year < FIRST_YEAR <= one.at.year or one.at - one.last < -SHIFT:
        ahead = one.last if one.first.year >= FIRST_YEAR else one.first
        return Found(f"it showed {ahead:%Y-%m-%d %H:%M} for an image that came on {one.date}")
    if one.at - one.last < SHIFT:
        return None
    lag, *usual = ((arrival.at - arrival.last) / timedelta(days=1) for arrival in (one, *before))
    chance = _tail(lag, usual, least=0.25)
    if chance > RARE or lag - median(usual) < SHIFT / timedelta(days=1):
        return None
    return Found(f"its last image was {lag:,.1f} days old when it came, {median(usual):,.1f} before", chance)


def _beta_binomial_tail(number: float, total: float, before: float, total_before: float) -> float:
    """Return the chance of `number` or more of `total`, where there were `before` of `total_before`."""
    yes, no, total = before + 0.5, total_before - before + 0.5, round(total)

    def log_beta(one: float, other: float) -> float:
        return math.lgamma(one) + math.lgamma(other) - math.lgamma(one + other)

    return sum(
        math.comb(total, one) * math.exp(log_beta(one + yes, total - one + no) - log_beta(yes, no))
        for one in range(round(number), total + 1)
    )


def _tail(value: float, before: Sequence[float], least: float) -> float:
    """Return the chance of a value so high among those before; 1 if they are too few.

    They are taken as normal, with a standard deviation by their median absolute deviation, and of at least `least`.
    """
    if len(before) < MIN_DAYS:
        return 1.0
    middle = median(before)
    deviation = max(least, 1.4826 * median(abs(one - middle) for one in before))
    return math.erfc((value - middle) / deviation / math.sqrt(2)) / 2


def _chance_of_none(numbers: Sequence[int]) -> float:
    """Return the chance of a day without pictures: by how many days had none or, if all had some, by their numbers.

    These are taken as negative binomial, with their own mean and variance.
    """
    ratio = max(2.0, pvariance(numbers) / fmean(numbers))
    by_numbers = math.exp(-fmean(numbers) / (ratio - 1) * math.log(ratio))
    by_days = (numbers.count(0) + 1) / (len(numbers) + 2)
    return by_days if 0 in numbers else min(by_days, by_numbers)


SILENT = Kind("silent camera", "brought no images", "does it still run?", lambda *_: None)
CLOCK = Kind("camera clock", "a wrong clock", "`infer cameras set FILE` puts its times right", _wrong_clock, enough=1)
# Whether these are blank is asked afterwards: it takes longer than all else.
FLOODED = Kind("flooded camera", "a flood of blank images", "does grass move before it?", _flooded, enough=1)
_dark = partial(_share, pair=attrgetter("num_dark", "num_known"), says="are black")
_bright = partial(_share, pair=attrgetter("num_bright", "num_known"), says="are white")
_still = partial(
    _share, pair=attrgetter("num_repeats", "num_clear"), says="look like another one of the day", least=0.8
)
_rejected = partial(_share, pair=attrgetter("num_rejected", "num_images"), says="were rejected", least=0.5)
PICTURES = (  # what comes later may follow from what comes before: dark pictures are not sharp
    Kind("rejected camera", "broken images", "is its card damaged?", _rejected),
    Kind("dark camera", "black images", "does its flash work?", _dark, "num_known"),
    Kind("bright camera", "white images", "is its sensor damaged?", _bright, "num_known"),
    Kind("frozen camera", "frozen images", "is it stuck?", _still, "num_clear"),
    Kind("covered camera", "blurred or covered images", "what is in front of it?", _covered, "num_clear"),
    Kind("moved camera", "another view", "was it moved or turned?", _moved, "num_clear", is_new_norm=True),
    FLOODED,
)
RESULTS = Kind("camera results", "unusual labels or scores", "what has changed?", _unlike, num_days=2, is_new_norm=True)
KINDS = (SILENT, CLOCK, *PICTURES, RESULTS)
LASTING = {kind.name for kind in KINDS if not kind.is_new_norm}
