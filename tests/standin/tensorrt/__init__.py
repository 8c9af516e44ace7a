"""As much of TensorRT's Python module as reads the names of a plan; a plan here is that of ../tensorrt_runtime.cpp."""

from __future__ import annotations

from enum import Enum

__version__ = "11.0.0"


class TensorIOMode(Enum):
    NONE = 0
    INPUT = 1
    OUTPUT = 2


class Logger:
    ERROR = 1

    def __init__(self, min_severity: int = ERROR) -> None:
        self.min_severity = min_severity


class Runtime:
    def __init__(self, logger: Logger) -> None:
        self.logger = logger

    def deserialize_cuda_engine(self, serialized_engine: bytes) -> ICudaEngine | None:
        lines = serialized_engine.split(b"\n", 7)
        return ICudaEngine(lines) if len(lines) == 8 and lines[0] == b"STANDIN1" else None


class ICudaEngine:
    def __init__(self, lines: list[bytes]) -> None:
        inputs, outputs = (line.decode().split("%") for line in lines[3:5])
        self._modes = dict.fromkeys(inputs, TensorIOMode.INPUT) | dict.fromkeys(outputs, TensorIOMode.OUTPUT)

    @property
    def num_io_tensors(self) -> int:
        return len(self._modes)

    def get_tensor_name(self, index: int) -> str:
        return list(self._modes)[index]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return self._modes[name]
