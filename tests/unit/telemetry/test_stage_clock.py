import os
import threading
import time

import pytest

from infer_app.domain import ChunkResult, ImageRef, Span
from infer_app.telemetry.stage_clock import WAITING_STAGES, StageClock

A, B = ImageRef("1", "/a.jpg"), ImageRef("2", "/b.jpg")


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
    assert clock.wall_seconds["read"] - clock.cpu_seconds["read"] >= 0.05


def test_a_stage_that_fails_is_counted_too():
    clock = StageClock()
    with pytest.raises(ValueError, match="broken"), clock.time("decode"):
        burn(0.005)
        raise ValueError("broken")
    assert clock.cpu_seconds["decode"] >= 0.005


@pytest.mark.parametrize("stage", WAITING_STAGES)
def test_a_wait_for_storage_or_database_is_counted(stage):
    clock = StageClock()
    with clock.time(stage):
        time.sleep(0.05)
    assert 0.03 < clock.wait_seconds[stage] <= clock.wall_seconds[stage]


def test_the_other_stages_wait_for_nothing_that_counts():
    clock = StageClock()
    with clock.time("decode"):
        time.sleep(0.01)
    assert dict(clock.wait_seconds) == {}


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the kernel doesn't say")  # noqa: PTH110
def test_a_core_that_others_have_is_no_wait_for_the_storage():
    """Two threads on one core: each has it half of the time, and reads nothing slowly."""
    clocks, both = [StageClock(cpu_clock=time.thread_time) for _ in range(2)], threading.Barrier(2)

    def read(clock, core):
        os.sched_setaffinity(0, {core})  # of this thread only
        both.wait()
        with clock.time("read"):
            for _ in range(40):
                _hash_without_the_lock()

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


def _hash_without_the_lock():
    import hashlib

    hashlib.pbkdf2_hmac("sha256", b"", b"", 10_000)


def test_a_result_is_stamped_with_its_process_and_what_it_took():
    clock = StageClock()
    with clock.time("read"):
        burn(0.001)
    result = clock.stamp(ChunkResult(7, (), ()))
    assert (result.number, result.worker, result.spans) == (7, os.getpid(), ())
    assert (result.cpu_seconds, result.wall_seconds) == (dict(clock.cpu_seconds), dict(clock.wall_seconds))
    assert result.wait_seconds == dict(clock.wait_seconds)


def test_spans_say_when_and_of_which_images():
    clock = StageClock(is_traced=True)
    before = time.monotonic()
    clock.refs = (A,)
    with clock.time("decode"):
        burn(0.001)
    clock.refs = (A, B)
    with clock.time("model"):
        pass
    first, second = clock.spans
    assert first == Span("decode", first.start_s, clock.wall_seconds["decode"], clock.cpu_seconds["decode"], ("1",))
    assert before <= first.start_s <= first.start_s + first.wall_s <= second.start_s <= time.monotonic()
    assert (second.stage, second.image_ids) == ("model", ("1", "2"))
