"""How a worker process opens its handler: picklable callables, so that the coordinator loads no torch.

Each raises ModelError unless the handler gives the expected outputs for the golden images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infer_app.handlers.handler_spec import HandlerSpec
from infer_app.workers.shared_ring import Ring

if TYPE_CHECKING:
    from infer_app.handlers.cpu_handler import CpuHandler
    from infer_app.handlers.gpu_handlers import LoadHandler, PredictHandler


@dataclass(frozen=True, slots=True)
class OpenCpuHandler:
    """Opens what takes images from bytes to rows."""

    spec: HandlerSpec

    def __call__(self) -> CpuHandler:
        from infer_app.handlers.cpu_handler import CpuHandler

        return CpuHandler.open(self.spec)


@dataclass(frozen=True, slots=True)
class OpenLoadHandler:
    """Opens what decodes into slots of the ring."""

    spec: HandlerSpec
    ring: Ring

    def __call__(self) -> LoadHandler:
        from infer_app.handlers.gpu_handlers import LoadHandler

        return LoadHandler.open(self.spec, self.ring)


@dataclass(frozen=True, slots=True)
class OpenPredictHandler:
    """Opens what predicts out of slots of the ring; `device` is torch's name for it."""

    spec: HandlerSpec
    ring: Ring
    device: str

    def __call__(self) -> PredictHandler:
        from infer_app.handlers.gpu_handlers import PredictHandler

        return PredictHandler.open(self.spec, self.ring, self.device)
