"""Measure the driver's cost of a chunk that Ray Data dispatches: a read task yields numbers, actors reply immediately.

benchmarks/control_plane.py measures the same for `ActorPool`. A number represents a chunk: the
reader would have to fetch the chunk from the driver, since nothing can be added to a running dataset. Replies are 8 kB.
"""

from __future__ import annotations

import argparse
import logging
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray
from ray.data import ActorPoolStrategy, DataContext, Datasource, ReadTask
from ray.data.block import BlockMetadata


class Numbers(Datasource):
    """A source of numbers: one block for each, created one after another."""

    def __init__(self, count: int) -> None:
        self._count = count

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[ReadTask]:
        count = self._count

        def read() -> Iterator[pa.Table]:
            for number in range(count):
                yield pa.table({"number": [number]})

        metadata = BlockMetadata(num_rows=count, size_bytes=8 * count, input_files=None, exec_stats=None)
        return [ReadTask(read, metadata)]


class Answers:
    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"answer": [bytes(8000) for _ in batch["number"]]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=5000)
    flags = parser.parse_args()
    ray.init("local", num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = 1  # otherwise replies would wait until there are 128 MiB of them
    dataset = ray.data.read_datasource(Numbers(flags.chunks), override_num_blocks=1, num_cpus=0)
    answers = dataset.map_batches(Answers, batch_size=None, compute=ActorPoolStrategy(size=2), num_cpus=1)
    print("| chunks | chunks/s | driver CPU, ms per chunk | driver memory, MiB |\n|---:|---:|---:|---:|")
    done, started, cpu = 0, time.monotonic(), time.process_time()
    for bundle in answers.iter_internal_ref_bundles():
        done += len(bundle.block_refs)
        if done == 1:  # start-up is not measured
            started, cpu = time.monotonic(), time.process_time()
        if done % 1000 == 0:
            rate, spent = (done - 1) / (time.monotonic() - started), 1e3 * (time.process_time() - cpu) / (done - 1)
            print(f"| {done:,} | {rate:.0f} | {spent:.2f} | {resident_mib():.0f} |", flush=True)


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


if __name__ == "__main__":
    main()
