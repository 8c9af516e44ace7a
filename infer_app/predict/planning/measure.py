"""Measure how fast each variant is on this machine, on the golden pixels and one thread."""

import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from infer_app.artifact.artifact import Artifact, open_artifact
from infer_app.base.errors import first_line
from infer_app.predict.planning.tuning import Speed
from infer_app.predict.runtimes.fixed_batch import FixedBatch
from infer_app.predict.runtimes.gpu_probe import runnable
from infer_app.predict.runtimes.open_variant import open_variant
from infer_app.predict.verification.golden import golden_pixels

log = logging.getLogger(__name__)

BATCH_SIZES = (1, 2, 4, 8)
FEW_BATCH_SIZES = (4,)  # for a quick measurement
MAX_CROPS = 2  # in a batch of a second network: a chunk has any number of objects, and its last batch is filled up
ROUNDS = 5  # all models take turns, so that noise affects all of them
ROUND_S = 0.05  # minimum per model and round
ENOUGH_S = 2.0  # of a model, whose further rounds are left out
CALL_MS = 0.25  # CPU time of a call in a worker outside the model, measured at batch sizes 1 to 8


def measure_variants(artifact: Artifact, batch_sizes: Sequence[int] = BATCH_SIZES) -> dict[str, Speed]:
    """Measure every variant that can run here and return its fastest batch size."""
    models = {}
    size = artifact.manifest.recipe.size
    most = MAX_CROPS if artifact.manifest.crop else max(batch_sizes)
    batch_sizes = sorted({size.largest_batch(min(one, most)) for one in batch_sizes})
    with one_thread():
        for variant in runnable(artifact.manifest):
            try:
                models[variant] = [open_variant(artifact, variant, batch_size) for batch_size in batch_sizes]
            except Exception as error:  # of a library that is damaged, or of the user's own network
                log.warning("%s can't be measured: %s", variant, first_line(error))
        return measure_models(models, golden_pixels(artifact))


def measure_models(models: Mapping[str, Sequence[FixedBatch]], pixels: np.ndarray) -> dict[str, Speed]:
    """Return the fastest of each name's models, by its best round, with the cost of a call shared by its images.

    Other programs on the machine only ever add time, so the best round is the most accurate.
    """
    candidates = [(name, model) for name, some in models.items() for model in some]
    best, spent = [float("inf")] * len(candidates), [0.0] * len(candidates)
    with one_thread():
        for _ in range(ROUNDS):
            for index, (_, model) in enumerate(candidates):
                if spent[index] >= ENOUGH_S:
                    continue
                ms, seconds = _ms_per_image(model, _fill(pixels, model.batch_size))
                best[index], spent[index] = min(best[index], ms), spent[index] + seconds
    speeds: dict[str, Speed] = {}
    for (name, model), ms in zip(candidates, best, strict=True):
        speed = Speed(model.batch_size, round(ms, 4))
        speeds[name] = min(speeds.get(name, speed), speed, key=_ms_in_worker)
    return speeds


def _ms_in_worker(speed: Speed) -> float:
    return speed.ms_per_image + CALL_MS / speed.batch_size


def measure_in_worker(folder: Path, is_quick: bool) -> dict[str, Speed]:
    """Measure the variants of the model in a folder; call it in a process of its own."""
    return measure_variants(open_artifact(folder), FEW_BATCH_SIZES if is_quick else BATCH_SIZES)


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


def _fill(pixels: np.ndarray, num_images: int) -> np.ndarray:
    return pixels[np.arange(num_images) % len(pixels)]
