import os
import signal
import time
from datetime import datetime

import pytest

from infer_app.errors import Interrupted, UsageError, most_severe
from infer_app.pipeline.stop import Stop, seconds_until


def test_a_signal_ends_the_items_and_decides_the_exit_code():
    seen = []
    with Stop() as stop:
        for item in stop.until(range(10)):
            seen.append(item)
            if item == 2:
                os.kill(os.getpid(), signal.SIGTERM)
    assert seen == [0, 1, 2]
    assert stop.exit_code == 143


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


def test_the_handlers_are_given_back():
    before = signal.getsignal(signal.SIGTERM)
    with Stop():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_finish_by_is_the_next_such_time():
    now = datetime(2026, 11, 20, 4, 30)
    assert seconds_until("05:00", now) == 1800
    assert seconds_until("04:00", now) == 23.5 * 3600
    with pytest.raises(UsageError, match="not a time"):
        seconds_until("5 o'clock", now)


@pytest.mark.parametrize(("now", "hours"), [(datetime(2027, 3, 27, 22), 7), (datetime(2026, 10, 24, 22), 9)])
def test_finish_by_is_a_time_of_the_clock_in_a_night_that_changes_it(monkeypatch, now, hours):
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        assert seconds_until("06:00", now) == hours * 3600
    time.tzset()


def test_the_gravest_exit_code_of_several_days():
    assert most_severe([]) == 0
    assert most_severe([0, 3, 75]) == 3
    assert most_severe([0, 12, 13]) == 12
    assert most_severe([3, 143]) == 143
