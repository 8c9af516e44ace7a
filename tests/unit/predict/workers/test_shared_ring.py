import multiprocessing
import os
from pathlib import Path

import pytest

from infer_app.base.size import Size
from infer_app.predict.workers.shared_ring import Ring


def test_a_slot_that_is_given_back_twice_is_a_bug():
    with Ring(2, 1, Size.square(4)) as ring:
        slot = ring.acquire()
        ring.release(slot)
        with pytest.raises(AssertionError, match="released twice"):
            ring.release(slot)


def test_slots_begin_at_the_start_of_a_page_and_follow_each_other():
    with Ring(2, 3, Size.square(5)) as ring:
        assert ring.pixels.shape == (2, 3, 5, 5, 3)
        assert ring.pixels.ctypes.data % os.sysconf("SC_PAGESIZE") == 0
        assert ring.pixels.flags.c_contiguous


def test_no_file_descriptor_stays_open():
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with Ring(2, 1, Size.square(4)):
            pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert multiprocessing.active_children() == []
