"""A module around a plan, as torch-tensorrt's C++ makes it: the engine is an attribute, forward hands it the input."""

from __future__ import annotations

from typing import Any

import torch
import torch_tensorrt
from torch import Tensor, nn


class _Embedded(nn.Module):
    def __init__(self, engine: Any) -> None:
        super().__init__()
        self.engine = engine

    def forward(self, input_0: Tensor) -> Tensor:
        return torch.ops.tensorrt.execute_engine([input_0], self.engine)[0]


def embed_engine_in_new_module(
    serialized_engine: bytes,
    input_binding_names: list[str] | None = None,
    output_binding_names: list[str] | None = None,
    device: torch_tensorrt.Device | None = None,
) -> torch.jit.ScriptModule:
    assert isinstance(device, torch_tensorrt.Device)  # the real one takes no torch.device
    major, minor = torch_tensorrt.MACHINE["capability"].split(".")
    fields: list[str | bytes] = [
        torch.ops.tensorrt.ABI_VERSION(),
        "engine",
        f"0%{major}%{minor}%0%Stand-in",
        serialized_engine,
        "%".join(input_binding_names or []),
        "%".join(output_binding_names or []),
        "0",
        "",
        "linux_x86_64",
        "0",
        "0",
        "0",
    ]
    return torch.jit.script(_Embedded(torch.classes.tensorrt.Engine(fields)))
