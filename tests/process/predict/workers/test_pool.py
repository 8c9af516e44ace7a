"""Real processes that crash, hang, are killed and come back, in a pool of one stage and in one of two around a ring.

What each image does to its process is in toy_handlers.
"""

import itertools
import os
import random
import signal
import threading
import time
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path

import psutil
import pytest

from infer_app.base.domain import Broken, Chunk, ChunkResult, ImageRef, Reason
from infer_app.base.errors import DeviceLost, InferError, MachineFailure, ModelError, WorkersKilled
from infer_app.base.size import Size
from infer_app.predict.workers import fork_server
from infer_app.predict.workers import pool as workers_module
from infer_app.predict.workers.pool import TASKS_AHEAD, Stage, WorkerPool, slots_for
from infer_app.predict.workers.retry_policy import KILLS_BEFORE_REJECTION
from infer_app.predict.workers.shared_ring import Ring
from tests.process.predict.workers.toy_handlers import (
    FACTS,
    OpenOnly,
    SteppingLane,
    SwollenLane,
    ToyDevice,
    ToyHandler,
    ToyLane,
    ToyLoader,
    be_killed,
    code,
    find_no_gpu,
    open_dying,
    open_refused,
)
from tests.support.outcomes import outcomes
from tests.support.waiting import wait_until

TIMEOUT_S = 30.0  # no worker takes that long for a step, however busy the machine
HANG_S = 1.0  # the time limit of a step where one hangs
BATCH = 4
each_pool = pytest.mark.parametrize("num_stages", [1, 2], ids=["one stage", "two stages"])


@pytest.fixture
def start(monkeypatch):
    """start(…) is a pool, of which no process is left at the end, and no slot of its ring is taken."""
    monkeypatch.setattr(workers_module, "POLL_INTERVAL_S", 0.05)
    started = []

    def start_pool(num_stages=1, num_workers=2, timeout_s=TIMEOUT_S, load_s=0.0, predict_s=0.0, opener=None):
        """`opener` is that of the last stage's handler."""
        ring = None
        stages = [Stage("toy", [opener or ToyLane(load_s + predict_s)] * num_workers)]
        if num_stages == 2:
            ring = Ring(slots_for(num_workers), BATCH, Size.square(16))
            load = Stage("load", [ToyLoader(load_s, ring)] * num_workers)
            stages = [load, Stage("predict", [opener or ToyDevice(predict_s, ring)])]
        started.append((WorkerPool(stages, timeout_s, ring), ring, slots_for(num_workers)))
        return started[-1][0]

    yield start_pool
    for workers, ring, num_slots in started:
        assert ring is None or ring.num_free == num_slots
        with workers:
            pass
    wait_until(lambda: not any(map(is_of_a_server, psutil.Process().children(recursive=True))))


def is_of_a_server(process):
    """Whether it is a worker, also one whose pool has forgotten it."""
    with suppress(psutil.Error, AttributeError):  # it or its parent has just gone
        return "multiprocessing.forkserver" in " ".join(process.parent().cmdline())
    return False


def chunk(number, *locations):
    return Chunk(number, tuple(ImageRef(f"{number}.{i}", location) for i, location in enumerate(locations)))


def chunks(num_chunks, *locations):
    """Of one to four images; the locations in turn, `good` by default."""
    where = itertools.cycle(locations or ["good"])
    return [chunk(number, *itertools.islice(where, 1 + number % BATCH)) for number in range(num_chunks)]


def run(workers, some):
    """{image id: label, or reason of a rejection} over all results; each image in exactly one."""
    return outcomes(workers.run(some))


def right(some, **instead):
    """Each image's own code; by location, something else."""
    return {ref.image_id: instead.get(ref.location, code(ref.image_id).hex()) for one in some for ref in one.refs}


@each_pool
@pytest.mark.parametrize("num_workers", [1, 2, 4])
def test_every_image_is_answered_once_from_its_own_pixels_whatever_the_delays(start, num_stages, num_workers):
    some = chunks(60, "good", "good", "broken")
    workers = start(num_stages, num_workers, load_s=0.004, predict_s=0.004)
    assert run(workers, some) == right(some, broken=Reason.CORRUPT)


def test_a_chunk_of_nothing_but_broken_images_never_reaches_the_device(start):
    some = chunks(12, "broken")
    assert run(start(2, opener=ToyHandler()), some) == right(some, broken=Reason.CORRUPT)  # which can process nothing


@each_pool
def test_no_chunks_start_no_process(start, num_stages):
    workers = start(num_stages)
    assert list(workers.run([])) == []
    assert workers.pids() == []


@each_pool
def test_processes_are_kept_between_runs(start, num_stages):
    workers, some = start(num_stages), chunks(8)
    assert run(workers, some) == right(some)
    before = workers.pids()
    assert run(workers, some) == right(some)
    assert workers.pids() == before


@each_pool
@pytest.mark.parametrize("slow", ["load_s", "predict_s"])
def test_only_as_many_chunks_are_taken_as_are_in_flight(start, num_stages, slow):
    """A day is listed as it is done: workers are ahead of the results by their tasks, or by the slots of the ring."""
    taken = []

    def listed():
        for one in chunks(40):
            taken.append(one.number)
            yield one

    ahead = slots_for(2) if num_stages == 2 else 2 * TASKS_AHEAD
    for done, _ in enumerate(start(num_stages, **{slow: 0.02}).run(listed())):
        assert len(taken) <= done + ahead + 1


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


def test_what_is_known_of_the_file_survives_the_crash(start):
    results = list(start().run([chunk(1, "decode:SIGABRT")]))
    detail = "the decoder died twice by SIGABRT, the second time alone"
    ref = ImageRef("1.0", "decode:SIGABRT")
    assert results == [ChunkResult(1, (), (Broken(ref, Reason.DECODER_CRASH, detail, "decode", FACTS),))]


