"""Measure how fast variants compute on one thread of this machine."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from infer_app.predict.runtimes.fixed_batch import FixedBatch

ROUNDS = 5  # all models take turns, so that noise affects all of them
ROUND_S = 0.05  # minimum per model and round
ENOUGH_S = 2.0  # of a model, whose further rounds are left out


def measure_models(
    models: Mapping[str, FixedBatch], pixels: np.ndarray, enough_s: float = ENOUGH_S
) -> dict[str, float]:
    """Return the CPU milliseconds per image of each model, by its best round.

    Other programs on the machine only ever add time, so the best round is the most accurate.
    """
    best, spent = dict.fromkeys(models, float("inf")), dict.fromkeys(models, 0.0)
    with one_thread():
        for _ in range(ROUNDS):
            for name, model in models.items():
                if spent[name] < enough_s:
                    ms, seconds = _ms_per_image(model, pixels[np.arange(model.batch_size) % len(pixels)])
                    best[name], spent[name] = min(best[name], ms), spent[name] + seconds
    return {name: round(ms, 4) for name, ms in best.items()}


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch, if this process has loaded it, on one thread meanwhile, for opening models and for measuring.

    torch compiles for the number of threads it has, and the clock measures only one of them. A model that loads torch
    itself sets one thread when it is opened.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _ms_per_image(model: FixedBatch, batch: np.ndarray) -> tuple[float, float]:
    """Return CPU milliseconds, which are more accurate than wall time on a busy machine, and the seconds measured."""
    started, runs = time.thread_time(), 0
    while runs == 0 or time.thread_time() - started < ROUND_S:
        model(batch)
        runs += 1
    seconds = time.thread_time() - started
    return 1e3 * seconds / (runs * len(batch)), seconds
