"""The calls of torch-tensorrt 2.13 that infer_app makes, on the stand-in runtime.

The signatures are held against those of the real wheel by tests/integration/test_tensorrt_wheel.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

__version__ = "2.13.0"
_HERE = Path(__file__).parent
MACHINE = json.loads((_HERE / "machine.json").read_text())

torch.ops.load_library(str(_HERE / "lib" / "libtorchtrt_runtime.so"))
torch.ops.tensorrt.pretend(MACHINE["abi"], MACHINE["capability"], MACHINE["tensorrt"])


@dataclass
class Input:
    min_shape: Sequence[int]
    opt_shape: Sequence[int]
    max_shape: Sequence[int]
    dtype: torch.dtype


@dataclass
class Device:
    gpu_id: int


from torch_tensorrt import dynamo, ts  # noqa: E402, F401
