"""SIGKILL to all of a run at any moment of its life; the next run completes it, row by row."""

import os
import signal
import time

import pytest

from tests.faults.conftest import on
from tests.faults.project_run import photos
from tests.faults.stub import GOOD

NUM_PHOTOS = 40
TIMES, TIMES_FULL = 3, 50


@on("sqlite")
@pytest.mark.timeout(1800)
def test_killed_at_any_moment_a_day_ends_as_if_it_had_not(night, seeded, request):
    contents = photos(NUM_PHOTOS, seed=seeded.randrange(10**6))
    night.add([content.replace(GOOD, GOOD + b"slow ") for content in contents])  # else most kills meet no image
    start = time.monotonic()
    night.finish()
    life_s = time.monotonic() - start
    hit = 0
    for number in range(TIMES_FULL if request.config.option.full else TIMES):
        night.reset()
        run = night.start()
        if number % 3 == 2:  # any moment, most of them before the first result or after the last
            time.sleep(seeded.uniform(0.1, 1) * life_s)
        else:
            night.wait_for_results(run, seeded.randrange(1, NUM_PHOTOS // 2))
            time.sleep(seeded.uniform(0, 0.1))
        os.killpg(run.pid, signal.SIGKILL)
        ended = night.wait(run)
        done = len(night.results())
        hit += 0 < done < NUM_PHOTOS
        night.check(ended)
        rest = night.finish().answer["selected"]
        print(f"kill {number + 1}: {done} of {NUM_PHOTOS} were done", flush=True)
        assert rest <= NUM_PHOTOS - done  # less where a server commits what it was given before its client died
    print(f"{hit} runs were killed between their first result and their last")
    assert hit > number // 3
