"""A "plan" of an exported program: the names and the batches it takes, and the program traced to TorchScript."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import torch
import torch_tensorrt
from torch.export import ExportedProgram


def convert_exported_program_to_serialized_trt_engine(
    exported_program: ExportedProgram,
    inputs: Sequence[Any] | None = None,
    *,
    arg_inputs: Sequence[Any] | None = None,
    device: torch_tensorrt.Device | None = None,
) -> bytes:
    """The input's name is the exported one, the output's is output0, as in torch-tensorrt."""
    (spec,) = arg_inputs or inputs or ()
    (name,) = exported_program.graph_signature.user_inputs
    machine = torch_tensorrt.MACHINE
    header = [machine["capability"], machine["tensorrt"], name, "output0", spec.min_shape[0], spec.max_shape[0]]
    buffer = io.BytesIO()
    module = exported_program.module()
    with torch.no_grad():
        torch.jit.save(
            torch.jit.trace(module, torch.zeros(spec.opt_shape, dtype=spec.dtype), check_trace=False), buffer
        )
    return "\n".join(["STANDIN1", *map(str, header), ""]).encode() + buffer.getvalue()
