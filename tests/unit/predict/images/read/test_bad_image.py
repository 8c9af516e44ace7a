import time
from contextlib import nullcontext

import pytest

from infer_app.predict.images.read.bad_image import BadImage, Transient, with_retries


@pytest.mark.parametrize(
    ("failures", "retries", "pause_s", "tried", "refused"),
    [
        (2, 2, 0.0, 3, None),
        (3, 2, 0.0, 3, "busy; tried 3 times"),
        (1, 0, 0.0, 1, "busy"),
        (1, 9, 3600.0, 1, "busy"),  # the server asks for a pause that ends after the deadline
        (1, 9, None, 2, None),  # for a pause of our own
    ],
)
def test_a_read_is_tried_again_until_the_retries_or_the_time_are_used_up(failures, retries, pause_s, tried, refused):
    attempts = []

    def attempt():
        attempts.append(len(attempts) + 1)
        if len(attempts) <= failures:
            raise Transient("busy", pause_s)
        return "read"

    with pytest.raises(BadImage, match=f": {refused}$") if refused else nullcontext():
        assert with_retries(attempt, retries, time.monotonic() + 60) == "read"
    assert len(attempts) == tried


def test_a_limit_of_the_server_uses_up_no_retries_but_the_time():
    attempts = []

    def attempt():
        attempts.append(0)
        if len(attempts) < 9:
            raise Transient("HTTP 503", 0.0, is_limit=True)
        return "read"

    assert with_retries(attempt, 1, time.monotonic() + 60) == "read"
    attempts.clear()
    with pytest.raises(BadImage, match=": HTTP 503$"):
        with_retries(attempt, 1, time.monotonic())
