"""Read the operators of an ONNX file and their attributes, without its package."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from infer_app.build.sources.onnx_file import GRAPH, parts_of, read_varint, text_of

# Numbers of fields in onnx.proto.
_OPSET, _FUNCTION = 8, 25  # of the model
_NODES = {GRAPH: 1, _FUNCTION: 7}  # of a graph and of a function
_OUTPUT, _OPERATOR, _ATTRIBUTE = 2, 4, 5  # of a node
_NAME, _INT, _TEXT, _SUBGRAPH, _INTS, _SUBGRAPHS = 1, 3, 4, 6, 8, 11  # of an attribute


class OnnxNode(NamedTuple):
    """An operator."""

    operator: str
    opset: int
    output: str  # the first one
    numbers: Mapping[str, tuple[int, ...]]  # attributes of a whole number or several
    texts: Mapping[str, str]  # attributes

    def is_on(self, *names: str) -> bool:
        """Return whether all of these switches are 1."""
        return all(self.numbers.get(name) == (1,) for name in names)


def read_nodes(data: bytes) -> Iterator[OnnxNode]:
    """Yield the operators of an ONNX file, those of branches, loops and functions too. Raises DamagedOnnx."""
    model = parts_of(memoryview(data))
    own = [one[2] for one in map(parts_of, model[_OPSET]) if text_of(one[1]) in ("", "ai.onnx")]
    opset = max((number for values in own for number in _numbers(values)), default=1)
    for kind, number in _NODES.items():
        for graph in model[kind]:
            yield from _nodes(graph, number, opset)


def _nodes(graph: memoryview, number: int, opset: int) -> Iterator[OnnxNode]:
    for node in map(parts_of, parts_of(graph)[number]):
        attributes = {text_of(parts[_NAME]): parts for parts in map(parts_of, node[_ATTRIBUTE])}
        numbers = {name: tuple(_numbers(parts[_INT] + parts[_INTS])) for name, parts in attributes.items()}
        texts = {name: text_of(parts[_TEXT]) for name, parts in attributes.items()}
        yield OnnxNode(text_of(node[_OPERATOR]), opset, text_of(node[_OUTPUT]), numbers, texts)
        for inner in (one for parts in attributes.values() for one in parts[_SUBGRAPH] + parts[_SUBGRAPHS]):
            yield from _nodes(inner, _NODES[GRAPH], opset)


def _numbers(values: Sequence[memoryview]) -> Iterator[int]:
    """Yield whole numbers, int64, of which several may lie in one value."""
    for value in values:
        position = 0
        while position < len(value):
            number, position = read_varint(value, position)
            yield number - (number >> 63 << 64)
