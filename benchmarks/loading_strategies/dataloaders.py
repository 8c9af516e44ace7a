"""Define the strategies that are torch DataLoaders, whose workers are processes: every batch is copied between them."""

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

from loading_strategies.workload import BATCH_SIZE, Workload

MANY = 1_000_000  # paths in the two strategies about memory


class Unavailable(Exception):
    """A strategy needs something that this machine does not have, which the message names."""


def stock(workload: Workload) -> Iterator[Tensor]:
    yield from DataLoader(Normalised(workload), BATCH_SIZE, num_workers=workload.num_workers)


def prefetch(workload: Workload) -> Iterator[Tensor]:
    yield from DataLoader(Normalised(workload), BATCH_SIZE, num_workers=workload.num_workers, prefetch_factor=8)


def pin_memory(workload: Workload) -> Iterator[Tensor]:
    if not torch.cuda.is_available():
        raise Unavailable("no CUDA")
    yield from DataLoader(Normalised(workload), BATCH_SIZE, num_workers=workload.num_workers, pin_memory=True)


def drop_broken(workload: Workload) -> Iterator[Tensor]:
    yield from DataLoader(OrNone(workload), BATCH_SIZE, num_workers=workload.num_workers, collate_fn=collate_intact)


def fast_collate(workload: Workload) -> Iterator[Tensor]:
    dataset = Uint8(workload, workload.paths)
    yield from DataLoader(dataset, BATCH_SIZE, num_workers=workload.num_workers, collate_fn=collate_into_buffer)


def getitems(workload: Workload) -> Iterator[Tensor]:
    dataset = WholeBatches(workload, workload.paths)
    yield from DataLoader(dataset, BATCH_SIZE, num_workers=workload.num_workers, collate_fn=lambda batch: batch)


def database(workload: Workload) -> Iterator[Tensor]:
    with tempfile.TemporaryDirectory(prefix="infer-bench-") as folder:
        rows = DatabaseRows(workload, Path(folder) / "images.db")
        yield from DataLoader(rows, BATCH_SIZE, num_workers=workload.num_workers, collate_fn=collate_into_buffer)


def list_of_paths(workload: Workload) -> Iterator[Tensor]:
    paths = [path[:1] + path[1:] for path in islice(cycle(workload.paths), MANY)]  # each a string of its own
    return _first_of_many(workload, paths)


def packed_paths(workload: Workload) -> Iterator[Tensor]:
    return _first_of_many(workload, PackedPaths(islice(cycle(workload.paths), MANY)))


class Normalised(Dataset[Tensor]):
    """A dataset of normalised images, (3, H, W) float32."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    def __len__(self) -> int:
        return len(self.workload.paths)

    def __getitem__(self, index: int) -> Tensor:
        return torch.from_numpy(
            self.workload.readers.normalised(self.workload.readers.with_pillow(self.workload.paths[index]))
        )


class OrNone(Normalised):
    """A dataset of normalised images, with None for broken files."""

    def __getitem__(self, index: int) -> Tensor | None:  # type: ignore[override]
        try:
            return super().__getitem__(index)
        except Exception:  # decoders raise whatever the damage leads to
            return None


class Uint8(Dataset[Tensor]):
    """A dataset of images, (H, W, 3) uint8."""

    def __init__(self, workload: Workload, paths: Sequence[str]) -> None:
        self.workload = workload
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        return torch.from_numpy(self.workload.readers.with_turbo(self.paths[index]))


class WholeBatches(Uint8):
    """A dataset that loads a batch, (n, H, W, 3) uint8, in one call: DataLoader prefers __getitems__."""

    def __getitems__(self, indices: list[int]) -> Tensor:
        batch = torch.empty((len(indices), *self.workload.shape), dtype=torch.uint8)
        for row, index in zip(batch.numpy(), indices, strict=True):
            row[:] = self.workload.readers.with_turbo(self.paths[index])
        return batch


class DatabaseRows(IterableDataset[Tensor]):
    """A dataset of the images in a table, (H, W, 3) uint8: worker k of n reads every n-th batch of ids."""

    def __init__(self, workload: Workload, file: Path) -> None:
        self.workload = workload
        self.file = file
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("CREATE TABLE images (id INTEGER PRIMARY KEY, location TEXT)")
            connection.executemany("INSERT INTO images VALUES (?, ?)", enumerate(workload.paths))

    def __iter__(self) -> Iterator[Tensor]:
        worker = get_worker_info()
        number, count = (worker.id, worker.num_workers) if worker else (0, 1)
        select = "SELECT location FROM images WHERE id / ? % ? = ? ORDER BY id"
        with closing(sqlite3.connect(self.file)) as connection:  # a new one: a connection does not survive a fork
            for (location,) in connection.execute(select, (BATCH_SIZE, count, number)):
                yield torch.from_numpy(self.workload.readers.with_turbo(location))


class PackedPaths(Sequence[str]):
    """A sequence of strings in two arrays, bytes and offsets, so that reading one writes no reference count."""

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
    """Return (n, H, W, 3) uint8, into which each image is copied once."""
    batch = torch.empty((len(images), *images[0].shape), dtype=torch.uint8)
    for row, image in zip(batch, images, strict=True):
        row.copy_(image)
    return batch


def collate_intact(images: list[Tensor | None]) -> Tensor:
    """Collate the images that are not None; n = 0 if there are none, for which default_collate would raise."""
    good = [image for image in images if image is not None]
    batch: Tensor = default_collate(good) if good else torch.empty(0)
    return batch


def _first_of_many(workload: Workload, paths: Sequence[str]) -> Iterator[Tensor]:
    """Yield the workload's images after each worker has read all paths, as a whole epoch would."""
    yield from DataLoader(
        Uint8(workload, paths),
        BATCH_SIZE,
        sampler=range(len(workload.paths)),
        num_workers=workload.num_workers,
        collate_fn=collate_into_buffer,
        worker_init_fn=_touch_all_paths,
    )


def _touch_all_paths(_: int) -> None:
    worker: Any = get_worker_info()
    for index in range(len(worker.dataset.paths)):
        worker.dataset.paths[index]
