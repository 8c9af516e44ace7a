"""The strategy of pixels that an earlier pass has stored: files are read and hashed, but not decoded."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from infer_app.predict.images.read.read_image import read_image
from loading_strategies.workload import Pixels, Workload


def stored(workload: Workload) -> Iterator[Pixels]:
    folder = tempfile.TemporaryDirectory(prefix="infer-bench-")
    pixels = StoredPixels(Path(folder.name) / "pixels", len(workload.paths), workload.shape)
    for path in workload.paths:
        image = read_image(path, workload.readers.read_limits)
        pixels.put(str(image.facts.sha256), workload.readers.pixels_of(image.data))
    return _load(workload, pixels, folder)


class StoredPixels:
    """The pixels of images in one file, by the sha256 of the encoded image."""

    def __init__(self, file: Path, capacity: int, shape: tuple[int, int, int]) -> None:
        self._pixels = np.memmap(file, np.uint8, "w+", shape=(capacity, *shape))
        self._rows: dict[str, int] = {}

    def put(self, sha256: str, pixels: Pixels) -> None:
        self._pixels[self._rows.setdefault(sha256, len(self._rows))] = pixels

    def get(self, sha256: str) -> Pixels:
        return self._pixels[self._rows[sha256]]


def _load(workload: Workload, pixels: StoredPixels, folder: tempfile.TemporaryDirectory[str]) -> Iterator[Pixels]:
    with folder:
        for paths in workload.batches():
            images = (read_image(path, workload.readers.read_limits) for path in paths)
            yield np.stack([pixels.get(str(image.facts.sha256)) for image in images])
