"""Classify the objects that a database holds of each photo, with a compiled network and functions of infer_app.

A process per core with one thread reads, decodes, cuts the objects out, and predicts crops of many photos in one batch.
This process hands photos out and is the only one that writes. With --detect each photo goes through the detector's
network first. It prints the CPU milliseconds per photo of each stage.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from turbojpeg import TJPF_RGB, TurboJPEG

from infer_app.artifact.artifact import Artifact, open_artifact
from infer_app.predict.images.transform.crop import cut_out
from infer_app.predict.images.transform.geometry import Picture
from infer_app.predict.images.transform.to_pixels import transform
from infer_app.predict.runtimes.open_variant import open_variant

CHUNK = 32  # photos: the unit of dispatch and commit
OBJECTS = (
    "SELECT images.id, location, object, x, y, width, height FROM infer_images images"
    " JOIN infer_objects objects ON objects.picture = images.id AND objects.model_id = ? ORDER BY images.id, object"
)


class Photo(NamedTuple):
    image_id: int
    location: str
    boxes: list[tuple[float, float, float, float]]


class Network:
    """A model that is compiled for one thread and a fixed batch, which is predicted when it is full."""

    def __init__(self, folder: str, batch_size: int) -> None:
        self.artifact: Artifact = open_artifact(Path(folder))
        self.predict = open_variant(self.artifact, "cpu-openvino-fp32", batch_size)
        self.batch = np.zeros((batch_size, *self.artifact.manifest.recipe.size.shape), np.uint8)
        self.num_waiting = 0

    def add(self, picture: Picture) -> None:
        self.batch[self.num_waiting] = transform(picture, self.artifact.manifest.recipe)
        self.num_waiting += 1

    @property
    def is_full(self) -> bool:
        return self.num_waiting == len(self.batch)

    def run(self) -> np.ndarray:
        num_waiting, self.num_waiting = self.num_waiting, 0
        return self.predict(self.batch[:num_waiting])


class Worker:
    def __init__(self, flags: argparse.Namespace) -> None:
        self.turbo = TurboJPEG()
        self.second = Network(flags.second, flags.second_batch)
        self.detector = Network(flags.detector, flags.detector_batch) if flags.detect else None
        crop = self.second.artifact.manifest.crop
        assert crop is not None
        self.rule = crop.rule
        self.cpu_ms: dict[str, float] = defaultdict(float)

    def process(self, photos: list[Photo]) -> tuple[list[tuple[int, float]], dict[str, float]]:
        """Return the best class of each object and its score, and the CPU milliseconds of the stages."""
        self.cpu_ms.clear()
        rows: list[np.ndarray] = []
        for photo in photos:
            with self.timed("read"):
                data = Path(photo.location).read_bytes()
            with self.timed("decode"):
                picture = Picture.whole(self.turbo.decode(data, TJPF_RGB))
            if self.detector:
                with self.timed("detector's pixels"):
                    self.detector.add(picture)
                if self.detector.is_full:
                    self.run(self.detector, "detector's network")
            for box in photo.boxes:
                with self.timed("crops"):
                    self.second.add(cut_out(picture, box, self.rule))
                if self.second.is_full:
                    rows.append(self.run(self.second, "second network"))
        if self.detector and self.detector.num_waiting:
            self.run(self.detector, "detector's network")
        if self.second.num_waiting:
            rows.append(self.run(self.second, "second network"))
        return best_classes(np.concatenate(rows)), dict(self.cpu_ms)

    def run(self, network: Network, stage: str) -> np.ndarray:
        with self.timed(stage):
            return network.run()

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        started = time.process_time()
        yield
        self.cpu_ms[stage] += 1e3 * (time.process_time() - started)


def best_classes(scores: np.ndarray) -> list[tuple[int, float]]:
    exponents = np.exp(scores - scores.max(1, keepdims=True))
    best = exponents.argmax(1)
    return list(zip(best.tolist(), (exponents.max(1) / exponents.sum(1)).tolist(), strict=True))


def start(flags: argparse.Namespace) -> None:
    global worker
    worker = Worker(flags)


def process(photos: list[Photo]) -> tuple[list[Photo], list[tuple[int, float]], dict[str, float]]:
    return photos, *worker.process(photos)


def read_photos(database: sqlite3.Connection, detector_id: str, limit: int | None) -> list[Photo]:
    rows = database.execute(OBJECTS, (detector_id,))
    photos = [Photo(*key, [tuple(row[3:]) for row in of_photo]) for key, of_photo in groupby(rows, lambda row: row[:2])]
    return photos[:limit]


def main() -> None:
    flags = read_flags()
    with get_context("fork").Pool(flags.workers, start, (flags,)) as pool, sqlite3.connect(flags.database) as database:
        database.execute("CREATE TABLE crops (image_id INTEGER, object INTEGER, class INTEGER, score REAL)")
        photos = read_photos(database, Path(flags.detector).name, flags.limit)
        cpu_ms: dict[str, float] = defaultdict(float)
        chunks = [photos[at : at + CHUNK] for at in range(0, len(photos), CHUNK)]
        for done, found, spent in pool.imap_unordered(process, chunks):
            keys = [(photo.image_id, number) for photo in done for number in range(len(photo.boxes))]
            rows = [(*key, *one) for key, one in zip(keys, found, strict=True)]
            database.executemany("INSERT INTO crops VALUES (?, ?, ?, ?)", rows)
            database.commit()
            for stage, ms in spent.items():
                cpu_ms[stage] += ms / len(photos)
    print(json.dumps(cpu_ms))


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("database", help="the SQLite file of a project, which holds the detector's objects")
    parser.add_argument("detector", help="the model's folder, whose name is its id")
    parser.add_argument("second", help="the folder of the second network")
    parser.add_argument("--detector-batch", type=int, required=True)
    parser.add_argument("--second-batch", type=int, required=True)
    parser.add_argument("--detect", action="store_true", help="run the detector's network too")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=int, help="number of photos; else all")
    return parser.parse_args()


if __name__ == "__main__":
    main()
