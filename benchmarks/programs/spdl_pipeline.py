"""Predict with SPDL: threads instead of processes, as in its guide to migrating from a DataLoader.

Decoders and torch release the GIL, so that threads decode in parallel; batches are not copied between processes.
"""

from __future__ import annotations

import torch
from flags import read_flags
from network import best_classes, open_network
from pixels import DECODERS
from spdl.pipeline import PipelineBuilder
from table import Table
from torch import Tensor


def collate(samples: list[tuple[int, Tensor]]) -> tuple[list[int], Tensor]:
    ids, pixels = zip(*samples, strict=True)
    return list(ids), torch.stack(pixels)


def main() -> None:
    flags = read_flags(__doc__)
    table = Table(flags.database)
    decode = DECODERS[flags.decoder]
    pipeline = (
        PipelineBuilder()
        .add_source(table.images(flags.limit))
        .pipe(lambda row: (row[0], decode(row[1])), concurrency=flags.workers, output_order="input")
        .aggregate(flags.batch_size)
        .pipe(collate)
        .add_sink(2)
        .build(num_threads=flags.workers, max_failures=0)
    )
    with pipeline.auto_stop():
        predict = open_network(flags.network, flags.ready, flags.batch_size, flags.threads)
        for ids, pixels in pipeline:
            table.write(ids, *best_classes(predict(pixels)))


if __name__ == "__main__":
    main()
