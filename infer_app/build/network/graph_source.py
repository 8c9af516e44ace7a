"""Run a network of an ONNX file or an IR as it is, to get its golden outputs; no other module imports onnxruntime."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from infer_app.base.errors import ModelError
from infer_app.base.packages import install_packages
from infer_app.base.size import Size
from infer_app.build.network.openvino_differences import find_differences
from infer_app.predict.runtimes.graph_input import GraphInput, describe_input, output_names, read_graph, run_graph

EXPORT_OTHERWISE = "export it otherwise: docs/how-to/model-sources.md"
Run = Callable[[np.ndarray], list[np.ndarray]]  # a batch of pictures to all outputs


class Reference(NamedTuple):
    """A function that runs a network, and what runs it."""

    run: Run
    runtime: str


class GraphModule(nn.Module):
    """A network of a file as a module: normalised float32 (n, 3, H, W), or (n, H, W, 3) uint8 if it takes pixels.

    Pictures are run one by one, or in the number that the network was exported for. It is opened for the size of the
    first picture.
    """

    def __init__(
        self, own: GraphInput, open_reference: Callable[[int, Size], Reference], differences: Sequence[str] = ()
    ) -> None:
        """Wrap a network; `open_reference` takes the number of pictures of a call and their size.

        `differences` is what OpenVINO may compute otherwise than the file says.
        """
        super().__init__()
        self.differences = differences
        self._own = own
        self._open_reference = open_reference
        self._reference: Reference | None = None

    @property
    def runtime(self) -> str:
        """Return the name and the version of the runtime that ran it."""
        return self._reference.runtime if self._reference else ""

    def forward(self, pictures: Tensor) -> Tensor | tuple[Tensor, ...]:
        batch = self._own.batch or 1
        values = self._arranged(pictures)
        height, width = pictures.shape[1:3] if self._layout == "NHWC" else pictures.shape[2:]
        self._reference = self._reference or self._open_reference(batch, Size(width, height))
        missing = -len(values) % batch
        values = np.concatenate([values, np.zeros((missing, *values.shape[1:]), values.dtype)])
        batches = [values[first : first + batch] for first in range(0, len(values), batch)]
        parts = zip(*(self._run(self._reference.run, some) for some in batches), strict=True)
        outputs = tuple(torch.from_numpy(np.concatenate(rows)[: len(pictures)]).float() for rows in parts)
        return outputs if len(outputs) > 1 else outputs[0]

    @property
    def _layout(self) -> str:
        """Return the layout in which the pictures come."""
        return "NHWC" if self._own.dtype == "uint8" else "NCHW"

    def _arranged(self, pictures: Tensor) -> np.ndarray:
        """Return pictures in the order of dimensions and the type that the network takes."""
        if self._layout != self._own.layout:
            pictures = pictures.permute(0, 3, 1, 2) if self._layout == "NHWC" else pictures.permute(0, 2, 3, 1)
        arranged: np.ndarray = pictures.contiguous().numpy().astype(self._own.dtype)
        return arranged

    def _run(self, run: Run, values: np.ndarray) -> list[np.ndarray]:
        try:
            outputs = [np.asarray(rows) for rows in run(values)]
        except Exception as error:  # a runtime may raise anything
            raise ModelError(
                f"the network can't run: {str(error)[:300]}", "check --size, or export it again"
            ) from error
        for rows in outputs:
            if rows.ndim == 0 or len(rows) != len(values):
                raise ModelError(
                    f"the network gives {rows.shape} for {len(values)} pictures, not one row for each",
                    "export it so that the first dimension of its output is the batch",
                )
        return outputs


def open_graph_source(files: Sequence[bytes], output_name: str | None) -> GraphModule:
    """Open a network: an ONNX file, or both files of an IR.

    An ONNX file is run by onnxruntime if it is installed and can, because another runtime shows an error of the one
    that runs it every day; all else by OpenVINO in its plainest setting. Then a file with something that OpenVINO
    computes otherwise raises ModelError when it is run: nothing would show what difference that makes.
    """
    graph, is_onnx = read_graph(files, output_name), len(files) == 1
    differences = find_differences(files[0], graph) if is_onnx else []

    def open_reference(batch: int, size: Size) -> Reference:
        with suppress(Exception):  # an operator that it lacks, say
            if is_onnx and find_spec("onnxruntime"):
                return _open_onnxruntime(files[0], output_name)
        if differences:
            raise ModelError(
                f"the network has {', '.join(differences)}: OpenVINO {version('openvino')} computes that otherwise, "
                "and no other runtime is here to tell whether it matters",
                f"{EXPORT_OTHERWISE}; or install what the build compares with: {install_packages('onnxruntime')}",
            )
        return Reference(run_graph(graph, batch, size), f"openvino {version('openvino')}, plain fp32")

    return GraphModule(describe_input(graph), open_reference, differences)


def _open_onnxruntime(model: bytes, output_name: str | None) -> Reference:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # fatal: its warnings are about speed
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    input_name = session.get_inputs()[0].name
    names = output_names(output_name) if output_name else [session.get_outputs()[0].name]

    def run(values: np.ndarray) -> list[np.ndarray]:
        outputs: list[np.ndarray] = session.run(names, {input_name: values})
        return outputs

    return Reference(run, f"onnxruntime {onnxruntime.__version__}")
