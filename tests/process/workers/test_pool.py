"""Real processes that crash, hang, are killed and come back; what each image does to its worker is in toy_handlers."""

import itertools
import os
import signal
import threading
import time
from contextlib import suppress
from multiprocessing import forkserver

import psutil
import pytest

from infer_app.domain import Broken, Chunk, ChunkResult, ImageRef, Reason
from infer_app.errors import DeviceLost, InferError, MachineFailure, WorkersKilled
from infer_app.workers import fork_server
from infer_app.workers import pool as workers_module
from infer_app.workers.pool import Stage, WorkerPool
from tests.process.workers.toy_handlers import (
    FACTS,
    OpenOnce,
    OpenUntilLost,
    SteppingLane,
    Swollen,
    open_dying,
    open_refused,
    open_toy,
)
from tests.support.waiting import wait_until

TIMEOUT_S = 30.0  # no worker takes that long for a step, however busy the machine
HANG_S = 1.0  # the time limit of a step where one hangs


@pytest.fixture(scope="module")
def pool():
    """Two workers for all tests of this file that don't need their own: whatever one does to them, the next runs."""
    with pytest.MonkeyPatch.context() as patch, WorkerPool([Stage("toy", [open_toy] * 2)], TIMEOUT_S) as workers:
        patch.setattr(workers_module, "POLL_INTERVAL_S", 0.05)
        yield workers


@pytest.fixture
def hasty(pool):
    """Two workers whose steps may take HANG_S."""
    with WorkerPool([Stage("toy", [open_toy] * 2)], HANG_S) as workers:
        yield workers


@pytest.fixture
def lonely(pool):
    """One worker whose handler is open: what comes before that is not taken by the listening thread."""
    with WorkerPool([Stage("toy", [open_toy])], HANG_S) as workers:
        run(workers, chunk(0, "a"))
        yield workers


def chunk(number, *locations):
    return Chunk(number, tuple(ImageRef(f"{number}.{i}", location) for i, location in enumerate(locations)))


def run(workers, *chunks):
    """{image id: label, or reason of a rejection} over all results; each image in exactly one."""
    outcomes = {}
    for result in workers.run(chunks):
        for item in (*result.predictions, *result.broken):
            assert item.ref.image_id not in outcomes
            outcomes[item.ref.image_id] = item.reason if isinstance(item, Broken) else item.output.label
    return outcomes


def pids(workers):
    return set(workers.pids())


def kill_one(workers):
    """One that lives: whose end was not heard of yet may be gone already."""
    for pid in pids(workers):
        with suppress(ProcessLookupError):
            return os.kill(pid, signal.SIGKILL)
    raise AssertionError("no worker lives")


def worker_processes():
    children = psutil.Process().children(recursive=True)
    return [child for child in children if "multiprocessing.forkserver" in " ".join(child.parent().cmdline())]


def test_every_image_of_every_chunk_is_answered_once(pool):
    chunks = [chunk(n, *"abc"[: 1 + n % 3]) for n in range(40)]
    assert run(pool, *chunks) == {ref.image_id: ref.location for one in chunks for ref in one.refs}


def test_no_chunks_start_no_worker():
    with WorkerPool([Stage("toy", [open_toy] * 2)], TIMEOUT_S) as workers:
        assert list(workers.run([])) == []
        assert pids(workers) == set()


def test_workers_are_kept_between_runs(pool):
    run(pool, *[chunk(n, "a") for n in range(8)])
    before = pids(pool)
    scores = {result.predictions[0].output.score for result in pool.run([chunk(n, "a") for n in range(8)])}
    assert pids(pool) == before
    assert scores <= before


def test_only_as_many_chunks_are_taken_as_are_in_flight(pool):
    """A day is listed as it is done: two workers with two tasks each are ahead of the results by four."""
    taken = []

    def listed():
        for n in range(30):
            taken.append(n)
            yield chunk(n, "a")

    for number, _ in enumerate(pool.run(listed()), start=1):
        assert len(taken) <= number + 4


@pytest.mark.parametrize("position", range(3))
def test_a_decoder_that_dies_names_its_image_at_each_position_of_a_chunk(pool, position):
    locations = ["a", "b", "c"]
    locations[position] = "decode:SIGSEGV"
    expected: dict[str, object] = {"1.0": "a", "1.1": "b", "1.2": "c", "2.0": "d"}
    assert run(pool, chunk(1, *locations), chunk(2, "d")) == expected | {f"1.{position}": Reason.DECODER_CRASH}


