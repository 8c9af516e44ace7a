"""Pools of toy workers, of one stage and of two around a ring."""

import itertools
from contextlib import suppress

import psutil
import pytest

from infer_app.base.domain import Chunk, ImageRef
from infer_app.base.size import Size
from infer_app.predict.workers import pool as workers_module
from infer_app.predict.workers.pool import WorkerPool, slots_for
from infer_app.predict.workers.shared_ring import Ring
from tests.process.predict.workers.toy_handlers import ToyDevice, ToyLane, ToyLoader, code
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

    def start_pool(
        num_stages=1, num_workers=2, timeout_s=TIMEOUT_S, load_s=0.0, predict_s=0.0, opener=None, first=None
    ):
        """`opener` is that of the last stage's handler, `first` that of its first worker."""
        ring = None
        stages = [[opener or ToyLane(load_s + predict_s)] * num_workers]
        if num_stages == 2:
            ring = Ring(slots_for(num_workers), BATCH, Size.square(16))
            load = [ToyLoader(load_s, ring)] * num_workers
            stages = [load, [opener or ToyDevice(predict_s, ring)]]
        stages[-1][0] = first or stages[-1][0]
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
