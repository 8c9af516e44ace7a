"""What a handler needs, without what it is made of: so that the coordinator starts workers without loading torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from infer_app.images.read.read_image import ReadLimits

if TYPE_CHECKING:
    from infer_app.handlers.cpu_handler import CpuHandler
    from infer_app.handlers.gpu_handlers import LoadHandler, PredictHandler
    from infer_app.workers.shared_ring import Ring


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
    """Small and picklable: `open` is what a worker process is started with."""

    models: tuple[ModelSpec, ...]  # all of one recipe: an image is read and decoded once for all of them
    read: ReadLimits
    max_pixels: int
    num_threads: int = 1  # of one worker
    trace: bool = False  # whether results carry the spans of their stages
    cache: CacheSpec | None = None  # None: every image is decoded

    def open(self) -> CpuHandler:
        """A handler that has proved itself on the golden images. Raises ModelError."""
        from infer_app.handlers.cpu_handler import CpuHandler

        return CpuHandler.open(self)


@dataclass(frozen=True, slots=True)
class LoaderSpec:
    """What decodes into the ring."""

    handler: HandlerSpec
    ring: Ring

    def open(self) -> LoadHandler:
        from infer_app.handlers.gpu_handlers import LoadHandler

        return LoadHandler.open(self)


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """What predicts out of the ring; `device` is torch's name for it."""

    handler: HandlerSpec
    ring: Ring
    device: str

    def open(self) -> PredictHandler:
        """A handler that has proved itself on the golden images. Raises ModelError."""
        from infer_app.handlers.gpu_handlers import PredictHandler

        return PredictHandler.open(self)
