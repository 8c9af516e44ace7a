"""A hash of what a TorchScript module computes, which is the same wherever and however often it is traced.

The bytes of a file differ at each save: they name source files and lines, and classes by a counter of the process.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from infer_app.predict.runtimes.torchscript import load_torchscript

_PLAIN = (bool, int, float, complex, str, torch.dtype, torch.device)


def computation_sha256(source: bytes) -> str:
    """Hash the operators of a TorchScript file in order, and all the numbers that they read.

    Names of values and classes, lines of code and types of tensors are left out. Another version of torch may trace a
    module to other operators.
    """
    module = load_torchscript(source)
    graph: Any = module.inlined_graph
    hasher = _Hasher()
    hasher.name_values(graph.inputs())
    hasher.objects[next(graph.inputs()).debugName()] = module
    hasher.add_block(graph, graph.return_node())
    return hasher.digest.hexdigest()


def add_tensor(digest: Any, tensor: Tensor) -> None:
    """Add type, shape and bytes of a tensor to a digest."""
    digest.update(f"{tensor.dtype}:{tuple(tensor.shape)};".encode())
    # Not contiguous(): for a tensor with one element it keeps any stride, and view needs stride 1.
    values = tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
    digest.update(values.view(torch.uint8).numpy().tobytes())


class _Hasher:
    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.numbers: dict[str, int] = {}  # of values, in the order in which they are made
        self.objects: dict[str, object] = {}  # modules, by the value that stands for them

    def name_values(self, values: Iterable[Any]) -> None:
        for value in values:
            self.numbers[value.debugName()] = len(self.numbers)
            self.digest.update(f"{value.type().kind()};".encode())

    def add_block(self, block: Any, last: Any) -> None:
        for node in block.nodes():
            self._add_node(node)
        self.digest.update(f"return{self._inputs(last)};".encode())

    def _add_node(self, node: Any) -> None:
        self.digest.update(f"{node.kind()}{self._inputs(node)}".encode())
        for name in sorted(node.attributeNames()):
            self.digest.update(f"{name}=".encode())
            self._add_value(getattr(node, node.kindOf(name))(name))
        self.name_values(node.outputs())
        if node.kind() == "prim::GetAttr":
            found = getattr(self.objects.get(node.inputsAt(0).debugName()), node.s("name"), None)
            self.objects[node.outputsAt(0).debugName()] = found
            self._add_value(found)
        for block in node.blocks():
            self.name_values(block.inputs())
            self.add_block(block, block.returnNode())

    def _inputs(self, node: Any) -> list[int]:
        return [self.numbers[value.debugName()] for value in node.inputs()]

    def _add_value(self, value: object) -> None:
        if isinstance(value, Tensor):
            add_tensor(self.digest, value.dequantize() if value.is_quantized else value)
        elif isinstance(value, list | tuple | Mapping):
            self.digest.update(f"{len(value)}[".encode())
            for part in value.items() if isinstance(value, Mapping) else value:
                self._add_value(part)
        else:  # of other objects the text may have an address
            text = repr(value) if value is None or isinstance(value, _PLAIN) else type(value).__name__
            self.digest.update(f"{text};".encode())
