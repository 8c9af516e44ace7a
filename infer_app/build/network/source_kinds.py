"""Decide by the kind of a model's source how it is run as it is, and how its graph for OpenVINO is made.

Torch is loaded by what runs or converts a source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from infer_app.artifact.artifact import Artifact
from infer_app.base.errors import ModelError, lines_of
from infer_app.base.model_variants import OPENVINO_FP32, OPENVINO_INT8, TORCHSCRIPT
from infer_app.predict.runtimes import openvino
from infer_app.predict.runtimes.fixed_batch import FixedBatch
from infer_app.predict.runtimes.graph_input import normalise, read_graph

if TYPE_CHECKING:
    from torch import nn


def open_source(kind: str, files: Sequence[bytes], output_name: str | None) -> nn.Module:
    """Open a source of this kind as it was given, in fp32: it is the reference of all variants."""
    from infer_app.build.network.graph_source import open_graph_source
    from infer_app.predict.runtimes.torchscript import load_torchscript

    return open_graph_source(files, output_name) if kind in ("onnx", "openvino") else load_torchscript(files[0])


def load_source(artifact: Artifact) -> nn.Module:
    """Load the source of a model, to be run by `run_source`."""
    manifest = artifact.manifest
    return open_source(manifest.source_kind, [*map(artifact.read, manifest.model_files)], manifest.output_name)


def make_graph(artifact: Artifact) -> openvino.Graph:
    """Make the graph of a model for OpenVINO: any number of uint8 NHWC pictures in, fp32 out. Raises ModelError."""
    return _convert(artifact) if artifact.manifest.has_torchscript else _read_and_normalise(artifact)


def _convert(artifact: Artifact) -> openvino.Graph:
    """Convert the artifact's TorchScript module to an OpenVINO graph: any number of uint8 NHWC pictures in, fp32 out.

    Raises ModelError if OpenVINO does not support one of its operators.
    """
    from infer_app.predict.runtimes.torchscript import trace_normalised

    manifest = artifact.manifest
    size = manifest.recipe.size
    traced = trace_normalised(artifact.read(manifest.model_file), manifest.input_spec, size)
    library = openvino.load_openvino()
    try:
        with openvino.restore_logging():
            graph = library.convert_model(traced, input=[library.PartialShape([-1, *size.shape])])
            return openvino.join_outputs(graph)
    except Exception as error:  # the frontend may raise anything for the user's graph
        raise ModelError(
            f"OpenVINO can't convert this model: {lines_of(error)[-1][:300]}", "it runs as TorchScript"
        ) from error


def _read_and_normalise(artifact: Artifact) -> openvino.Graph:
    manifest = artifact.manifest
    graph = read_graph([*map(artifact.read, manifest.model_files)], manifest.output_name)
    return normalise(graph, manifest.input_spec, manifest.recipe.size)


def make_first_variant(artifact: Artifact, batch_size: int) -> tuple[str, FixedBatch, dict[str, bytes]]:
    """Make the variant that every model of this kind has (`first_variant`): its name, and the files stored of it.

    That of a network that is quantised already is int8.
    """
    if artifact.manifest.has_torchscript:
        from infer_app.predict.runtimes.torchscript import build_cpu_variant

        return TORCHSCRIPT, build_cpu_variant(artifact, batch_size), {}
    graph = _read_and_normalise(artifact)
    variant = OPENVINO_INT8 if openvino.is_quantised(graph) else OPENVINO_FP32
    model = openvino.compile_graph(graph, artifact.manifest.recipe.size, batch_size)
    return variant, model, openvino.serialise(graph)
