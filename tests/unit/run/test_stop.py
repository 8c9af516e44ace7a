import os
import signal
import time
from datetime import datetime

import pytest

from infer_app.base.errors import Interrupted, UsageError
from infer_app.run.stop import Stop, seconds_until


def test_a_signal_ends_the_items_and_decides_the_exit_code():
    seen, before = [], signal.getsignal(signal.SIGTERM)
    with Stop() as stop:
        for item in stop.until(range(10)):
            seen.append(item)
            if item == 2:
                os.kill(os.getpid(), signal.SIGTERM)
    assert seen == [0, 1, 2]
    assert stop.exit_code == 143
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_second_signal_ends_at_once():
    with Stop(), pytest.raises(Interrupted) as caught:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    assert caught.value.exit_code == 130


def test_a_deadline_counts_only_when_it_left_something_undone():
    late = Stop(deadline_s=0)
    assert late.exit_code == 0
    assert list(late.until(range(10))) == []
    assert late.exit_code == 75


@pytest.mark.parametrize(
    ("now", "finish_by", "hours"),
    [
        (datetime(2026, 11, 20, 4, 30), "05:00", 0.5),
        (datetime(2026, 11, 20, 4, 30), "04:00", 23.5),
        (datetime(2027, 3, 27, 22), "06:00", 7),  # nights in which the clock is changed
        (datetime(2026, 10, 24, 22), "06:00", 9),
        (datetime(2026, 10, 25, 2, 50), "02:30", 40 / 60),  # which comes twice
        (datetime(2026, 10, 25, 2, 50, fold=1), "02:30", 23 + 40 / 60),
    ],
)
def test_finish_by_is_the_next_such_time_of_the_clock(monkeypatch, now, finish_by, hours):
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        assert seconds_until(finish_by, now) == hours * 3600
    time.tzset()


def test_finish_by_is_a_time():
    with pytest.raises(UsageError, match="not a time"):
        seconds_until("5 o'clock", datetime(2026, 11, 20))
