"""What a variant costs on one thread of this machine."""

import time

import numpy as np
import pytest

from infer_app.base.size import Size
from infer_app.build.variants.measure import measure_models
from infer_app.predict.runtimes.fixed_batch import FixedBatch
from tests.support.networks import SIZE, random_pixels


def busy(cpu_ms_per_batch, batch_size):
    """A model that keeps a core busy for so long, whatever else the machine does."""

    def run(pixels):
        until = time.thread_time() + cpu_ms_per_batch / 1e3
        while time.thread_time() < until:
            pass
        return np.zeros((len(pixels), 1), np.float32)

    return FixedBatch(run, Size.square(SIZE), batch_size)


def test_the_time_of_a_batch_is_shared_by_its_images():
    found = measure_models({"slow": busy(6, 1), "fast": busy(6, 4)}, random_pixels(3))
    assert found == pytest.approx({"slow": 6.0, "fast": 1.5}, rel=0.3)


def test_neither_a_noisy_moment_nor_waiting_counts():
    """The best round does, in CPU time, which another program's hold of the core does not add to."""
    slow, first = busy(30, 1), []

    def run(pixels):
        time.sleep(0.005)
        if not first:
            first.append(slow(pixels))
        return np.zeros((len(pixels), 1), np.float32)

    assert measure_models({"quick": FixedBatch(run, Size.square(SIZE), 1)}, random_pixels(1))["quick"] < 2


def test_a_slow_model_is_measured_once():
    calls = []
    slow = FixedBatch(lambda pixels: calls.append(1) or busy(60, 1)(pixels), Size.square(SIZE), 1)
    measure_models({"slow": slow}, random_pixels(1), enough_s=0.05)
    assert len(calls) == 1