@pytest.mark.parametrize("step", ["take", "expect"])
@pytest.mark.parametrize("error", ["raise", "OSError"])
def test_what_fails_in_the_thread_that_listens_ends_the_run(lonely, step, error):
    with pytest.raises(
        InferError, match="a worker failed: (ValueError: a bug in the handler|OSError: not of the pipe)"
    ):
        run(lonely, chunk(1, f"{step}:{error}"), *[chunk(n, "b") for n in range(2, 9)])


def test_what_the_machine_does_to_a_worker_is_no_bug(lonely):
    with pytest.raises(MachineFailure, match="^Too many open files$"):
        run(lonely, chunk(1, "take:EMFILE"))


def test_a_worker_that_never_begins_its_task_is_replaced(lonely, tmp_path):
    """Its listening thread hangs, as in a copy to a device: the main thread waits for a task that never comes."""
    hanging, before = f"once:{tmp_path / 'x'}:take:hang", pids(lonely)
    assert run(lonely, chunk(1, "a"), chunk(2, hanging), chunk(3, "b")) == {"1.0": "a", "2.0": hanging, "3.0": "b"}
    assert pids(lonely).isdisjoint(before)


def test_a_gpu_that_fails_once_rejects_nothing(pool, tmp_path):
    failing = f"once:{tmp_path / 'x'}:model:lost"
    assert run(pool, chunk(0, "a", failing, "b")) == {"0.0": "a", "0.1": failing, "0.2": "b"}


def test_a_gpu_that_does_not_come_back_ends_the_run_and_rejects_nothing(tmp_path):
    with WorkerPool([Stage("toy", [OpenUntilLost(tmp_path / "x")])], TIMEOUT_S) as workers:
        results = workers.run([chunk(0, "a", "model:lost", "b")])
        with pytest.raises(DeviceLost) as caught:
            list(results)
    assert caught.value.exit_code == 12


def test_a_gpu_that_fails_on_one_image_again_and_again_rejects_it_for_now_and_no_other(pool, tmp_path):
    assert run(pool, chunk(0, "a", "model:lost", "b"), chunk(1, "c")) == {
        "0.0": "a",
        "0.1": Reason.OUT_OF_MEMORY,
        "0.2": "b",
        "1.0": "c",
    }


def test_what_is_known_of_the_file_survives_the_crash(pool):
    results = list(pool.run([chunk(1, "decode:SIGABRT")]))
    detail = "the decoder died twice by SIGABRT, the second time alone"
    ref = ImageRef("1.0", "decode:SIGABRT")
    assert results == [ChunkResult(1, (), (Broken(ref, Reason.DECODER_CRASH, detail, "decode", FACTS),))]


def test_several_crashing_images_in_one_chunk_are_each_named(pool):
    bad = "decode:SIGBUS"
    expected = {"1.0": Reason.DECODER_CRASH, "1.1": "a", "1.2": Reason.DECODER_CRASH, "1.3": "b"}
    assert run(pool, chunk(1, bad, "a", bad, "b")) == expected


def test_a_decoder_that_dies_only_once_rejects_nothing(pool, tmp_path):
    assert set(run(pool, chunk(1, "a", f"once:{tmp_path / 'x'}:decode:SIGSEGV", "b"))) == {"1.0", "1.1", "1.2"}
    assert (tmp_path / "x").exists()


def test_a_step_that_hangs_is_ended_and_its_image_named(hasty):
    found = run(hasty, chunk(1, "a", "read:hang", "b"), chunk(2, "decode:hang"), chunk(3, "c"))
    assert found == {
        "1.0": "a",
        "1.1": Reason.READ_TIMEOUT,
        "1.2": "b",
        "2.0": Reason.DECODE_TIMEOUT,
        "3.0": "c",
    }


def test_a_model_that_dies_or_hangs_is_tried_image_by_image(hasty, monkeypatch):
    monkeypatch.setattr("infer_app.workers.worker.MODEL_TIMEOUT_FACTOR", 1)
    assert run(hasty, chunk(1, "a", "model:SIGFPE"), chunk(2, "model:hang", "b")) == {
        "1.0": "a",
        "1.1": Reason.MODEL_ERROR,
        "2.0": Reason.MODEL_ERROR,
        "2.1": "b",
    }


