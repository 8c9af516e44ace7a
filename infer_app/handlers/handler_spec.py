"""Specifications from which worker processes open their handlers: the coordinator makes them without loading torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from infer_app.images.read.read_image import ReadLimits


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model of a handler, by its folder and variant."""

    artifact: Path
    variant: str
    batch_size: int | None = None  # images; None: the variant's own


@dataclass(frozen=True, slots=True)
class CacheSpec:
    """The folder and size limit of the cache of decoded and transformed pixels."""

    folder: Path
    max_bytes: int


@dataclass(frozen=True, slots=True)
class HandlerSpec:
    """The specification of a handler, which is pickled into a worker process and opened there."""

    models: tuple[ModelSpec, ...]  # all with one recipe, so that an image is read and decoded once for all of them
    read: ReadLimits
    max_pixels: int
    num_threads: int = 1  # of one worker
    trace: bool = False  # whether results carry the spans of their stages
    cache: CacheSpec | None = None  # None: every image is decoded
