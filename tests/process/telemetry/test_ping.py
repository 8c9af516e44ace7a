import threading
import time

import pytest

from infer_app.telemetry import notify
from infer_app.telemetry.notify import Ping, event_url, wait_for
from tests.support.listeners import Recorder


@pytest.fixture
def server():
    server = Recorder()
    yield server
    server.close()


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


def test_the_start_delays_nobody_and_still_comes_first(server, monkeypatch):
    monkeypatch.setattr(notify, "START_S", 60.0)
    server.gates["/u/start"] = threading.Event()
    end = Ping(f"{server.url}/u").end(0, "")  # though the start is not answered
    server.gates["/u/start"].set()
    assert wait(end) is None
    assert server.paths == ["/u/start", "/u"]


def test_a_start_that_hangs_does_not_hold_up_the_end(server, monkeypatch):
    monkeypatch.setattr(notify, "START_S", 0.3)
    server.gates["/u/start"] = threading.Event()
    ping = Ping(f"{server.url}/u")
    assert wait(ping.end(0, "")) is None
    assert server.paths == ["/u"]
    server.gates["/u/start"].set()