def test_the_model_has_more_time_than_one_image(hasty, tmp_path):
    """It has a whole chunk in hand."""
    slow = f"once:{tmp_path / 'x'}:model:SIGSTOP"
    results = hasty.run([chunk(1, slow)])
    threading.Timer(3 * HANG_S, lambda: [os.kill(pid, signal.SIGCONT) for pid in pids(hasty)]).start()
    assert [result.predictions[0].ref.image_id for result in results] == ["1.0"]


def test_a_worker_that_is_killed_blames_no_image(pool, tmp_path):
    killed = f"once:{tmp_path / 'x'}:decode:SIGKILL"
    assert run(pool, chunk(1, "a", killed), chunk(2, "b")) == {"1.0": "a", "1.1": killed, "2.0": "b"}


def test_workers_that_are_killed_from_outside_are_replaced(pool):
    seen = []
    for number, result in enumerate(pool.run(chunk(n, "a") for n in range(30))):
        seen.append(result.number)
        if number in (5, 15):
            kill_one(pool)
    assert sorted(seen) == list(range(30))
    assert len(pids(pool)) == 2


def test_a_worker_that_was_killed_while_idle_is_replaced(pool):
    run(pool, *[chunk(n, "a") for n in range(8)])
    for process in worker_processes():
        process.kill()
    assert run(pool, *[chunk(n, "a") for n in range(8)]) == {f"{n}.0": "a" for n in range(8)}


def test_an_image_that_always_gets_its_worker_killed_is_out_of_memory(pool, monkeypatch):
    monkeypatch.setattr("infer_app.workers.retry_policy.KILLS_BEFORE_SPLIT", 1)
    monkeypatch.setattr("infer_app.workers.retry_policy.KILLS_BEFORE_REJECTION", 2)
    assert run(pool, chunk(1, "a", "decode:SIGKILL")) == {"1.0": "a", "1.1": Reason.OUT_OF_MEMORY}


def test_workers_that_only_die_end_the_run(pool, monkeypatch):
    monkeypatch.setattr("infer_app.workers.retry_policy.MAX_EXITS_IN_A_ROW", 3)
    monkeypatch.setattr("infer_app.workers.retry_policy.MIN_NO_RESULT_S", 0)
    with pytest.raises(WorkersKilled, match="3 workers ended one after another"):
        run(pool, chunk(1, "decode:SIGKILL"))


def test_a_lane_that_can_not_be_opened_ends_the_run_with_its_own_exit_code():
    with WorkerPool([Stage("toy", [open_refused])], TIMEOUT_S) as workers, pytest.raises(InferError) as caught:
        run(workers, chunk(1, "a"))
    assert (caught.value.message, caught.value.hint, caught.value.exit_code) == (
        "models/pets: changed since it was built",
        "restore it",
        12,
    )


def test_a_worker_that_dies_while_starting_ends_the_run():
    with (
        WorkerPool([Stage("toy", [open_dying])], TIMEOUT_S) as workers,
        pytest.raises(InferError, match=r"starting \(exit code 7\)"),
    ):
        run(workers, chunk(1, "a"))


def test_a_worker_that_is_killed_while_starting_is_replaced(tmp_path):
    with WorkerPool([Stage("toy", [OpenOnce(tmp_path / "x")])], TIMEOUT_S) as workers:
        assert run(workers, chunk(1, "a")) == {"1.0": "a"}


@pytest.mark.parametrize("after", [0, 1, 7])
def test_a_fork_server_that_is_killed_is_started_again(after):
    """As by the kernel, for memory; its workers end with it."""
    some = [chunk(n, "a", "b") for n in range(300)]
    outcomes = {}
    with WorkerPool([Stage("toy", [open_toy] * 2)], TIMEOUT_S) as workers:
        results = workers.run(some)
        for _ in range(after):
            outcomes |= labels(next(results))
        fork_server.start_early()
        server = forkserver._forkserver._forkserver_pid
        os.kill(server, signal.SIGKILL)
        for result in results:
            outcomes |= labels(result)
        assert forkserver._forkserver._forkserver_pid != server
    assert outcomes == {ref.image_id: ref.location for one in some for ref in one.refs}


def labels(result):
    return {prediction.ref.image_id: prediction.output.label for prediction in result.predictions}


