"""What a handler does in its process, how long a step may take, and what the supervisor says of a worker."""

import itertools
import os
import signal
import threading
import time
from functools import partial

import pytest

from infer_app.base.domain import Reason
from infer_app.base.errors import DeviceLost, InferError, MachineFailure, ModelError, WorkersKilled
from infer_app.predict.workers import retry_policy, worker
from tests.process.predict.workers.conftest import HANG_S, TIMEOUT_S, chunk, chunks, each_pool, right, run
from tests.process.predict.workers.toy_calls import die, refuse
from tests.process.predict.workers.toy_handlers import (
    CountingLane,
    OpenLate,
    OpenNever,
    OpenOnly,
    SteppingLane,
    SwollenLane,
    happen,
)
from tests.support.outcomes import outcomes
from tests.support.waiting import wait_until


@pytest.mark.parametrize("happening", ["take:raise", "take:OSError", "expect:raise", "expect:OSError", "decode:raise"])
def test_a_bug_in_a_handler_ends_the_run_with_its_traceback(start, happening):
    """Also in the thread that listens, once the handler is open."""
    workers = start(num_workers=1)
    run(workers, [chunk(0, "good")])
    with pytest.raises(InferError, match="a worker failed: (ValueError: a bug|OSError: not of the pipe)") as caught:
        run(workers, [chunk(1, happening), *chunks(9)])
    assert (caught.value.exit_code, "in happen" in caught.value.hint) == (1, True)
    assert run(workers, chunks(2)) == right(chunks(2))


def test_what_the_machine_does_to_a_worker_is_no_bug(start):
    workers = start(num_workers=1)
    run(workers, [chunk(0, "good")])
    with pytest.raises(MachineFailure, match="^Too many open files$"):
        run(workers, [chunk(1, "take:EMFILE")])


@each_pool
@pytest.mark.parametrize(
    ("opener", "error"),
    [(partial(refuse, "models/pets"), "^models/pets: refused"), (partial(os._exit, 7), r"starting \(exit code 7\)")],
)
def test_a_handler_that_can_not_be_opened_ends_the_run(start, num_stages, opener, error):
    with pytest.raises(ModelError, match=error) as caught:
        run(start(num_stages, opener=opener), chunks(5))
    assert (caught.value.exit_code, bool(caught.value.hint)) == (12, True)


def test_a_worker_that_is_killed_while_starting_is_replaced(start, tmp_path):
    opener = OpenOnly(tmp_path / "x", otherwise=die, is_first=False)
    assert run(start(num_workers=1, opener=opener), chunks(2)) == right(chunks(2))


def test_no_result_comes_before_the_first_worker_is_open_which_may_verify_the_model_for_all(start, tmp_path):
    counted, opened, some = tmp_path / "counted", tmp_path / "opened", chunks(12)
    late = OpenLate(counted, then=opened.touch)
    answers = []
    for result in start(opener=CountingLane(file=counted), first=late).run(some):
        assert opened.exists()
        answers.append(result)
    assert outcomes(answers) == right(some)


def test_a_first_worker_that_can_not_be_opened_leaves_no_result_of_others(start, tmp_path):
    late = OpenLate(tmp_path / "counted", then=partial(refuse, "models/pets"))
    with pytest.raises(ModelError, match="^models/pets: refused"):
        for _ in start(opener=CountingLane(file=tmp_path / "counted"), first=late).run(chunks(12)):
            pytest.fail("a result of a model that is not verified")


def test_a_first_worker_that_is_killed_at_each_start_ends_the_run_while_others_have_results(
    start, tmp_path, monkeypatch
):
    """Which are held until it has verified the model: not to the end of the input."""
    monkeypatch.setattr(retry_policy, "MAX_EXITS_IN_A_ROW", 3)
    monkeypatch.setattr(retry_policy, "MIN_NO_RESULT_S", 0)
    lane, never = CountingLane(file=tmp_path / "counted"), OpenNever(tmp_path / "counted")
    with pytest.raises(WorkersKilled, match="3 workers ended one after another"):
        for _ in start(opener=lane, first=never).run(chunk(number, "good") for number in range(100_000)):
            pytest.fail("a result of a model that is not verified")


def test_a_gpu_that_does_not_come_back_ends_the_run_and_rejects_nothing(start, tmp_path):
    opener = OpenOnly(tmp_path / "x", otherwise=partial(happen, "open:lost", "open"), is_first=True)
    with pytest.raises(DeviceLost) as caught:
        list(start(num_workers=1, opener=opener).run([chunk(0, "good", "model:lost", "good")]))
    assert caught.value.exit_code == 12


def test_messages_larger_than_a_pipe_both_ways_do_not_block(start):
    """Two tasks are on their way to a worker while its answers are."""
    size = 1 << 20
    results = start(num_workers=1, opener=SwollenLane(num_bytes=size)).run(chunk(n, "x" * size) for n in range(6))
    assert [(one.number, len(one.predictions[0].output.vector)) for one in results] == [(n, size) for n in range(6)]


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
    monkeypatch.setattr(worker, "MODEL_TIMEOUT_FACTOR", 1)
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
    wait_until(lambda: all(one.pipe.poll() for one in workers._stages[0].workers))
    monkeypatch.setattr(worker, "OPEN_LIMIT_S", 0.1)
    monkeypatch.setattr(worker, "MODEL_TIMEOUT_FACTOR", 0)
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
