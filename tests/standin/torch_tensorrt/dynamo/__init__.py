"""A "plan" of an exported program: the names and the batches it takes, and the program as TorchScript."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import torch
import torch_tensorrt
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.fx.graph import CodeGen


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
    torch.jit.save(_as_torchscript(exported_program), buffer)
    return "\n".join(["STANDIN1", *map(str, header), ""]).encode() + buffer.getvalue()


def _as_torchscript(exported_program: ExportedProgram) -> torch.jit.ScriptModule:
    """Scripted and not traced, so that the batch stays open: (pixels) to a tuple of the outputs."""
    module = exported_program.module()
    for node in list(module.graph.nodes):
        if node.op == "call_module":  # the check of the input's shape, which is Python
            module.graph.erase_node(node)
        elif node.target == torch.ops.aten.sym_size.int:
            node.target = torch.ops.aten.size
        elif isinstance(node.target, torch._ops.OpOverload):
            node.target = node.target.overloadpacket
    module.graph.set_codegen(CodeGen())
    return torch.jit.script(GraphModule(module, module.graph))
