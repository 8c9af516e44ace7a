"""Intervals as tables of the binomial distribution have them."""

import pytest

from infer_app.predict.verification.share import Share


@pytest.mark.parametrize(
    ("kept", "of", "low", "high"),
    [  # quantiles of the beta distribution, by scipy.stats.beta.ppf
        (99, 100, 0.945541, 0.999747),
        (300, 300, 0.987779, 1.0),
        (976, 1000, 0.964499, 0.984564),
        (1, 2, 0.012579, 0.987421),
        (0, 10, 0.0, 0.308497),
        (99_000, 100_000, 0.989364, 0.990607),
        (0, 0, 0.0, 1.0),
    ],
)
def test_the_interval_is_that_of_clopper_and_pearson(kept, of, low, high):
    assert Share(kept / max(1, of), of, "label").interval == pytest.approx((low, high), abs=1e-6)


def test_a_share_is_told_with_its_interval_and_enough_decimals_to_be_no_hundred_percent():
    told = [str(Share(kept / of, of, "label")) for kept, of in ((99, 100), (4999, 5000), (1, 1))]
    assert told == [
        "99 of 100 labels: between 94.6 and 99.97 %",
        "4,999 of 5,000 labels: between 99.9 and 99.9995 %",
        "1 of 1 label: between 2.5 and 100 %",
    ]


def test_the_objects_of_an_image_count_once_in_the_interval():
    objects = Share(0.96, 5000, "object", num_independent=400)
    assert objects.interval == Share(384 / 400, 400, "image").interval
    assert str(objects) == "4,800 of 5,000 objects: between 93.6 and 97.7 %"
