"""Waiting for what another thread or process does."""

import time
from collections.abc import Callable


def wait_until(is_true: Callable[[], object], limit_s: float = 60.0) -> None:
    """Return as soon as `is_true` is, and fail after `limit_s`."""
    end = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.01)
