"""Days of a camera, as rows of `read_camera_days` and `read_arrivals` sum them up, and as rows of pictures."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta

from infer_app.tables.cameras.camera_days import Arrival, CameraDay, DayResults

FIRST = date(2026, 10, 1)
VIEW = 0x0F1E2D3C4B5A6978


def day_of(n, num=20, **more):
    """Return a day on which all is well."""
    usual = {"num_rejected": 0, "num_known": num, "num_dark": 0, "num_bright": 0}
    usual |= {"num_clear": num, "num_repeats": 0, "contrast": 50.0 + n % 3, "sharpness": 12.0 + n % 4}
    usual |= {"lowest": VIEW, "highest": VIEW}
    return CameraDay("cam1", FIRST + timedelta(n), num, **usual | more)


def results_of(n, score=0.8, **labels):
    """Return what a model says of the pictures of a day, so many of each label; `none`: of no label."""
    num_images, num_none = sum(labels.values()), labels.pop("none", 0)
    return DayResults(
        "cam1", FIRST + timedelta(n), num_images, num_images - num_none, score, Counter(labels | {"": num_none})
    )


def arrival_of(n, num=20, last=29, late=timedelta(hours=8), camera="cam1"):
    """Return what came on the morning of a day, when the last morning is another."""
    at = datetime(2026, 10, 1, 6, tzinfo=UTC).replace(tzinfo=None) + timedelta(n)
    return Arrival(camera, last - n, at.date(), at, num, at - late - timedelta(hours=10), at - late)
