"""The clocks around one strategy, with strategies whose times are known."""

import time

import pytest
import torch

from infer_app.bench.run_one import measure
from infer_app.bench.strategies import Strategy


def slow_to_start(load):
    """two slow batches, then six quick ones"""
    for number in range(8):
        time.sleep(0.5 if number < 2 else 0.05)
        yield range(10)


def test_the_rate_is_of_the_images_after_the_first_quarter(make_load):
    pace = measure(Strategy("slow-to-start", slow_to_start), make_load([]))
    assert pace.num_images == 80
    assert pace.first_batch_s == pytest.approx(0.5, abs=0.2)
    assert 60 / 0.7 < pace.images_per_second <= 60 / 0.3  # of all it would be 61


def test_cpu_time_is_of_the_images_after_the_first_quarter(make_load):
    def busy(load):
        """0.3 CPU seconds for 75 images"""
        yield range(25)
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
        yield range(75)

    assert measure(Strategy("busy", busy), make_load([])).cpu_s_per_1000 == pytest.approx(4.0, rel=0.2)


def test_one_batch_has_no_rate(make_load):
    pace = measure(Strategy("one", lambda load: iter([range(3)])), make_load([]))
    assert (pace.num_images, pace.images_per_second, pace.cpu_s_per_1000) == (3, None, None)


def test_a_technique_is_measured_on_one_thread_and_the_model_on_torchs(make_load):
    torch.set_num_threads(2)
    threads = []
    for uses_model in (True, False):
        measure(Strategy("look", lambda load: iter([[torch.get_num_threads()]]), uses_model=uses_model), make_load([]))
        threads.append(torch.get_num_threads())
    assert threads == [2, 1]
