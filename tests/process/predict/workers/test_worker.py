"""How long a step of a worker may take, and what the supervisor says of a worker."""

import itertools
import os
import signal
import threading
import time

import pytest

from infer_app.base.domain import Reason
from tests.process.predict.workers.conftest import HANG_S, TIMEOUT_S, chunk, each_pool, right, run
from tests.process.predict.workers.toy_handlers import SteppingLane
from tests.support.waiting import wait_until


@each_pool
@pytest.mark.parametrize(
    ("happening", "reason"),
    [
        ("decode:SIGSEGV", Reason.DECODER_CRASH),
        ("decode:SIGKILL", Reason.OUT_OF_MEMORY),
        ("read:hang", Reason.READ_TIMEOUT),
        ("decode:hang", Reason.DECODE_TIMEOUT),
        ("model:SIGFPE", Reason.MODEL_ERROR),
        ("model:hang", Reason.MODEL_ERROR),
        ("model:lost", Reason.OUT_OF_MEMORY),
    ],
)
def test_what_an_image_does_each_time_rejects_it_and_no_other(start, num_stages, happening, reason, monkeypatch):
    """At each place of a chunk, and also two of one."""
    monkeypatch.setattr("infer_app.predict.workers.worker.MODEL_TIMEOUT_FACTOR", 1)
    some = [chunk(0, happening, "good", "good"), chunk(1, "good", happening, "good", happening), chunk(2, "good")]
    workers = start(num_stages, timeout_s=HANG_S if happening.endswith("hang") else TIMEOUT_S)
    assert run(workers, some) == right(some, **{happening: reason})


@each_pool
@pytest.mark.parametrize("happening", ["decode:SIGSEGV", "decode:SIGKILL", "model:lost", "take:hang"])
def test_what_happens_once_rejects_nothing(start, num_stages, happening, tmp_path):
    workers = start(num_stages, 1, timeout_s=HANG_S if happening.endswith("hang") else TIMEOUT_S)
    run(workers, [chunk(0, "good")])  # what comes before the handler is open is not taken by the listening thread
    before = set(workers.pids())
    some = [chunk(1, "good", f"once:{tmp_path / 'x'}:{happening}"), chunk(2, "good")]
    assert run(workers, some) == right(some)
    assert (tmp_path / "x").exists()
    assert before - set(workers.pids())  # another process is there in the place of one of them


def test_the_model_has_more_time_than_one_image(start, tmp_path):
    """It has a whole chunk in hand."""
    workers, some = start(timeout_s=HANG_S), [chunk(1, f"once:{tmp_path / 'x'}:model:SIGSTOP")]
    threading.Timer(3 * HANG_S, lambda: [os.kill(pid, signal.SIGCONT) for pid in workers.pids()]).start()
    assert run(workers, some) == right(some)
    assert len(workers.pids()) == 1


def test_a_worker_that_started_while_nobody_listened_is_not_late(start, monkeypatch):
    """As in the minutes in which a database is away."""
    workers, some = start(), [chunk(0, "good"), chunk(1, "good")]
    workers._dispatch(iter(some))
    wait_until(lambda: all(worker.pipe.poll() for worker in workers._stages[0].workers))
    monkeypatch.setattr("infer_app.predict.workers.worker.OPEN_LIMIT_S", 0.1)
    monkeypatch.setattr("infer_app.predict.workers.worker.MODEL_TIMEOUT_FACTOR", 0)
    time.sleep(0.2)
    started = workers.pids()
    assert run(workers, []) == right(some)
    assert (len(started), workers.pids()) == (2, started)


@pytest.mark.parametrize("level", ["WARNING", "INFO"])
def test_what_a_worker_logs_is_said_by_the_supervisor_with_chunk_and_worker(start, caplog, level):
    caplog.set_level(level, "infer_app")
    workers = start(num_workers=1)
    run(workers, [chunk(7, "read:log")])
    (pid,) = workers.pids()
    said = [(record.name, record.message, record.chunk, record.worker) for record in caplog.records]
    first = ("infer_app.toy", "a line of a worker", 7, pid)
    assert said == [first, *([("infer_app.toy", "less", 7, pid)] if level == "INFO" else [])]


@pytest.mark.alone
@pytest.mark.parametrize("seconds", [3, pytest.param(600, marks=[pytest.mark.full, pytest.mark.timeout(900)])])
def test_no_healthy_worker_is_ended(start, seconds):
    """Each message has the supervisor look at every worker, thousands of times beyond the time limit of a step."""
    started = time.monotonic()
    numbers = itertools.takewhile(lambda _: time.monotonic() < started + seconds, itertools.count())
    workers = start(timeout_s=1.0, opener=SteppingLane())
    results = workers.run(chunk(number, *"abcdefgh") for number in numbers)
    assert {(len(result.predictions), result.broken) for result in results} == {(8, ())}
    assert len(workers.pids()) == 2
