"""Decide by the kind of a model's source how it is run as it is, and how its graph for OpenVINO is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from infer_app.models.artifact.artifact import Artifact
from infer_app.models.runtimes import openvino
from infer_app.models.runtimes.fixed_batch import FixedBatch
from infer_app.models.runtimes.graph_source import make_graph as read_and_normalise
from infer_app.models.runtimes.graph_source import open_graph_source
from infer_app.models.runtimes.torchscript import build_cpu_variant, load_torchscript


@dataclass(frozen=True, slots=True)
class SourceKind:
    """The functions for the sources of one kind."""

    open: Callable[[Sequence[bytes], str | None], nn.Module]  # as it was given, in fp32: the reference of all variants
    make_graph: Callable[[Artifact], Any]  # for OpenVINO: any number of uint8 NHWC pictures in, fp32 out
    make_first: Callable[[Artifact, int], tuple[FixedBatch, dict[str, bytes]]]  # the first variant and its files


def _make_openvino(artifact: Artifact, batch_size: int) -> tuple[FixedBatch, dict[str, bytes]]:
    graph = read_and_normalise(artifact)
    return openvino.compile_graph(graph, artifact.manifest.recipe.size, batch_size), openvino.serialise(graph)


_TORCHSCRIPT = SourceKind(
    lambda files, _: load_torchscript(files[0]),
    openvino.convert,
    lambda artifact, batch_size: (build_cpu_variant(artifact, batch_size), {}),
)
_GRAPH = SourceKind(open_graph_source, read_and_normalise, _make_openvino)
SOURCE_KINDS = {"torchscript": _TORCHSCRIPT, "callable": _TORCHSCRIPT, "onnx": _GRAPH, "openvino": _GRAPH}


def load_source(artifact: Artifact) -> nn.Module:
    """Load the source of a model, to be run by `run_source`."""
    manifest = artifact.manifest
    files = [artifact.read(name) for name in manifest.model_files]
    return SOURCE_KINDS[manifest.source_kind].open(files, manifest.output_name)


def make_graph(artifact: Artifact) -> Any:
    """Make the graph of a model for OpenVINO. Raises ModelError if that fails."""
    return SOURCE_KINDS[artifact.manifest.source_kind].make_graph(artifact)


def make_first_variant(artifact: Artifact, batch_size: int) -> tuple[FixedBatch, dict[str, bytes]]:
    """Make the variant that every model of this kind has (`first_variant`), and the files that are stored of it."""
    return SOURCE_KINDS[artifact.manifest.source_kind].make_first(artifact, batch_size)
