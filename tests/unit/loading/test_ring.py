import multiprocessing
import os
from pathlib import Path

import pytest
from ring_errands import fill

from infer_app.workers.fork_server import context
from infer_app.workers.shared_ring import Ring


def test_what_a_process_writes_another_reads():
    with Ring(3, 2, 8) as ring:
        process = context().Process(target=fill, args=(ring, 1, 7))
        process.start()
        process.join()
        assert process.exitcode == 0
        assert [set(slot.ravel().tolist()) for slot in ring.pixels] == [{0}, {7}, {0}]


def test_slots_are_taken_and_given_back():
    with Ring(2, 1, 4) as ring:
        taken = {ring.acquire(), ring.acquire()}
        assert (taken, ring.num_free) == ({0, 1}, 0)
        with pytest.raises(IndexError):
            ring.acquire()
        ring.release(1)
        assert (ring.num_free, ring.acquire()) == (1, 1)


def test_a_slot_that_is_given_back_twice_is_a_bug():
    with Ring(2, 1, 4) as ring:
        slot = ring.acquire()
        ring.release(slot)
        with pytest.raises(AssertionError, match="given back twice"):
            ring.release(slot)


def test_slots_begin_at_the_start_of_a_page_and_follow_each_other():
    with Ring(2, 3, 5) as ring:
        assert ring.pixels.shape == (2, 3, 5, 5, 3)
        assert ring.pixels.ctypes.data % os.sysconf("SC_PAGESIZE") == 0
        assert ring.pixels.flags.c_contiguous


def test_no_file_descriptor_stays_open():
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with Ring(2, 1, 4):
            pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert multiprocessing.active_children() == []
