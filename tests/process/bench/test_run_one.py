"""The clocks around one strategy, with strategies whose times are known."""

from types import SimpleNamespace

import pytest
import torch

from infer_app.bench import run_one
from infer_app.bench.run_one import measure
from infer_app.bench.strategies import Strategy


@pytest.fixture
def clock(monkeypatch):
    """The clocks that `measure` reads, which a strategy sets."""
    clock = SimpleNamespace(seconds=100.0, cpu_seconds=10.0)
    monkeypatch.setattr(run_one, "time", SimpleNamespace(perf_counter=lambda: clock.seconds))
    monkeypatch.setattr(run_one, "tree_cpu_seconds", lambda _: clock.cpu_seconds)
    return clock


def test_rate_and_cpu_time_are_of_the_images_after_the_first_quarter(make_load, clock):
    def slow_to_start(load):
        """two slow batches, then six quick ones"""
        for number in range(8):
            clock.seconds += 0.5 if number < 2 else 0.05
            clock.cpu_seconds += 0.7 if number < 2 else 0.04
            yield range(10)

    pace = measure(Strategy("slow-to-start", slow_to_start), make_load([]))
    assert (pace.num_images, pace.first_batch_s) == (80, 0.5)
    assert pace.images_per_second == pytest.approx(60 / 0.3)
    assert pace.cpu_s_per_1000 == pytest.approx(1000 * 0.24 / 60)


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
