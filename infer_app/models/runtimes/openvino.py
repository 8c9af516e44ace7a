"""Convert, quantise and run models with OpenVINO; no other module imports it or NNCF."""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from infer_app.errors import ModelError
from infer_app.models.artifact.artifact import Artifact
from infer_app.models.runtimes.fixed_batch import FixedBatch
from infer_app.models.runtimes.torchscript import trace_normalised
from infer_app.models.runtimes.variants import OPENVINO_BF16, OPENVINO_FP32

MODEL_XML, MODEL_BIN = "model.xml", "model.bin"  # in variants/<variant>/
BATCH_SIZE = 2  # images; tuning may find a faster one

_INSTALL = "pip install --force-reinstall openvino"


def convert(artifact: Artifact) -> Any:
    """Convert the artifact's TorchScript module to an OpenVINO graph: any number of uint8 NHWC pictures in, fp32 out.

    Raises ModelError if OpenVINO does not support one of its operators.
    """
    manifest = artifact.manifest
    size = manifest.recipe.size
    traced = trace_normalised(artifact.read(manifest.model_file), manifest.input_spec, size)
    openvino = _openvino()
    try:
        with _restore_logging():
            return openvino.convert_model(traced, input=[openvino.PartialShape([-1, size, size, 3])])
    except Exception as error:  # the frontend may raise anything for the user's graph
        raise ModelError(f"OpenVINO can't convert this model: {_last_line(error)}", "it runs as TorchScript") from error


def quantise(graph: Any, calibration: Iterable[Tensor], keep_float: int = 0) -> Any:
    """Quantise a graph to int8, except its first `keep_float` convolutions.

    `calibration` yields pixels, (1, size, size, 3) uint8.

    The overflow fix leaves a bit of each weight unused: on processors without VNNI the sum of two products of full
    range does not fit into 16 bits. Measured on such a processor with EfficientNet-Lite0: 98 % of the labels kept, 89 %
    without.
    """
    _openvino()  # NNCF would import it with its telemetry
    import nncf
    from nncf.quantization.advanced_parameters import OverflowFix

    first = [node.get_friendly_name() for node in graph.get_ordered_ops() if "Convolution" in node.get_type_name()]
    samples = [pixels.numpy() for pixels in calibration]
    return nncf.quantize(
        graph,
        nncf.Dataset(samples),
        preset=nncf.QuantizationPreset.PERFORMANCE,
        subset_size=len(samples),
        ignored_scope=nncf.IgnoredScope(names=first[:keep_float]) if keep_float else None,
        advanced_parameters=nncf.AdvancedQuantizationParameters(overflow_fix=OverflowFix.ENABLE),
    )


def serialise(graph: Any) -> dict[str, bytes]:
    """Return the graph's files by name, with weights in full fp32."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, MODEL_XML)
        _openvino().save_model(graph, str(path), compress_to_fp16=False)
        return {name: Path(folder, name).read_bytes() for name in (MODEL_XML, MODEL_BIN)}


def build_openvino_variant(
    artifact: Artifact, variant: str, batch_size: int = BATCH_SIZE, num_threads: int = 1
) -> FixedBatch:
    """Compile a stored variant for this processor. Raises ModelError if OpenVINO can't be loaded or can't read it."""
    stored = OPENVINO_FP32 if variant == OPENVINO_BF16 else variant  # bf16 is the fp32 graph, computed otherwise
    xml, weights = (artifact.read(f"variants/{stored}/{name}") for name in (MODEL_XML, MODEL_BIN))
    openvino = _openvino()
    try:
        graph = _core().read_model(xml, openvino.Tensor(np.frombuffer(weights, np.uint8)))
    except RuntimeError as error:
        raise ModelError(f"{variant}: OpenVINO {openvino.__version__} can't read it: {_last_line(error)}") from error
    precision = "bf16" if variant == OPENVINO_BF16 else "f32"
    return compile_graph(graph, artifact.manifest.recipe.size, batch_size, num_threads, precision)


def compile_graph(
    graph: Any, size: int, batch_size: int = BATCH_SIZE, num_threads: int = 1, precision: str = "f32"
) -> FixedBatch:
    """Compile the graph for one batch size, to run on `num_threads` threads of the CPU.

    `precision`, f32 or bf16, is always requested, because the default depends on the processor. Threads are not pinned
    to cores, because two processes would both be pinned to the first core.
    """
    graph = graph.clone()
    graph.reshape([batch_size, size, size, 3])
    options = {
        "INFERENCE_PRECISION_HINT": precision,
        "ENABLE_CPU_PINNING": False,
        "INFERENCE_NUM_THREADS": num_threads,
        "NUM_STREAMS": 1,
    }
    request = _core().compile_model(graph, "CPU", options).create_infer_request()
    model = FixedBatch(_runner(request), size, batch_size)
    model.warm_up()
    return model


def can_quantise() -> bool:
    """Return whether NNCF is installed, without importing it."""
    return find_spec("nncf") is not None


def _runner(request: Any) -> Callable[[Tensor], Tensor]:
    def run(pixels: Tensor) -> Tensor:
        outputs = request.infer({0: pixels.numpy()}, share_inputs=True, share_outputs=False)
        return torch.from_numpy(outputs[0])

    return run


@cache
def _core() -> Any:
    return _openvino().Core()


def _openvino() -> Any:
    """Import OpenVINO without its telemetry, which would report each conversion to its maker.

    Raises ModelError with how to repair the installation if the import fails.
    """
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    try:
        import openvino
    except Exception as error:  # an OSError for a missing system library, anything for a damaged package
        raise ModelError(f"OpenVINO can't be loaded: {error}", _INSTALL) from error
    return openvino


@contextmanager
def _restore_logging() -> Iterator[None]:
    """Restore the logging configuration afterwards: a failed conversion leaves all of it at errors only."""
    root = logging.getLogger()
    level, filters, handlers = root.level, list(root.filters), list(root.handlers)
    try:
        yield
    finally:
        root.setLevel(level)
        root.filters[:], root.handlers[:] = filters, handlers


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:300]
