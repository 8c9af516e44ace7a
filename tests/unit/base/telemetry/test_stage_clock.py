import hashlib
import os
import threading
import time

import pytest

from infer_app.base.telemetry.stage_clock import STAGES, WAITING_STAGES, StageClock


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_waiting_costs_no_cpu_and_work_adds_up():
    clock, began = StageClock(), time.thread_time()
    for _ in range(2):
        with clock.time("decode"):
            burn(0.01)
    with clock.time("read"):
        time.sleep(0.05)
    assert set(clock.cpu_seconds) == set(clock.wall_seconds) == {"read", "decode"}
    assert 0.02 <= clock.cpu_seconds["decode"] <= sum(clock.cpu_seconds.values()) <= time.thread_time() - began
    assert clock.wall_seconds["decode"] >= 0.02
    assert clock.wall_seconds["read"] >= 0.05 > clock.cpu_seconds["read"]


@pytest.mark.parametrize("stage", STAGES)
def test_a_wait_counts_where_it_is_for_storage_or_database_also_if_it_fails(stage):
    clock = StageClock()
    with pytest.raises(ZeroDivisionError), clock.time(stage):
        time.sleep(0.05)
        raise ZeroDivisionError
    assert set(clock.wall_seconds) == {stage}
    assert set(clock.wait_seconds) == {stage}.intersection(WAITING_STAGES)
    assert all(0 < wait <= clock.wall_seconds[stage] for wait in clock.wait_seconds.values())


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the kernel doesn't say")  # noqa: PTH110
def test_a_core_that_others_have_is_no_wait_for_the_storage():
    """Two threads on one core: each has it half of the time, and reads nothing slowly."""
    clocks, both = [StageClock(cpu_clock=time.thread_time) for _ in range(2)], threading.Barrier(2)

    def read(clock, core):
        os.sched_setaffinity(0, {core})  # of this thread only
        both.wait()
        with clock.time("read"):
            for _ in range(40):
                hashlib.pbkdf2_hmac("sha256", b"", b"", 10_000)  # without the lock of Python

    core = min(os.sched_getaffinity(0))
    threads = [threading.Thread(target=read, args=(clock, core)) for clock in clocks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall = sum(clock.wall_seconds["read"] for clock in clocks)
    cpu = sum(clock.cpu_seconds["read"] for clock in clocks)
    assert cpu < 0.7 * wall
    assert sum(clock.wait_seconds["read"] for clock in clocks) < 0.15 * wall
