"""Convert, quantise and run models with OpenVINO; no other module imports it or NNCF."""

import logging
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from infer_app.artifact.artifact import Artifact
from infer_app.base.errors import ModelError, lines_of
from infer_app.base.model_variants import variant_of
from infer_app.base.packages import install_packages
from infer_app.base.size import Size
from infer_app.predict.runtimes.fixed_batch import FixedBatch

Graph: TypeAlias = Any  # an openvino.Model
Request: TypeAlias = Any  # an openvino.InferRequest
Run = Callable[[np.ndarray], np.ndarray]  # (n, H, W, 3) uint8 to (n, D) float32
Library: TypeAlias = Any  # openvino itself, whose functions have hardly any types

MODEL_XML, MODEL_BIN = "model.xml", "model.bin"  # in variants/<variant>/
BATCH_SIZE = 2  # images: within 5 % of the best for small and large networks


def join_outputs(graph: Graph) -> Graph:
    """Return a graph whose outputs are joined to rows, (n, D) fp32, as by `as_rows`; itself if it has only one."""
    if len(graph.outputs) == 1:
        return graph
    openvino = load_openvino()
    operators = openvino.opset13
    rows = [
        operators.reshape(operators.convert(output.get_node().input_value(0), "f32"), [0, -1], special_zero=True)
        for output in graph.outputs
    ]
    joined = operators.concat(rows, 1)
    return openvino.Model([joined], graph.get_parameters(), graph.get_name())


@dataclass(frozen=True)
class Int8Settings:
    """How a graph is quantised: what stays in fp32 costs speed, what is thorough costs time when it is built."""

    name: str
    first_in_fp32: int = 0  # convolutions
    last_in_fp32: int = 0  # convolutions
    sums_in_fp32: bool = False  # of residual connections, where the rounding of all layers adds up
    is_thorough: bool = False  # ranges by histogram, and biases corrected layer by layer, each after those before it


def quantise(
    graph: Graph, calibration: Iterable[np.ndarray], settings: Int8Settings, overflow_fix: bool = False
) -> Graph:
    """Quantise a graph to int8; `calibration` yields pixels, (1, H, W, 3) uint8.

    The overflow fix leaves a bit of each weight unused: on processors without VNNI the sum of two products of full
    range does not fit into 16 bits. Measured on such a processor with EfficientNet-Lite0: 98 % of the labels kept, 89 %
    without.
    """
    load_openvino()  # NNCF would import it with its telemetry
    import nncf
    from nncf.quantization.advanced_parameters import OverflowFix
    from nncf.quantization.range_estimator import RangeEstimatorParameters, RangeEstimatorParametersSet

    ranges = RangeEstimatorParametersSet.HISTOGRAM if settings.is_thorough else RangeEstimatorParameters()
    batch = _batch_of(graph) or 1
    samples = [np.repeat(pixels, batch, 0) for pixels in calibration]
    with restore_logging():
        nncf.set_log_level(logging.ERROR)  # it lists every operator that stays in fp32
        return nncf.quantize(
            graph,
            nncf.Dataset(samples),
            preset=nncf.QuantizationPreset.PERFORMANCE,
            subset_size=len(samples),
            fast_bias_correction=not settings.is_thorough,
            ignored_scope=nncf.IgnoredScope(names=_in_fp32(graph, settings)),
            advanced_parameters=nncf.AdvancedQuantizationParameters(
                overflow_fix=OverflowFix.ENABLE if overflow_fix else OverflowFix.DISABLE,
                activations_range_estimator_params=ranges,
            ),
        )


def _in_fp32(graph: Graph, settings: Int8Settings) -> list[str]:
    """Return the names of the operators that are not quantised."""
    operators = [(node.get_friendly_name(), node.get_type_name()) for node in graph.get_ordered_ops()]
    convolutions = [name for name, operator in operators if "Convolution" in operator]
    last = convolutions[max(0, len(convolutions) - settings.last_in_fp32) :]
    sums = [name for name, operator in operators if operator == "Add"] if settings.sums_in_fp32 else []
    return list(dict.fromkeys([*convolutions[: settings.first_in_fp32], *last, *sums]))


def is_quantised(graph: Graph) -> bool:
    """Return whether a network rounds what it computes to a few levels, so that another runtime gives another level."""
    return any(_rounds(node) for node in graph.get_ops())


def _rounds(node: Any) -> bool:
    """Return whether an operator rounds fractions to levels; a mask or a class's number has none."""
    if node.get_type_name() != "Convert":
        return bool(node.get_type_name() == "FakeQuantize")
    before, after = node.input_value(0).get_element_type(), node.output(0).get_element_type()
    return before.is_real() and after.get_type_name() in ("u8", "i8")


