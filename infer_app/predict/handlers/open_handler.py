"""Open the handler of a worker process, by functions that can be pickled: the coordinator loads no libraries for it.

Each raises ModelError if the handler gives other outputs for the golden images than the build.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infer_app.predict.handlers.handler_spec import HandlerSpec

if TYPE_CHECKING:
    from infer_app.predict.handlers.cpu_handler import CpuHandler
    from infer_app.predict.handlers.gpu_handlers import PredictHandler
    from infer_app.predict.handlers.loader import LoadHandler
    from infer_app.predict.workers.shared_ring import Ring


def open_cpu_handler(spec: HandlerSpec, is_first: bool = True) -> CpuHandler:
    """Open what takes images from bytes to rows, in the first worker of a pool or in another."""
    from infer_app.predict.handlers.cpu_handler import CpuHandler

    return CpuHandler.open(spec, is_first)


def open_load_handler(spec: HandlerSpec, ring: Ring) -> LoadHandler:
    """Open what decodes into slots of the ring."""
    from infer_app.predict.handlers.loader import LoadHandler

    return LoadHandler.open(spec, ring)


def open_predict_handler(spec: HandlerSpec, ring: Ring, device: str) -> PredictHandler:
    """Open what predicts out of slots of the ring; `device` is torch's name for it."""
    from infer_app.predict.handlers.gpu_handlers import PredictHandler

    return PredictHandler.open(spec, ring, device)
