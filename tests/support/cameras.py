"""Days of a camera, as rows of `read_camera_days` and `read_arrivals` sum them up, and as rows of pictures."""

from datetime import UTC, date, datetime, timedelta

from infer_app.tables.cameras.camera_days import Arrival, CameraDay

FIRST = date(2026, 10, 1)


def day_of(n, num=20, **more):
    """Return a day on which all is well."""
    usual = {"num_rejected": 0, "num_known": num, "num_dark": 0, "num_bright": 0}
    usual |= {"num_clear": num, "num_repeats": 0, "contrast": 50.0 + n % 3, "sharpness": 12.0 + n % 4}
    return CameraDay("cam1", FIRST + timedelta(n), num, **usual | more)


def arrival_of(n, num=20, last=29, late=timedelta(hours=8), camera="cam1"):
    """Return what came on the morning of a day, when the last morning is another."""
    at = datetime(2026, 10, 1, 6, tzinfo=UTC).replace(tzinfo=None) + timedelta(n)
    return Arrival(camera, last - n, at.date(), at, num, at - late - timedelta(hours=10), at - late)
