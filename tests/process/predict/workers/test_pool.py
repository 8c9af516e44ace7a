"""Real processes that crash, hang, are killed and come back, in a pool of one stage and in one of two around a ring.

What each image does to its process is in toy_handlers.
"""

import os
import random
import signal
import threading
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path

import psutil
import pytest

from infer_app.base.domain import Reason
from infer_app.base.errors import WorkersKilled
from infer_app.predict.workers import fork_server
from infer_app.predict.workers.pool import TASKS_AHEAD, slots_for
from infer_app.predict.workers.retry_policy import KILLS_BEFORE_REJECTION
from tests.process.predict.workers.conftest import chunk, chunks, each_pool, right, run
from tests.process.predict.workers.toy_handlers import ToyHandler
from tests.support.outcomes import outcomes
from tests.support.waiting import wait_until


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


def test_the_memory_has_no_name_and_ends_with_its_processes(start):
    before = set(Path("/dev/shm").iterdir())
    workers = start(2)
    run(workers, chunks(8))
    for pid in workers.pids():
        mapped = [place.path for place in psutil.Process(pid).memory_maps()]
        assert any(path.startswith("/memfd:infer-ring") for path in mapped)
        named = set(Path("/dev/shm").iterdir()) - before  # others of this machine make some meanwhile
        assert named.isdisjoint(map(Path, mapped))
