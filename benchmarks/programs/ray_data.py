"""Predict with Ray Data as in its guide to offline batch inference: a map that decodes, actors with the network.

Ray fuses the two, so that each actor decodes the images that it predicts.
"""

from __future__ import annotations

import logging
import os
from typing import Any

import numpy as np
import ray
import torch
from flags import read_flags
from network import best_classes, open_network
from pixels import DECODERS
from ray.data import ActorPoolStrategy
from table import Table

Row = dict[str, Any]


class Predict:
    """An actor, which prepares the network once."""

    def __init__(self, *options: Any) -> None:
        self.network = open_network(*options)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, Any]:
        classes, scores = best_classes(self.network(torch.from_numpy(batch["pixels"])))
        return {"id": batch["id"], "classes": np.array(classes), "scores": np.array(scores, np.float32)}


def main() -> None:
    flags = read_flags(__doc__)
    table = Table(flags.database)
    decode = DECODERS[flags.decoder]
    cores = len(os.sched_getaffinity(0))
    ray.init(num_cpus=max(cores, flags.workers), include_dashboard=False, logging_level=logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False

    def load(row: Row) -> Row:
        return {"id": row["id"], "pixels": decode(row["location"]).numpy()}

    rows = [{"id": image_id, "location": location} for image_id, location in table.images(flags.limit)]
    predictions = (
        ray.data.from_items(rows)
        .map(load)
        .map_batches(
            Predict,
            fn_constructor_args=(flags.network, flags.ready, flags.batch_size, flags.threads),
            batch_size=flags.batch_size,
            compute=ActorPoolStrategy(size=flags.workers),
        )
    )
    for batch in predictions.iter_batches(batch_size=flags.batch_size):
        table.write(batch["id"].tolist(), batch["classes"].tolist(), batch["scores"].tolist())


if __name__ == "__main__":
    main()
