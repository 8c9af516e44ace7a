import threading
import time

import pytest

from infer_app.base.telemetry.notify import Ping, event_url, wait_for


def wait(task):
    wait_for([task], time.monotonic() + 60, lambda: False)
    return task.problem


@pytest.mark.parametrize(
    ("url", "start"),
    [
        ("https://hc/u", "https://hc/u/start"),
        ("https://hc/u/", "https://hc/u/start"),
        ("https://hc/u?create=1", "https://hc/u/start?create=1"),
    ],
)
def test_the_event_is_the_end_of_the_path(url, start):
    assert (event_url(url, "start"), event_url(url, "")) == (start, url)


def test_the_start_delays_nobody_and_still_comes_first(listener):
    listener.gates["/u/start"] = threading.Event()
    end = Ping(f"{listener.url}/u", start_s=60.0).end(0, "")  # though the start is not answered
    end.wait(time.monotonic() + 0.2)
    assert (end.has_ended, "/u" in listener.paths) == (False, False)
    listener.gates["/u/start"].set()
    assert wait(end) is None
    assert listener.paths == ["/u/start", "/u"]


def test_a_start_that_hangs_does_not_hold_up_the_end(listener):
    listener.gates["/u/start"] = threading.Event()
    ping = Ping(f"{listener.url}/u", start_s=0.3)
    assert wait(ping.end(0, "")) is None
    assert listener.paths == ["/u"]
    listener.gates["/u/start"].set()
