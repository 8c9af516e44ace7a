"""Kinds of illness of a camera: each is named by the first ill day, and neither a healthy camera nor a rare one is."""

import random
from datetime import timedelta
from functools import partial
from math import comb

import pytest

from infer_app.tables.day.illness import (
    CLOCK,
    KINDS,
    PICTURES,
    RESULTS,
    _beta_binomial_tail,
    _chance_of_none,
    find_illness,
    find_silence,
)
from tests.support.cameras import FIRST, VIEW, arrival_of, day_of, results_of

OTHER = VIEW ^ 0xFFFFFFFF  # half of the bits
# What the pictures of an ill day are like, of so many.
ILL = {
    "rejected camera": lambda n: day_of(n, 20, num_rejected=18, num_known=2, num_clear=2),
    "dark camera": lambda n: day_of(n, 20, num_dark=9, num_clear=11),
    "bright camera": lambda n: day_of(n, 20, num_bright=20, num_clear=0),
    "frozen camera": lambda n: day_of(n, 20, num_repeats=19),
    "covered camera": lambda n: day_of(n, 20, sharpness=3.0),
    "moved camera": lambda n: day_of(n, 20, lowest=OTHER, highest=OTHER),
    "flooded camera": lambda n: day_of(n, 400),
}
SAID = {
    "rejected camera": "has broken images since 2026-10-21: 18 of 20 images were rejected, 0 % before",
    "dark camera": "has black images since 2026-10-21: 9 of 20 images are black, 0 % before",
    "bright camera": "has white images since 2026-10-21: 20 of 20 images are white, 0 % before",
    "frozen camera": "has frozen images since 2026-10-21: 19 of 20 images look like another one of the day, 0 % before",
    "covered camera": "has blurred or covered images since 2026-10-21: sharpness 3.0, 13.5 before",
    "moved camera": "has another view since 2026-10-21: 32 of 64 parts differ from any day before, 0 usually",
    "flooded camera": "has a flood of blank images since 2026-10-21: 400 images a day, 20 before",
}


def judge(days, kinds=PICTURES):
    found = find_illness(kinds, days)
    return found and (found.kind.name, found.since)


def test_every_kind_is_tried_here():
    others = ["silent camera", "camera clock", "camera results"]
    assert [kind.name for kind in KINDS] == [*others[:2], *ILL, *others[2:]]


@pytest.mark.parametrize("kind", ILL)
def test_a_kind_is_named_on_its_first_day_and_stays_until_two_days_are_well(kind):
    well = [day_of(n) for n in range(20)]
    assert judge(well) is None
    ill = [ILL[kind](n) for n in range(20, 26)]
    named = kind, FIRST + timedelta(20)
    assert [judge([*well, *ill[: n + 1]]) for n in range(6)] == [named] * 6
    found = find_illness(PICTURES, [*well, ill[0]])
    assert found.text.startswith(f"{SAID[kind]} (by chance 1 in ")
    assert found.chance < 1e-4
    again = [day_of(n) for n in range(26, 28)]
    assert [judge([*well, *ill, *again[:n]]) for n in (1, 2)] == [named, None]


@pytest.mark.parametrize("kind", ILL)
def test_a_camera_that_sends_rarely_or_is_new_is_never_ill(kind):
    assert (
        judge([*(day_of(n, 3) for n in range(20)), ILL[kind](20)._replace(num_images=3, num_known=3, num_clear=3)])
        is None
    )
    assert judge([*(day_of(n) for n in range(4)), ILL[kind](4)]) is None


@pytest.mark.parametrize("kind", [*ILL][1:-1])
def test_days_of_a_former_version_without_figures_are_not_compared(kind):
    """As all are in the first night after an upgrade."""
    unknown = {"num_known": 0, "num_clear": 0, "contrast": 0.0, "sharpness": 0.0}
    before = [day_of(n, **unknown) for n in range(20)]
    assert judge([*before, day_of(20)]) is None
    assert judge([*before, ILL[kind](20)]) is None
    assert judge([*(day_of(n) for n in range(10)), *before[10:], ILL[kind](20)]) == (kind, FIRST + timedelta(20))


def test_a_camera_that_always_is_so_is_well():
    dark = [day_of(n, num_dark=8 + n % 3, num_clear=10) for n in range(28)]
    assert judge(dark) is None
    still = [day_of(n, num_repeats=17 + n % 2) for n in range(28)]
    assert judge(still) is None


