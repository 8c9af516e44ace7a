"""Loaders and a device around a ring, as real processes that are late, die and are killed."""

import itertools
import os
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from infer_app.domain import Broken, Chunk, ImageRef, Reason
from infer_app.errors import ModelError
from infer_app.recipe import Size
from infer_app.workers import pool as workers_module
from infer_app.workers.pool import Stage, WorkerPool, slots_for
from infer_app.workers.retry_policy import KILLS_BEFORE_REJECTION
from infer_app.workers.shared_ring import Ring
from tests.process.workers.ring_handlers import ToyDevice, ToyLoader, code

BATCH, SIZE = 4, 16


@pytest.fixture(autouse=True)
def _look_often(monkeypatch):
    monkeypatch.setattr(workers_module, "POLL_INTERVAL_S", 0.05)


@pytest.fixture
def start():
    """start(…) is a ring with loaders and a device around it; all of its slots are free at the end."""
    started = []

    def start(num_loaders=2, load_s=0.0, predict_s=0.0, timeout_s=30.0):
        ring = Ring(slots_for(num_loaders), BATCH, Size.square(SIZE))
        workers = make_pool(ring, ToyLoader(ring, load_s), num_loaders, ToyDevice(ring, predict_s), timeout_s)
        started.append((ring, workers, slots_for(num_loaders)))
        return workers

    yield start
    for ring, workers, num_slots in started:
        assert ring.num_free == num_slots
        workers.close()
        ring.close()


def make_pool(ring, open_loader, num_loaders, open_device, timeout_s):
    stages = [Stage("load", [open_loader] * num_loaders), Stage("predict", [open_device])]
    return WorkerPool(stages, timeout_s, ring)


def chunks(num_chunks, *locations):
    """Chunks of four images; the locations in turn, `good` by default."""
    where = itertools.cycle(locations or ["good"])
    return [
        Chunk(n, tuple(ImageRef(f"{n}.{i}", next(where)) for i in range(1 + (n % BATCH)))) for n in range(num_chunks)
    ]


def run(workers, some):
    """{image id: what its row says, or the reason of its rejection}; each image once."""
    outcomes = {}
    for result in workers.run(some):
        for one in (*result.predictions, *result.broken):
            assert one.ref.image_id not in outcomes
            outcomes[one.ref.image_id] = one.reason if isinstance(one, Broken) else one.output.label
    return outcomes


def right(some, **instead):
    """Each image's own code; by location, something else."""
    return {ref.image_id: instead.get(ref.location, code(ref.image_id).hex()) for chunk in some for ref in chunk.refs}


def of_all(some):
    return [ref.image_id for chunk in some for ref in chunk.refs]


@pytest.mark.parametrize("num_loaders", [1, 2, 4])
def test_each_image_is_predicted_from_its_own_row_with_random_delays(start, num_loaders):
    some = chunks(60, "good", "good", "broken")
    outcomes = run(start(num_loaders, load_s=0.004, predict_s=0.004), some)
    assert outcomes == right(some, broken=Reason.CORRUPT)


def test_a_chunk_of_nothing_but_broken_images_never_reaches_the_device(start):
    some = chunks(12, "broken")
    assert run(start(), some) == right(some, broken=Reason.CORRUPT)


def test_no_chunks_start_no_process(start):
    workers = start()
    assert list(workers.run([])) == []
    assert workers.pids() == []


@pytest.mark.parametrize("slow", ["load_s", "predict_s"])
def test_only_as_many_chunks_are_taken_as_there_are_slots(start, slow):
    taken = []

    def listed():
        for chunk in chunks(40):
            taken.append(chunk.number)
            yield chunk

    workers = start(2, **{slow: 0.02})
    for done, _ in enumerate(workers.run(listed())):
        assert len(taken) <= done + slots_for(2) + 1


def test_a_slow_consumer_stops_everybody_and_loses_nothing(start):
    some = chunks(20)
    outcomes = {}
    for result in start().run(some):
        time.sleep(0.02)
        outcomes |= {one.ref.image_id: one.output.label for one in result.predictions}
    assert outcomes == right(some)


def test_processes_are_kept_between_runs(start):
    workers, some = start(), chunks(8)
    assert run(workers, some) == right(some)
    before = workers.pids()
    assert run(workers, some) == right(some)
    assert workers.pids() == before


def test_an_image_that_crashes_its_decoder_is_told_apart(start):
    some = chunks(12, "good", "good", "decode:SIGSEGV", "good", "good")
    assert run(start(), some) == right(some, **{"decode:SIGSEGV": Reason.DECODER_CRASH})


def test_an_image_that_crashes_or_hangs_the_model_is_told_apart(start, monkeypatch):
    monkeypatch.setattr("infer_app.workers.worker.MODEL_TIMEOUT_FACTOR", 1)
    some = chunks(5, "good", "good", "good", "model:SIGSEGV", "good", "good", "good", "model:hang")
    outcomes = run(start(timeout_s=1.0), some)
    assert outcomes == right(some, **{"model:SIGSEGV": Reason.MODEL_ERROR, "model:hang": Reason.MODEL_ERROR})


@pytest.mark.parametrize("seed", range(3))
def test_whoever_is_killed_nothing_is_lost_and_nothing_is_twice(start, seed):
    workers, some = start(2, load_s=0.01, predict_s=0.02), chunks(60, "good", "good", "good", "broken")
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


def test_an_early_end_leaves_no_slot_taken_and_no_busy_process(start):
    workers = start(2, load_s=0.01, predict_s=0.05)
    results = workers.run(chunks(40))
    for _ in range(6):
        next(results)
    results.close()
    some = chunks(10)
    assert run(workers, some) == right(some)


def test_a_device_that_can_not_be_opened_ends_the_run_with_its_own_error(start):
    ring = Ring(slots_for(1), BATCH, Size.square(SIZE))
    workers = make_pool(ring, ToyLoader(ring), 1, refuse, 30.0)
    with pytest.raises(ModelError, match="no such device"):
        run(workers, chunks(5))
    assert ring.num_free == slots_for(1)
    workers.close()
    ring.close()


def refuse():
    raise ModelError("no such device")


def test_the_memory_has_no_name_and_ends_with_its_processes(start):
    before = set(Path("/dev/shm").iterdir())
    workers, some = start(), chunks(8)
    run(workers, some)
    processes = [psutil.Process(pid) for pid in workers.pids()]
    for process in processes:
        mapped = [place.path for place in process.memory_maps()]
        assert any(path.startswith("/memfd:infer-ring") for path in mapped)
        named = set(Path("/dev/shm").iterdir()) - before  # others of this machine make some meanwhile
        assert named.isdisjoint(map(Path, mapped))
    workers.close()
    assert psutil.wait_procs(processes, timeout=60)[1] == []