def test_a_lane_that_raises_is_a_bug_and_ends_the_run_with_its_traceback(pool):
    with pytest.raises(InferError, match="a worker failed: ValueError: a bug in the handler") as caught:
        run(pool, chunk(1, "decode:raise"))
    assert (caught.value.exit_code, "in happen" in caught.value.hint) == (1, True)
    assert run(pool, chunk(2, "a")) == {"2.0": "a"}


def test_messages_larger_than_a_pipe_both_ways_do_not_block():
    """Two tasks are on their way to a worker while its answers are."""
    size = 1 << 20
    with WorkerPool([Stage("toy", [Swollen(size)])], 30) as workers:
        results = list(workers.run(chunk(n, "x" * size) for n in range(6)))
    assert [(result.number, len(result.predictions[0].output.vector)) for result in results] == [
        (n, size) for n in range(6)
    ]


def test_an_abandoned_run_ends_the_workers_that_are_busy(pool):
    results = pool.run(chunk(n, "a" if n == 0 else "decode:SIGSTOP") for n in range(9))
    next(results)
    busy = pids(pool)
    results.close()
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in busy - pids(pool)))
    assert run(pool, chunk(1, "b")) == {"1.0": "b"}


def test_an_error_of_the_consumer_ends_the_workers_and_leaves_none():
    with pytest.raises(ZeroDivisionError), WorkerPool([Stage("toy", [open_toy])], TIMEOUT_S) as workers:
        for _ in workers.run(chunk(n, "a") for n in itertools.count()):
            ours = pids(workers)
            raise ZeroDivisionError
    assert not any(psutil.pid_exists(pid) for pid in ours)


def test_an_error_of_the_source_ends_the_workers_and_leaves_none():
    def listed():
        yield chunk(1, "a")
        raise ZeroDivisionError

    with WorkerPool([Stage("toy", [open_toy] * 2)], TIMEOUT_S) as workers:
        with pytest.raises(ZeroDivisionError):
            list(workers.run(listed()))
        assert pids(workers) == set()


def test_no_process_is_left_behind(pool):
    with WorkerPool([Stage("toy", [open_toy])], TIMEOUT_S) as workers:
        run(workers, chunk(1, "a"))
    assert {process.pid for process in worker_processes()} == pids(pool)


def test_a_worker_that_started_while_nobody_listened_is_not_late(monkeypatch):
    """As in the minutes in which a database is away."""
    with WorkerPool([Stage("toy", [open_toy] * 2)], TIMEOUT_S) as workers:
        workers._dispatch(iter([chunk(0, "a"), chunk(1, "b")]))
        wait_until(lambda: all(worker.pipe.poll() for worker in workers._stages[0].workers))
        monkeypatch.setattr("infer_app.workers.worker.OPEN_LIMIT_S", 0.1)
        time.sleep(0.2)
        started = pids(workers)
        assert run(workers) == {"0.0": "a", "1.0": "b"}
        assert (len(started), pids(workers)) == (2, started)


@pytest.mark.parametrize("level", ["WARNING", "INFO"])
def test_what_a_worker_logs_is_said_by_the_supervisor_with_chunk_and_worker(caplog, level):
    caplog.set_level(level, "infer_app")
    with WorkerPool([Stage("toy", [open_toy])], TIMEOUT_S) as workers:
        run(workers, chunk(7, "read:log"))
        (pid,) = pids(workers)
    said = [(record.name, record.message, record.chunk, record.worker) for record in caplog.records]
    first = ("infer_app.toy", "a line of a worker", 7, pid)
    assert said == [first, *([("infer_app.toy", "less", 7, pid)] if level == "INFO" else [])]


@pytest.mark.alone
@pytest.mark.parametrize("seconds", [3, pytest.param(600, marks=[pytest.mark.full, pytest.mark.timeout(900)])])
def test_no_healthy_worker_is_ended(seconds):
    """Each message has the supervisor look at every worker, thousands of times beyond the time limit of a step."""
    started = time.monotonic()
    numbers = itertools.takewhile(lambda _: time.monotonic() < started + seconds, itertools.count())
    with WorkerPool([Stage("toy", [SteppingLane] * 2)], timeout_s=1.0) as workers:
        chunks = (chunk(number, *"abcdefgh") for number in numbers)
        results = [(len(result.predictions), result.broken) for result in workers.run(chunks)]
        assert set(results) == {(8, ())}
        assert len(pids(workers)) == 2