def test_pictures_that_are_dark_together_tell_less_than_their_number():
    """A burst in the dusk, now and then: a day with two of them is no fault."""
    bursts = [day_of(n, num_dark=6 if n % 5 == 0 else 0) for n in range(25)]
    assert judge([*bursts, day_of(25, num_dark=12)]) is None
    alone = [day_of(n, num_dark=n % 2) for n in range(25)]
    assert judge([*alone, day_of(25, num_dark=12)]) == ("dark camera", FIRST + timedelta(25))


def test_of_what_follows_from_another_the_cause_is_named():
    well = [day_of(n) for n in range(20)]
    assert judge([*well, day_of(20, num_dark=15, num_clear=5, sharpness=1.0)])[0] == "dark camera"


def test_a_camera_whose_nights_look_otherwise_is_not_moved_on_a_day_of_nights_alone():
    mixed = [day_of(n, lowest=VIEW, highest=OTHER) for n in range(20)]
    assert judge([*mixed, day_of(20, lowest=OTHER, highest=OTHER)]) is None


def test_a_camera_without_a_view_as_in_grass_is_not_moved():
    rng = random.Random(1)
    days = [day_of(n, lowest=rng.getrandbits(64), highest=rng.getrandbits(64)) for n in range(40)]
    assert [judge(days[:n]) for n in range(40)] == [None] * 40


def test_another_view_is_usual_once_it_has_lasted_as_long_as_the_days_before():
    days = [*(day_of(n) for n in range(10)), *(ILL["moved camera"](n) for n in range(10, 35))]
    assert [judge(days[:n]) for n in (11, 21, 22)] == [("moved camera", FIRST + timedelta(10))] * 2 + [None]
    back = [*(ILL["moved camera"](n) for n in range(6)), *(day_of(n) for n in range(6, 28))]
    assert [judge(back[:n]) for n in range(29)] == [None] * 29


@pytest.mark.parametrize(
    ("unusual", "what"),
    [
        ({"car": 18, "deer": 2}, '18 of 20 images are "car", 0 % before'),
        ({"none": 19, "deer": 1}, "19 of 20 images have no label, 0 % before"),
        ({"score": 0.55, "deer": 20}, "the mean score is 0.55, 0.81 before"),
        ({"score": 0.99, "deer": 20}, "the mean score is 0.99, 0.81 before"),
    ],
)
def test_labels_and_scores_that_are_unusual_on_two_days_are_told(unusual, what):
    well = [results_of(n, 0.8 + 0.01 * (n % 3), deer=20) for n in range(20)]
    others = [results_of(n, **{"score": 0.81} | unusual) for n in (20, 21)]
    assert find_illness([RESULTS], [*well, others[0]]) is None
    found = find_illness([RESULTS], [*well, *others])
    assert found.text.startswith(f"has unusual labels or scores since 2026-10-21: {what} (by chance 1 in ")
    assert find_illness([RESULTS], [*well[8:], *others]) is None  # of less than two weeks


def test_labels_that_came_in_a_burst_before_are_not_unusual():
    burst, usual = {"boar": 16, "deer": 4}, {"deer": 15, "none": 5}
    days = [results_of(n, **(burst if n in (16, 17, 22, 23) else usual)) for n in range(24)]
    assert [find_illness([RESULTS], days[:n]) is not None for n in (18, 24)] == [True, False]


def clock(arrivals):
    found = find_illness([CLOCK], arrivals)
    return found and found.text


def test_a_clock_is_wrong_by_when_images_come():
    well = [arrival_of(n) for n in range(10)]
    assert clock(well) is None
    reset = arrival_of(10, late=timedelta(10_000))
    assert (
        clock([reset])
        == "has a wrong clock since 2026-10-11: it showed 1999-05-25 20:00 for an image that came on 2026-10-11"
    )
    back = arrival_of(10, late=timedelta(days=365, hours=6))
    assert clock([*well, back]).startswith(
        "has a wrong clock since 2026-10-11: its last image was 365.2 days old when it came, 0.3 before"
    )
    ahead = arrival_of(10, late=timedelta(days=-30))
    assert "it showed 2026-11-10 06:00 for an image that came on 2026-10-11" in clock([ahead])
    assert clock([*well, arrival_of(10, late=timedelta(hours=30))]) is None