def serialise(graph: Graph) -> dict[str, bytes]:
    """Return the graph's files by name, with weights in full fp32."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, MODEL_XML)
        load_openvino().save_model(graph, str(path), compress_to_fp16=False)
        return {name: Path(folder, name).read_bytes() for name in (MODEL_XML, MODEL_BIN)}


def build_openvino_variant(
    artifact: Artifact, variant: str, batch_size: int = BATCH_SIZE, num_threads: int = 1
) -> FixedBatch:
    """Compile a stored variant for this processor. Raises ModelError if OpenVINO can't be loaded or can't read it."""
    xml, weights = (artifact.manifest.find_file(variant, name) for name in (MODEL_XML, MODEL_BIN))
    openvino = load_openvino()
    try:
        with artifact.opened(xml) as xml_path, artifact.opened(weights) as weights_path:
            graph = openvino_core().read_model(xml_path, weights_path)
    except RuntimeError as error:
        raise ModelError(
            f"{variant}: OpenVINO {openvino.__version__} can't read it: {lines_of(error)[-1][:300]}"
        ) from error
    return compile_graph(graph, artifact.manifest.recipe.size, batch_size, num_threads, variant_of(variant).dtype)


def compile_graph(
    graph: Graph, size: Size, batch_size: int = BATCH_SIZE, num_threads: int = 1, dtype: str = "fp32"
) -> FixedBatch:
    """Compile the graph for one batch size, to run on `num_threads` threads of the CPU.

    `dtype` is that of the variant; whether sums are of f32 or bf16 is always requested, because the default depends on
    the processor. Threads are not pinned to cores, because two processes would both be pinned to the first core.
    """
    graph = graph.clone()
    own_batch = _batch_of(graph)
    if own_batch is None:
        graph.reshape([batch_size, *size.shape])
    options = {
        "INFERENCE_PRECISION_HINT": "bf16" if dtype == "bf16" else "f32",
        "ENABLE_CPU_PINNING": False,
        "INFERENCE_NUM_THREADS": num_threads,
        "NUM_STREAMS": 1,
    }
    request = openvino_core().compile_model(graph, "CPU", options).create_infer_request()
    run = _runner(request)
    return FixedBatch(run if own_batch is None else _in_batches(run, own_batch), size, batch_size)


def _batch_of(graph: Graph) -> int | None:
    """Return the number of pictures that a graph takes, None for any number."""
    batch = graph.input(0).get_partial_shape()[0]
    return batch.get_length() if batch.is_static else None


def _in_batches(run: Run, batch: int) -> Run:
    """Run pictures in batches of a network's own size, the last one filled up with black pictures."""

    def run_all(pixels: np.ndarray) -> np.ndarray:
        missing = -len(pixels) % batch
        filled = np.concatenate([pixels, np.zeros((missing, *pixels.shape[1:]), np.uint8)]) if missing else pixels
        batches = (filled[first : first + batch] for first in range(0, len(filled), batch))
        return np.concatenate([run(some) for some in batches])[: len(pixels)]

    return run_all


def can_quantise() -> bool:
    """Return whether NNCF is installed, without importing it."""
    return find_spec("nncf") is not None


def _runner(request: Request) -> Run:
    def run(pixels: np.ndarray) -> np.ndarray:
        outputs = request.infer({0: pixels}, share_inputs=True, share_outputs=False)
        rows: np.ndarray = outputs[0]
        return rows

    return run


@cache
def openvino_core() -> Library:
    return load_openvino().Core()


def load_openvino() -> Library:
    """Import OpenVINO without its telemetry, which would report each conversion to its maker.

    Raises ModelError with how to repair the installation if the import fails.
    """
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    try:
        import openvino
    except Exception as error:  # an OSError for a missing system library, anything for a damaged package
        raise ModelError(
            f"OpenVINO can't be loaded: {error}", install_packages("--force-reinstall", "openvino")
        ) from error
    return openvino


@contextmanager
def restore_logging() -> Iterator[None]:
    """Restore the logging configuration afterwards: a failed conversion, or NNCF, leaves all of it at errors only."""
    root = logging.getLogger()
    level, filters, handlers = root.level, list(root.filters), [(one, one.level) for one in root.handlers]
    try:
        yield
    finally:
        root.setLevel(level)
        root.filters[:], root.handlers[:] = filters, [one for one, _ in handlers]
        for one, its_level in handlers:
            one.setLevel(its_level)
