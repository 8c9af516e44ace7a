"""Predict with OpenVINO as an expert would: usually a process per core, with one stream and one thread, unpinned.

Each process decodes, resizes and predicts chunks of images of its own, so that no pixels are copied between processes.
This process hands chunks out and is the only one that writes, one transaction per chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import openvino
import torch
from flags import read_flags
from network import best_classes
from pixels import DECODERS, input_of
from table import Table

CHUNK = 32  # images at most: the unit of dispatch and commit
CHUNKS_EACH = 8  # for each process, at least
HINTS = {"openvino-f32": "f32", "openvino-bf16": "bf16"}

Rows = list[tuple[int, str]]  # (id, location)
Predictions = tuple[list[int], list[list[int]], list[list[float]]]  # ids, best classes and their probabilities


class Worker:
    """A network that is compiled for one core and a fixed batch size."""

    def __init__(self, graph: Path, decoder: str, hint: str, batch_size: int, threads: int) -> None:
        torch.set_num_threads(1)
        self.decode: Callable[[str], torch.Tensor] = DECODERS[decoder]
        options = {
            "INFERENCE_PRECISION_HINT": hint,  # by default bf16 where the processor computes it
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "ENABLE_CPU_PINNING": False,  # two processes would both be pinned to the first core
            "CACHE_DIR": str(graph.with_suffix(".cache")),  # the compiled network, which later runs read
        }
        self.pixels = np.zeros((batch_size, *[input_of(decoder).size] * 2, 3), np.uint8)
        core = openvino.Core()
        network = core.read_model(graph)
        network.reshape(self.pixels.shape)
        self.request = core.compile_model(network, "CPU", options).create_infer_request()

    def predict(self, rows: Rows) -> Predictions:
        size = len(self.pixels)
        scores = torch.cat([self.scores(rows[at : at + size]) for at in range(0, len(rows), size)])
        return [image_id for image_id, _ in rows], *best_classes(scores)

    def scores(self, rows: Rows) -> torch.Tensor:
        for row, (_, location) in enumerate(rows):
            self.pixels[row] = self.decode(location).numpy()
        outputs = self.request.infer({0: self.pixels}, share_inputs=True)  # copies the outputs
        return torch.from_numpy(outputs[0])[: len(rows)]


def start(*options: object) -> None:
    """Open the worker of this process; the first chunk raises what fails: the pool would only start another process."""
    global open_worker
    open_worker = cache(partial(Worker, *options))
    with suppress(Exception):
        open_worker()


def predict(rows: Rows) -> Predictions:
    return open_worker().predict(rows)


def main() -> None:
    flags = read_flags(__doc__, HINTS)
    graph = Path(flags.network).with_suffix(".xml")
    options = graph, flags.decoder, HINTS[flags.ready], flags.batch_size, flags.threads
    with get_context("fork").Pool(flags.workers, start, options) as pool:  # they compile while the images are listed
        table = Table(flags.database)
        images = table.images(flags.limit)
        size = max(flags.batch_size, min(CHUNK, len(images) // (CHUNKS_EACH * flags.workers)))
        chunks = [images[at : at + size] for at in range(0, len(images), size)]
        for predictions in pool.imap_unordered(predict, chunks):
            table.write(*predictions)


if __name__ == "__main__":
    main()
