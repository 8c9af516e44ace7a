"""The ladder of loading techniques, each the real thing in a few lines.

A strategy yields batches, whose length is their number of images. What it does before it returns its iterator is
preparation and not measured. Read from the top: each
family starts with what everyone writes, and each rung changes one thing. Two currencies occur: float32 normalised
image by image (n, 3, size, size), as most datasets make it, and uint8 (n, size, size, 3), a quarter of the bytes,
which the model normalises itself.
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

from infer_app.bench import dataloaders, ours
from infer_app.bench.workload import BATCH_SIZE, Floats, PixelReaders, Pixels, Workload

IN_FLIGHT_PER_THREAD = 4  # images; what bounds the memory of the thread pipeline


def naive(load: Workload) -> Iterator[Floats]:
    """one image after the other, Pillow, each normalised by itself"""
    for paths in load.batches():
        yield np.stack([load.ways.normalised(load.ways.with_pillow(path)) for path in paths])


def vectorised(load: Workload) -> Iterator[Floats]:
    """naive, but numpy normalises the whole batch at once"""
    for paths in load.batches():
        yield load.ways.normalised(np.stack([load.ways.with_pillow(path) for path in paths]))


def turbo(load: Workload) -> Iterator[Pixels]:
    """one after the other, libjpeg-turbo and a resize of uint8; the model normalises"""
    for paths in load.batches():
        yield np.stack([load.ways.with_turbo(path) for path in paths])


def pool(load: Workload) -> Iterator[Floats]:
    """naive in a multiprocessing.Pool: every pixel is pickled on its way back"""
    with multiprocessing.get_context("fork").Pool(load.num_workers) as workers:
        images = workers.imap(partial(_load_normalised, load.ways), load.paths, chunksize=BATCH_SIZE)
        while batch := list(islice(images, BATCH_SIZE)):
            yield np.stack(batch)


def threads(load: Workload) -> Iterator[Pixels]:
    """turbo in threads with few images in flight, SPDL's way: no pixel is copied between processes"""
    with ThreadPoolExecutor(load.num_workers) as workers:
        waiting = iter(load.paths)
        first = [workers.submit(load.ways.with_turbo, path) for path in islice(waiting, _in_flight(load))]
        in_flight: deque[Future[Pixels]] = deque(first)
        batch = np.empty((BATCH_SIZE, load.size, load.size, 3), np.uint8)
        num_images = 0
        while in_flight:
            batch[num_images] = in_flight.popleft().result()
            in_flight.extend(workers.submit(load.ways.with_turbo, path) for path in islice(waiting, 1))
            num_images += 1
            if num_images == BATCH_SIZE or not in_flight:
                yield batch[:num_images]
                batch, num_images = np.empty_like(batch), 0


@dataclass(frozen=True)
class Strategy:
    """One row of the table. `run` raises NotHere where this machine can't do it."""

    name: str
    run: Callable[[Workload], Iterator[Sized]]
    takes_broken: bool = False  # gets all files; the others get those that every decoder can read
    uses_model: bool = False

    @property
    def says(self) -> str:
        return (self.run.__doc__ or "").strip().splitlines()[0]


LADDER = (
    Strategy("naive", naive),
    Strategy("vectorised", vectorised),
    Strategy("pool", pool),
    Strategy("dataloader", dataloaders.stock),
    Strategy("prefetch", dataloaders.prefetch),
    Strategy("pin-memory", dataloaders.pin_memory),
    Strategy("drop-broken", dataloaders.drop_broken, takes_broken=True),
    Strategy("turbo", turbo),
    Strategy("fast-collate", dataloaders.fast_collate),
    Strategy("getitems", dataloaders.getitems),
    Strategy("database", dataloaders.database),
    Strategy("list-of-paths", dataloaders.list_of_paths),
    Strategy("packed-paths", dataloaders.packed_paths),
    Strategy("threads", threads),
    Strategy("cache", ours.cache),
    Strategy("lane", ours.handler, takes_broken=True),
    Strategy("loader+model", ours.loader_with_model, uses_model=True),
    Strategy("ring", ours.ring, takes_broken=True, uses_model=True),
    Strategy("executor", ours.executor, takes_broken=True, uses_model=True),
)


def find_strategy(name: str) -> Strategy:
    return next(strategy for strategy in LADDER if strategy.name == name)


def _load_normalised(ways: PixelReaders, path: str) -> Floats:
    return ways.normalised(ways.with_pillow(path))


def _in_flight(load: Workload) -> int:
    return load.num_workers * IN_FLIGHT_PER_THREAD
