"""What a handler needs, without what it is made of: so that the coordinator starts workers without loading torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from infer_app.images.read.read_image import ReadLimits


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model of a handler."""

    artifact: Path
    variant: str
    batch_size: int | None = None  # images; None: the variant's own


@dataclass(frozen=True, slots=True)
class CacheSpec:
    """Where decoded and transformed pixels are kept."""

    folder: Path
    max_bytes: int


@dataclass(frozen=True, slots=True)
class HandlerSpec:
    """How to handle chunks: small and picklable."""

    models: tuple[ModelSpec, ...]  # all of one recipe: an image is read and decoded once for all of them
    read: ReadLimits
    max_pixels: int
    num_threads: int = 1  # of one worker
    trace: bool = False  # whether results carry the spans of their stages
    cache: CacheSpec | None = None  # None: every image is decoded