def test_an_older_card_of_a_camera_whose_cards_come_late_is_no_wrong_clock():
    cards = [arrival_of(n, late=timedelta(days=(n * 7) % 30)) for n in range(0, 28, 4)]
    assert clock([*cards, arrival_of(28, late=timedelta(40))]) is None


def silent(own, *others, is_daily=False):
    """Return what is said of the first of some cameras, each given by the days on which it sent."""
    arrivals = [[arrival_of(n, num=20) for n in days] for days in (own, *others)]
    all_days = {one.ago for its in arrivals for one in its}
    return find_silence(arrivals[0], all_days, is_daily=is_daily)


def test_a_camera_that_sent_every_day_is_silent_at_its_first_day_without_images():
    found = silent(range(28), range(29))
    assert found.text == (
        "has brought no images since 2026-10-28: it sent on 28 of the 28 days before, and on none since"
        f" (by chance 1 in {1 / found.chance:,.0f})"
    )
    assert silent(range(29), range(29)) is None


def test_nobody_is_silent_while_nobody_sends():
    assert silent(range(25), range(25)) is None


def test_weekends_and_rare_senders_are_not_silent():
    weekdays = [n for n in range(28) if n % 7 < 5]
    assert silent(weekdays[:-5], range(22)) is None
    assert silent([n for n in weekdays if n < 19], range(23)) is None
    assert silent(weekdays[:5], range(25)).kind.name == "silent camera"
    assert silent([3, 11, 14], range(29)) is None


def test_what_is_to_bring_images_daily_is_silent_after_two_days():
    assert silent([26, 27], range(29)) is None
    found = silent([26, 27], range(29), is_daily=True)
    assert found.text == "has brought no images since 2026-10-28: some are expected every day"
    assert silent([26, 27, 28], range(29), is_daily=True) is None


def test_chances_are_those_of_their_distributions():
    """Where nothing was known before, each number of a total is equally likely but for the prior's half."""
    total = [_beta_binomial_tail(n, 6, 2, 9) - _beta_binomial_tail(n + 1, 6, 2, 9) for n in range(7)]
    assert sum(total) == pytest.approx(1)
    assert _beta_binomial_tail(3, 5, 1e9, 4e9) == pytest.approx(
        sum(comb(5, k) * 0.25**k * 0.75 ** (5 - k) for k in range(3, 6)), rel=1e-3
    )
    numbers = [3, 9, 1, 14, 6, 2, 11, 4, 8, 12]  # mean 7, variance 18.2
    assert _chance_of_none(numbers) == pytest.approx((18.2 / 7) ** (-7 / (18.2 / 7 - 1)), rel=1e-6)
    assert _chance_of_none([5, 0, 5]) == 2 / 5


@pytest.mark.parametrize("seed", range(3))
def test_healthy_cameras_are_told_less_than_once_in_200_days(seed):
    rng, told, num_days = random.Random(seed), [], 0
    for rate in (1, 4, 15, 60):
        night, noise = rng.uniform(0.2, 0.7), partial(rng.getrandbits, 64)
        scenes = noise(), noise()
        days = []
        for n in range(60):
            num = round(rate * rng.gammavariate(4, 0.25) * (0.5 if n % 7 > 4 else 1.0))
            dark = sum(rng.random() < 0.02 for _ in range(num))
            weather, at_night = rng.choice([0.6, 0.8, 1, 1, 1.2]), rng.betavariate(10 * night, 10 * (1 - night))
            sharpness = 14 * weather * (1 - at_night) + 8 * at_night
            repeats = sum(rng.random() < 0.2 for _ in range(max(0, num - dark - 1)))
            figures = {"num_dark": dark, "num_clear": num - dark, "num_repeats": repeats, "sharpness": sharpness}
            views = [rng.choices(scenes, [1 - at_night, at_night])[0] for _ in range(num - dark)]
            looks = [view ^ (noise() & noise() & noise()) for view in views]  # 8 of the 64 bits
            figures |= {"lowest": min(looks, default=0), "highest": max(looks, default=0)}
            if num:
                days.append(day_of(n, num, **figures, contrast=50 * weather))
            if found := judge([one for one in days if (day_of(n).date - one.date).days < 29], PICTURES[:-1]):
                told.append((rate, *found))
            num_days += 1
    assert len({*told}) <= num_days / 200, told
