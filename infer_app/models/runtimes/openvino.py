"""OpenVINO: the only module that loads it, and the quantisation that belongs to it (NNCF)."""

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

MODEL_XML, MODEL_BIN = "model.xml", "model.bin"  # under variants/<variant>/
BATCH_SIZE = 2  # images; tuning may find another one faster

_INSTALL = "pip install 'infer_app[cpu]'"


def convert(artifact: Artifact) -> Any:
    """The artifact's TorchScript module as an OpenVINO graph: any number of uint8 NHWC pictures in, fp32 out.

    Raises ModelError where OpenVINO lacks an operator of it.
    """
    manifest = artifact.manifest
    size = manifest.recipe.size
    traced = trace_normalised(artifact.read(manifest.model_file), manifest.input_spec, size)
    openvino = _openvino()
    try:
        with _logging_as_it_was():
            return openvino.convert_model(traced, input=[openvino.PartialShape([-1, size, size, 3])])
    except Exception as error:  # whatever its frontend meets in the user's graph
        raise ModelError(f"OpenVINO can't convert this model: {_last_line(error)}", "it runs as TorchScript") from error


def quantise(graph: Any, calibration: Iterable[Tensor], keep_float: int = 0) -> Any:
    """A graph in int8 but for the first `keep_float` convolutions; `calibration` are (1, size, size, 3) uint8 pixels.

    The overflow fix leaves a bit of each weight unused: on processors without VNNI two products of full range do not
    fit their 16-bit sum. Measured on such a one with EfficientNet-Lite0: 98 % of the labels kept, 89 % without it.
    """
    _openvino()  # first, so that it comes without its telemetry
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
    """The graph's files by name, weights in full fp32."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, MODEL_XML)
        _openvino().save_model(graph, str(path), compress_to_fp16=False)
        return {name: Path(folder, name).read_bytes() for name in (MODEL_XML, MODEL_BIN)}


def build_openvino_variant(
    artifact: Artifact, variant: str, batch_size: int = BATCH_SIZE, num_threads: int = 1
) -> FixedBatch:
    """A stored variant, compiled for this processor. Raises ModelError when OpenVINO is missing or refuses it."""
    xml, weights = (artifact.read(f"variants/{variant}/{name}") for name in (MODEL_XML, MODEL_BIN))
    openvino = _openvino()
    try:
        graph = _core().read_model(xml, openvino.Tensor(np.frombuffer(weights, np.uint8)))
    except RuntimeError as error:
        raise ModelError(f"{variant}: OpenVINO {openvino.__version__} can't read it: {_last_line(error)}") from error
    return compile_graph(graph, artifact.manifest.recipe.size, batch_size, num_threads)


def compile_graph(graph: Any, size: int, batch_size: int = BATCH_SIZE, num_threads: int = 1) -> FixedBatch:
    """The graph for one batch size, on `num_threads` threads of the CPU.

    Full precision is asked for: where a processor has bfloat16, the default would be that. Threads are not pinned to
    cores: pinned, two processes would share the first core.
    """
    graph = graph.clone()
    graph.reshape([batch_size, size, size, 3])
    options = {
        "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": False,
        "INFERENCE_NUM_THREADS": num_threads,
        "NUM_STREAMS": 1,
    }
    request = _core().compile_model(graph, "CPU", options).create_infer_request()
    model = FixedBatch(_runner(request), size, batch_size)
    model.warm_up()
    return model


def can_quantise() -> bool:
    """Whether NNCF is there; asked without importing it."""
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
    """The library, without its telemetry, which would report each conversion to its maker unasked.

    Raises ModelError with how to install it.
    """
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    try:
        import openvino
    except Exception as error:  # a missing system library is an OSError, a damaged package anything
        raise ModelError(f"OpenVINO can't be loaded: {error}", _INSTALL) from error
    return openvino


@contextmanager
def _logging_as_it_was() -> Iterator[None]:
    """After a conversion: one that fails leaves the whole program's logging at errors only."""
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
