"""Define the loading strategies that are compared, each as it is really written, in a few lines.

A strategy yields batches, whose length is their number of images. What it does before it returns its iterator is
preparation and is not measured. The functions are in the order of the table: each family begins with what most people
write, and each further strategy changes one thing. Pixels come in one of two forms: float32 that was normalised image
by image, (n, 3, H, W), as most datasets return it; or uint8, (n, H, W, 3), a quarter of the bytes, which
the model normalises itself.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np

from loading_strategies import dataloaders, ours, stored
from loading_strategies.workload import BATCH_SIZE, Floats, PixelReaders, Pixels, Workload

IN_FLIGHT_PER_THREAD = 4  # images; bounds the memory of the thread pipeline


def naive(workload: Workload) -> Iterator[Floats]:
    for paths in workload.batches():
        yield np.stack([workload.readers.normalised(workload.readers.with_pillow(path)) for path in paths])


def vectorised(workload: Workload) -> Iterator[Floats]:
    for paths in workload.batches():
        yield workload.readers.normalised(np.stack([workload.readers.with_pillow(path) for path in paths]))


def turbo(workload: Workload) -> Iterator[Pixels]:
    for paths in workload.batches():
        yield np.stack([workload.readers.with_turbo(path) for path in paths])


def pool(workload: Workload) -> Iterator[Floats]:
    with multiprocessing.get_context("fork").Pool(workload.num_workers) as workers:
        images = workers.imap(partial(_load_normalised, workload.readers), workload.paths, chunksize=BATCH_SIZE)
        while batch := list(islice(images, BATCH_SIZE)):
            yield np.stack(batch)


def threads(workload: Workload) -> Iterator[Pixels]:
    with ThreadPoolExecutor(workload.num_workers) as workers:
        waiting = iter(workload.paths)
        first = [workers.submit(workload.readers.with_turbo, path) for path in islice(waiting, _in_flight(workload))]
        in_flight: deque[Future[Pixels]] = deque(first)
        batch = np.empty((BATCH_SIZE, *workload.shape), np.uint8)
        num_images = 0
        while in_flight:
            batch[num_images] = in_flight.popleft().result()
            in_flight.extend(workers.submit(workload.readers.with_turbo, path) for path in islice(waiting, 1))
            num_images += 1
            if num_images == BATCH_SIZE or not in_flight:
                yield batch[:num_images]
                batch, num_images = np.empty_like(batch), 0


@dataclass(frozen=True)
class Strategy:
    """One row of the table. `run` raises Unavailable if this machine can't do it."""

    name: str
    run: Callable[[Workload], Iterator[Sized]]
    description: str = ""
    takes_broken: bool = False  # it gets all files; the others get only those that every decoder can read
    uses_model: bool = False


STRATEGIES = (
    Strategy("naive", naive, "one image after the other: Pillow, then each image is normalised"),
    Strategy("vectorised", vectorised, "naive, but numpy normalises the whole batch at once"),
    Strategy("pool", pool, "naive in a multiprocessing.Pool: every pixel is pickled on its way back"),
    Strategy(
        "dataloader",
        dataloaders.stock,
        "a DataLoader with num_workers as most write it: Pillow, float32, default_collate",
    ),
    Strategy(
        "prefetch",
        dataloaders.prefetch,
        "dataloader with prefetch_factor=8 instead of 2: hides the delay of slow images, makes none faster",
    ),
    Strategy(
        "pin-memory",
        dataloaders.pin_memory,
        "dataloader with pin_memory: page-locked batches, which a GPU reads without another copy",
    ),
    Strategy(
        "drop-broken",
        dataloaders.drop_broken,
        "dataloader whose collate function drops broken files, without a reason",
        takes_broken=True,
    ),
    Strategy("turbo", turbo, "one after the other: libjpeg-turbo and a resize of uint8; the model normalises"),
    Strategy(
        "fast-collate",
        dataloaders.fast_collate,
        "turbo in a DataLoader, with uint8 collated into one buffer: a quarter of the bytes to copy",
    ),
    Strategy(
        "getitems",
        dataloaders.getitems,
        "fast-collate with __getitems__: one call per batch, each image goes straight into the buffer",
    ),
    Strategy(
        "database",
        dataloaders.database,
        "fast-collate with an IterableDataset: each worker reads its own rows of a SQLite table",
    ),
    Strategy(
        "list-of-paths",
        dataloaders.list_of_paths,
        "fast-collate with a dataset of a million str: reference counts copy them into every worker",
    ),
    Strategy(
        "packed-paths", dataloaders.packed_paths, "the same million packed into two numpy arrays, which workers share"
    ),
    Strategy(
        "threads",
        threads,
        "turbo in threads with few images in flight, as in SPDL: no copy of pixels between processes",
    ),
    Strategy(
        "stored",
        stored.stored,
        "pixels that an earlier pass stored by the hash of the file: files are read, not decoded",
    ),
    Strategy(
        "no-model",
        ours.handler,
        "infer_app without the model: supervised workers keep the pixels of their chunk, broken files get a reason",
        takes_broken=True,
    ),
    Strategy(
        "loader+model",
        ours.loader_with_model,
        "fast-collate, and the variant that a run uses in the main process, with a thread for each core",
        uses_model=True,
    ),
    Strategy(
        "ring",
        ours.ring,
        "`infer run --executor cuda` on this CPU: workers decode into shared memory, one process predicts from it",
        takes_broken=True,
        uses_model=True,
    ),
    Strategy(
        "executor",
        ours.executor,
        "`infer run` without its database: each worker loads and predicts its own images",
        takes_broken=True,
        uses_model=True,
    ),
)


def find_strategy(name: str) -> Strategy:
    """Return the strategy of a name in STRATEGIES."""
    return next(strategy for strategy in STRATEGIES if strategy.name == name)


def _load_normalised(readers: PixelReaders, path: str) -> Floats:
    return readers.normalised(readers.with_pillow(path))


def _in_flight(workload: Workload) -> int:
    return workload.num_workers * IN_FLIGHT_PER_THREAD
