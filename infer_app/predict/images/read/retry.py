"""Retry reads that may succeed a second later, with random pauses so that readers don't all retry at the same time."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from infer_app.base.domain import Reason
from infer_app.predict.images.read.bad_image import BadImage

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 8.0

T = TypeVar("T")


class Transient(Exception):
    """A read failure that may be temporary; `pause_s` is the pause that the server requested."""

    def __init__(self, detail: str, pause_s: float | None = None) -> None:
        super().__init__(detail, pause_s)
        self.detail = detail
        self.pause_s = pause_s


def with_retries(attempt: Callable[[], T], retries: int, deadline: float) -> T:
    """Call `attempt`, and after a Transient again, with exponential back-off and full jitter.

    Raises BadImage(READ_ERROR) when the retries, or the time until the deadline, are used up.
    """
    for number in range(retries + 1):
        try:
            return attempt()
        except Transient as failure:
            longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**number)
            pause = random.uniform(0, longest) if failure.pause_s is None else failure.pause_s
            if number == retries or time.monotonic() + pause >= deadline:
                times = f"; tried {number + 1} times" if number else ""
                raise BadImage(Reason.READ_ERROR, f"{failure.detail}{times}") from failure
        time.sleep(pause)
    raise AssertionError("the last attempt returns or raises")
