"""The rungs made of infer_app's own parts: pixels stay in the process that made them, where the model runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sized
from pathlib import Path

import numpy as np

from infer_app.bench import dataloaders
from infer_app.bench.dataloaders import NotHere
from infer_app.bench.decode_handler import OpenHandler
from infer_app.bench.workload import Pixels, Workload
from infer_app.domain import Chunk, ImageRef
from infer_app.images.cache.cache_key import CacheKey
from infer_app.images.cache.pixel_cache import PixelCache
from infer_app.images.read.read_image import read_image
from infer_app.models.artifact.manifest import PREPROCESS_FILE
from infer_app.models.runtimes.open_variant import open_variant
from infer_app.pipeline.executor_factory import open_executor, plan_run
from infer_app.workers.pool import Stage, WorkerPool

CACHE_BYTES = 4 << 30


def handler(load: Workload) -> Iterator[Sized]:
    """infer_app without the model: supervised workers, each keeps the pixels of its chunk; broken ones get a reason"""
    with _pool(load, OpenHandler(load.ways)) as workers:
        for result in workers.run(_chunks(load)):
            yield result.predictions


def loader_with_model(load: Workload) -> Iterator[Sized]:
    """fast-collate, and the variant that a run takes in the main process, with a thread for each core"""
    return _predict_here(load, plan_run(load.loaded, load.ways.artifact).variant)


def executor(load: Workload) -> Iterator[Sized]:
    """infer run without its database: each worker loads and predicts its own images"""
    return _predict_in_workers(load, "cpu")


def ring(load: Workload) -> Iterator[Sized]:
    """infer run --executor cuda, on this CPU: workers decode into shared memory, one process predicts out of it"""
    return _predict_in_workers(load, "cuda")


def cache(load: Workload) -> Iterator[Pixels]:
    """infer_app's cache of pixels, full, as a second model finds it: files are read, nothing is decoded"""
    folder = tempfile.TemporaryDirectory(prefix="infer-bench-")
    pixels = PixelCache.open(Path(folder.name), CACHE_BYTES, _cache_key(load))
    if pixels is None:
        raise NotHere("no room on the disk")
    for path in load.paths:
        image = read_image(path, load.ways.read_limits)
        pixels.put(str(image.facts.sha256), load.ways.pixels_of(image.data))
    return _from_cache(load, pixels, folder)


def find_broken(load: Workload) -> dict[str, str]:
    """The files that not every strategy can read, with the reason: whatever they do to a decoder, others are read."""
    with _pool(load, OpenHandler(load.ways, needs_pillow=True)) as workers:
        results = list(workers.run(_chunks(load)))
    return {broken.ref.location: str(broken.reason) for result in results for broken in result.broken}


def _pool(load: Workload, open_handler: OpenHandler) -> WorkerPool:
    return WorkerPool([Stage("decode", open_handler, load.num_workers)], load.timeout_s)


def _chunks(load: Workload) -> Iterator[Chunk]:
    for number, paths in enumerate(load.batches()):
        yield Chunk(number, tuple(ImageRef(path, path) for path in paths))


def _predict_here(load: Workload, variant: str) -> Iterator[Sized]:
    predict = open_variant(load.ways.artifact, variant, num_threads=load.num_workers)
    for batch in dataloaders.fast_collate(load):
        for first in range(0, len(batch), predict.batch_size):
            predict(batch[first : first + predict.batch_size])
        yield batch


def _predict_in_workers(load: Workload, executor: str) -> Iterator[Sized]:
    artifact, roots = load.ways.artifact, load.ways.read_limits.roots
    with open_executor(load.loaded, [artifact], [plan_run(load.loaded, artifact)], roots, executor=executor) as workers:
        for result in workers.run(_chunks(load)):
            yield result.predictions


def _from_cache(load: Workload, pixels: PixelCache, folder: tempfile.TemporaryDirectory[str]) -> Iterator[Pixels]:
    with folder, pixels:
        for paths in load.batches():
            batch = np.empty((len(paths), load.size, load.size, 3), np.uint8)
            for row, path in zip(batch, paths, strict=True):
                image = read_image(path, load.ways.read_limits)
                if not pixels.get(str(image.facts.sha256), row):
                    row[:] = load.ways.pixels_of(image.data)
            yield batch


def _cache_key(load: Workload) -> CacheKey:
    manifest = load.ways.artifact.manifest
    preprocess_sha256 = manifest.files.get(PREPROCESS_FILE)
    return CacheKey.of(manifest.recipe, load.ways.decode_limits.max_pixels, manifest.preprocess, preprocess_sha256)
