"""The rungs that are torch DataLoaders. Their workers are processes, so what a batch weighs is also what is copied."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate, get_worker_info

from infer_app.bench.workload import BATCH_SIZE, Workload

MANY = 1_000_000  # paths, of the two rungs about memory


class NotHere(Exception):
    """A strategy needs what isn't here; the message says what."""


def stock(load: Workload) -> Iterator[Tensor]:
    """a DataLoader with num_workers as most write it: Pillow, float32, default_collate"""
    yield from DataLoader(Normalised(load), BATCH_SIZE, num_workers=load.num_workers)


def prefetch(load: Workload) -> Iterator[Tensor]:
    """dataloader with prefetch_factor=8 instead of 2: evens out slow images, makes none faster"""
    yield from DataLoader(Normalised(load), BATCH_SIZE, num_workers=load.num_workers, prefetch_factor=8)


def pin_memory(load: Workload) -> Iterator[Tensor]:
    """dataloader with pin_memory: page-locked batches, which a GPU fetches without another copy"""
    if not torch.cuda.is_available():
        raise NotHere("no CUDA")
    yield from DataLoader(Normalised(load), BATCH_SIZE, num_workers=load.num_workers, pin_memory=True)


def drop_broken(load: Workload) -> Iterator[Tensor]:
    """dataloader whose collate drops broken files, and says of none why"""
    yield from DataLoader(OrNone(load), BATCH_SIZE, num_workers=load.num_workers, collate_fn=collate_the_good)


def fast_collate(load: Workload) -> Iterator[Tensor]:
    """turbo in a DataLoader, uint8 collated into one buffer: a quarter of the bytes to copy"""
    dataset = Uint8(load, load.paths)
    yield from DataLoader(dataset, BATCH_SIZE, num_workers=load.num_workers, collate_fn=collate_into_buffer)


def getitems(load: Workload) -> Iterator[Tensor]:
    """fast-collate by __getitems__: one call a batch, each image straight into the buffer"""
    dataset = WholeBatches(load, load.paths)
    yield from DataLoader(dataset, BATCH_SIZE, num_workers=load.num_workers, collate_fn=lambda batch: batch)


def database(load: Workload) -> Iterator[Tensor]:
    """fast-collate over an IterableDataset: each worker reads its own rows of a SQLite table"""
    with tempfile.TemporaryDirectory(prefix="infer-bench-") as folder:
        rows = DatabaseRows(load, Path(folder) / "images.db")
        yield from DataLoader(rows, BATCH_SIZE, num_workers=load.num_workers, collate_fn=collate_into_buffer)


def list_of_paths(load: Workload) -> Iterator[Tensor]:
    """fast-collate with a million str in its dataset: counting references copies them into every worker"""
    paths = [path[:1] + path[1:] for path in islice(cycle(load.paths), MANY)]  # each a string of its own
    return _first_of_many(load, paths)


def packed_paths(load: Workload) -> Iterator[Tensor]:
    """the same million packed into two numpy arrays, which workers share"""
    return _first_of_many(load, PackedPaths(islice(cycle(load.paths), MANY)))


class Normalised(Dataset[Tensor]):
    """(3, size, size) float32."""

    def __init__(self, load: Workload) -> None:
        self.load = load

    def __len__(self) -> int:
        return len(self.load.paths)

    def __getitem__(self, index: int) -> Tensor:
        return torch.from_numpy(self.load.ways.normalised(self.load.ways.with_pillow(self.load.paths[index])))


class OrNone(Normalised):
    """The same, or None of a broken file."""

    def __getitem__(self, index: int) -> Tensor | None:  # type: ignore[override]
        try:
            return super().__getitem__(index)
        except Exception:  # decoders raise whatever the damage leads to
            return None


class Uint8(Dataset[Tensor]):
    """(size, size, 3) uint8."""

    def __init__(self, load: Workload, paths: Sequence[str]) -> None:
        self.load = load
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        return torch.from_numpy(self.load.ways.with_turbo(self.paths[index]))


class WholeBatches(Uint8):
    """(n, size, size, 3) uint8 by one call: a DataLoader that finds __getitems__ calls it instead of __getitem__."""

    def __getitems__(self, indices: list[int]) -> Tensor:
        batch = torch.empty((len(indices), self.load.size, self.load.size, 3), dtype=torch.uint8)
        for row, index in zip(batch.numpy(), indices, strict=True):
            row[:] = self.load.ways.with_turbo(self.paths[index])
        return batch


class DatabaseRows(IterableDataset[Tensor]):
    """(size, size, 3) uint8 of the rows of a table: worker k of n takes every n-th batch of ids."""

    def __init__(self, load: Workload, file: Path) -> None:
        self.load = load
        self.file = file
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("CREATE TABLE images (id INTEGER PRIMARY KEY, location TEXT)")
            connection.executemany("INSERT INTO images VALUES (?, ?)", enumerate(load.paths))

    def __iter__(self) -> Iterator[Tensor]:
        worker = get_worker_info()
        number, count = (worker.id, worker.num_workers) if worker else (0, 1)
        select = "SELECT location FROM images WHERE id / ? % ? = ? ORDER BY id"
        with closing(sqlite3.connect(self.file)) as connection:  # one of its own: a connection doesn't survive a fork
            for (location,) in connection.execute(select, (BATCH_SIZE, count, number)):
                yield torch.from_numpy(self.load.ways.with_turbo(location))


class PackedPaths(Sequence[str]):
    """Strings as bytes and offsets: two objects for the garbage collector, and no reference counts in the pages."""

    def __init__(self, paths: Iterator[str]) -> None:
        encoded = [path.encode("utf-8", "surrogateescape") for path in paths]
        self._ends = np.cumsum([len(path) for path in encoded])
        self._bytes = np.frombuffer(b"".join(encoded), np.uint8)

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        start = self._ends[index - 1] if index else 0
        return self._bytes[start : self._ends[index]].tobytes().decode("utf-8", "surrogateescape")


def collate_into_buffer(images: list[Tensor]) -> Tensor:
    """(n, size, size, 3) uint8, each image copied once."""
    batch = torch.empty((len(images), *images[0].shape), dtype=torch.uint8)
    for row, image in zip(batch, images, strict=True):
        row.copy_(image)
    return batch


def collate_the_good(images: list[Tensor | None]) -> Tensor:
    """A batch in which all are broken has n = 0: default_collate of an empty list would raise."""
    good = [image for image in images if image is not None]
    batch: Tensor = default_collate(good) if good else torch.empty(0)
    return batch


def _first_of_many(load: Workload, paths: Sequence[str]) -> Iterator[Tensor]:
    """As many images as all rungs load, after each worker has gone through all paths, as a whole epoch would."""
    yield from DataLoader(
        Uint8(load, paths),
        BATCH_SIZE,
        sampler=range(len(load.paths)),
        num_workers=load.num_workers,
        collate_fn=collate_into_buffer,
        worker_init_fn=_touch_all_paths,
    )


def _touch_all_paths(_: int) -> None:
    worker: Any = get_worker_info()
    for index in range(len(worker.dataset.paths)):
        worker.dataset.paths[index]
