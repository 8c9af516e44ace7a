"""The inside of a measured process: one strategy over its files, with the clocks read between batches.

Rates count from a quarter of the images on, when every worker has started; the first batch is timed by itself.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass

import torch

from infer_app.bench.benchmark_request import BenchmarkRequest
from infer_app.bench.dataloaders import NotHere
from infer_app.bench.processes import tree_cpu_seconds
from infer_app.bench.strategies import Strategy, find_strategy
from infer_app.bench.workload import Workload

SETTLED = 0.25  # share of the images after which a rate counts


@dataclass(frozen=True, slots=True)
class Pace:
    """How a strategy went, seen from inside."""

    num_images: int  # that came out
    first_batch_s: float
    images_per_second: float | None  # once settled; None of too few images
    cpu_s_per_1000: float | None  # of the process and its workers, once settled


@dataclass(frozen=True, slots=True)
class _Moment:
    num_images: int
    seconds: float
    cpu_seconds: float


def main(strategy: str) -> None:
    """Reads an order from standard input; the answer is the last line of standard output, one JSON object."""
    load = BenchmarkRequest.from_json(sys.stdin.read()).workload()
    try:
        answer = asdict(measure(find_strategy(strategy), load))
    except NotHere as reason:
        answer = {"skipped": str(reason)}
    print(json.dumps(answer), flush=True)


def measure(strategy: Strategy, load: Workload) -> Pace:
    if not strategy.uses_model:
        torch.set_num_threads(1)  # where a technique is measured, not torch's own threads
    batches = strategy.run(load)
    started, num_images, moments = time.perf_counter(), 0, []
    for batch in batches:
        num_images += len(batch)
        moments.append(_Moment(num_images, time.perf_counter() - started, tree_cpu_seconds(os.getpid())))
    last = moments[-1]
    settled = next(moment for moment in moments if moment.num_images >= SETTLED * last.num_images)
    counted = last.num_images - settled.num_images
    return Pace(
        num_images=num_images,
        first_batch_s=moments[0].seconds,
        images_per_second=counted / (last.seconds - settled.seconds) if counted else None,
        cpu_s_per_1000=1000 * (last.cpu_seconds - settled.cpu_seconds) / counted if counted else None,
    )


if __name__ == "__main__":
    main(sys.argv[1])
