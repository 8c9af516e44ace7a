"""What measures runs with no other test beside it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Tests run beside each other, by pytest-xdist; one marked `alone`, which measures, has the machine to itself.

    One lock with many readers and a writer, behind a turnstile, without which the readers would keep the writer out.
    Two folders are what is locked: nothing is left to be removed.
    """
    with _folder(TESTS) as turnstile, _folder(TESTS / "unit") as lock:
        fcntl.flock(turnstile, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH)
        fcntl.flock(turnstile, fcntl.LOCK_UN)
        return (yield)


@contextmanager
def _folder(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # a process that was forked meanwhile would keep it
        os.close(descriptor)