def test_the_model_has_more_time_than_one_image(start, tmp_path):
    """It has a whole chunk in hand."""
    workers, some = start(timeout_s=HANG_S), [chunk(1, f"once:{tmp_path / 'x'}:model:SIGSTOP")]
    threading.Timer(3 * HANG_S, lambda: [os.kill(pid, signal.SIGCONT) for pid in workers.pids()]).start()
    assert run(workers, some) == right(some)
    assert len(workers.pids()) == 1


@each_pool
@pytest.mark.parametrize("seed", range(3))
def test_whoever_is_killed_nothing_is_lost_and_nothing_is_twice(start, num_stages, seed):
    workers = start(num_stages, load_s=0.01, predict_s=0.02)
    some = chunks(60, "good", "good", "good", "broken")
    chance, is_over = random.Random(seed), threading.Event()

    def kill_some():
        for _ in range(KILLS_BEFORE_REJECTION - 1):  # that many may hit one image on a slow machine
            if is_over.wait(chance.uniform(0.1, 0.4)):
                return
            with suppress(ProcessLookupError):  # it has just ended
                if pids := workers.pids():
                    os.kill(chance.choice(pids), signal.SIGKILL)

    killer = threading.Thread(target=kill_some)
    killer.start()
    try:
        assert run(workers, some) == right(some, broken=Reason.CORRUPT)
    finally:
        is_over.set()
        killer.join()


@each_pool
def test_a_worker_that_was_killed_while_idle_is_replaced(start, num_stages):
    workers, some = start(num_stages), chunks(8)
    run(workers, some)
    for pid in workers.pids():
        os.kill(pid, signal.SIGKILL)
    assert run(workers, some) == right(some)


def test_workers_that_only_die_end_the_run(start, monkeypatch):
    monkeypatch.setattr("infer_app.predict.workers.retry_policy.MAX_EXITS_IN_A_ROW", 3)
    monkeypatch.setattr("infer_app.predict.workers.retry_policy.MIN_NO_RESULT_S", 0)
    with pytest.raises(WorkersKilled, match="3 workers ended one after another"):
        run(start(), [chunk(1, "decode:SIGKILL")])


@each_pool
@pytest.mark.parametrize(
    ("opener", "error"), [(open_refused, "changed since it was built"), (open_dying, r"starting \(exit code 7\)")]
)
def test_a_handler_that_can_not_be_opened_ends_the_run(start, num_stages, opener, error):
    with pytest.raises(ModelError, match=error) as caught:
        run(start(num_stages, opener=opener), chunks(5))
    assert (caught.value.exit_code, bool(caught.value.hint)) == (12, True)


def test_a_worker_that_is_killed_while_starting_is_replaced(start, tmp_path):
    opener = OpenOnly(tmp_path / "x", otherwise=be_killed, is_first=False)
    assert run(start(num_workers=1, opener=opener), chunks(2)) == right(chunks(2))


def test_a_gpu_that_does_not_come_back_ends_the_run_and_rejects_nothing(start, tmp_path):
    opener = OpenOnly(tmp_path / "x", otherwise=find_no_gpu, is_first=True)
    with pytest.raises(DeviceLost) as caught:
        list(start(num_workers=1, opener=opener).run([chunk(0, "good", "model:lost", "good")]))
    assert caught.value.exit_code == 12


@pytest.mark.parametrize("after", [0, 1, 7])
def test_a_fork_server_that_is_killed_is_started_again(start, after):
    """As by the kernel, for memory; its workers end with it."""
    some = chunks(300)
    results = start().run(some)
    found = [next(results) for _ in range(after)]
    fork_server.start_early()
    server = forkserver._forkserver._forkserver_pid
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: psutil.Process(server).status() == psutil.STATUS_ZOMBIE)  # else all might be done before it ends
    found += results
    assert forkserver._forkserver._forkserver_pid != server
    assert outcomes(found) == right(some)


def test_messages_larger_than_a_pipe_both_ways_do_not_block(start):
    """Two tasks are on their way to a worker while its answers are."""
    size = 1 << 20
    results = start(num_workers=1, opener=SwollenLane(num_bytes=size)).run(chunk(n, "x" * size) for n in range(6))
    assert [(one.number, len(one.predictions[0].output.vector)) for one in results] == [(n, size) for n in range(6)]


@each_pool
def test_a_run_that_is_left_early_ends_who_is_busy_and_another_can_follow(start, num_stages):
    workers = start(num_stages)
    results = workers.run(chunk(n, "good" if n == 0 else "decode:SIGSTOP") for n in range(9))
    while not next(results).predictions:
        pass
    busy = set(workers.pids())
    results.close()
    wait_until(lambda: not any(map(psutil.pid_exists, busy.difference(workers.pids()))))
    assert run(workers, chunks(10)) == right(chunks(10))


def test_an_error_of_the_source_ends_the_workers(start):
    def listed():
        yield chunk(1, "good")
        raise ZeroDivisionError

    workers = start()
    with pytest.raises(ZeroDivisionError):
        list(workers.run(listed()))
    assert workers.pids() == []


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


def test_the_memory_has_no_name_and_ends_with_its_processes(start):
    before = set(Path("/dev/shm").iterdir())
    workers = start(2)
    run(workers, chunks(8))
    for pid in workers.pids():
        mapped = [place.path for place in psutil.Process(pid).memory_maps()]
        assert any(path.startswith("/memfd:infer-ring") for path in mapped)
        named = set(Path("/dev/shm").iterdir()) - before  # others of this machine make some meanwhile
        assert named.isdisjoint(map(Path, mapped))
