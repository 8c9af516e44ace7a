"""Run one strategy in its measured process, and read the clocks between batches.

Rates exclude the first quarter of the images, in which workers start; the first batch is timed separately.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass

import torch

from infer_app.bench.benchmark_request import BenchmarkRequest
from infer_app.bench.dataloaders import Unavailable
from infer_app.bench.processes import tree_cpu_seconds
from infer_app.bench.strategies import Strategy, find_strategy
from infer_app.bench.workload import Workload

WARM_UP_SHARE = 0.25  # of the images, which rates exclude


@dataclass(frozen=True, slots=True)
class Measurements:
    """The measurements inside a strategy's process."""

    num_images: int  # that were yielded
    first_batch_s: float
    images_per_second: float | None  # after the warm-up; None for too few images
    cpu_s_per_1000: float | None  # of the process and its workers, after the warm-up


@dataclass(frozen=True, slots=True)
class _Sample:
    num_images: int
    seconds: float
    cpu_seconds: float


def main(strategy: str) -> None:
    """Read a request from standard input, and print the result as the last line of output, one JSON object."""
    workload = BenchmarkRequest.from_json(sys.stdin.read()).workload()
    try:
        result = asdict(measure(find_strategy(strategy), workload))
    except Unavailable as reason:
        result = {"skipped": str(reason)}
    print(json.dumps(result), flush=True)


def measure(strategy: Strategy, workload: Workload) -> Measurements:
    """Run a strategy to its end and return its measurements."""
    if not strategy.uses_model:
        torch.set_num_threads(1)  # the technique is measured, not torch's own threads
    batches = strategy.run(workload)
    started, num_images, samples = time.perf_counter(), 0, []
    for batch in batches:
        num_images += len(batch)
        samples.append(_Sample(num_images, time.perf_counter() - started, tree_cpu_seconds(os.getpid())))
    last = samples[-1]
    warm = next(sample for sample in samples if sample.num_images >= WARM_UP_SHARE * last.num_images)
    counted = last.num_images - warm.num_images
    return Measurements(
        num_images=num_images,
        first_batch_s=samples[0].seconds,
        images_per_second=counted / (last.seconds - warm.seconds) if counted else None,
        cpu_s_per_1000=1000 * (last.cpu_seconds - warm.cpu_seconds) / counted if counted else None,
    )


if __name__ == "__main__":
    main(sys.argv[1])
