"""Read an ONNX file without its package: what its metadata says, and the weights that lie in other files.

An ONNX file is one protobuf message. Only the fields named here are looked at; all others are copied as they are.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from infer_app.base.errors import ModelError
from infer_app.build.sources.export_metadata import model_api_facts, ultralytics_facts
from infer_app.build.sources.source_facts import Fact, SourceFacts

MAX_BYTES = (1 << 31) - 1  # of a protobuf message

GRAPH = 7  # of the model
# Numbers of fields in onnx.proto, by message: in which of them messages with tensors lie.
_INNER = {
    "model": {GRAPH: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
_LABELS = ("character", "labels", "classes")  # keys of metadata whose lines are labels
_LIKE_LABELS = ("label", "class", "name", "categor", "character")  # in a key of metadata
_METADATA = 14  # of the model
_RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 9, 13, 14  # of a tensor
_VARINT, _BYTES = 0, 2  # wire types
_FIXED = {1: 8, 5: 4}  # bytes of the other wire types

ReadExternal = Callable[[str], bytes]  # the file of a location, which is relative to that of the model


@dataclass(frozen=True, slots=True)
class _Field:
    number: int
    wire: int
    value: memoryview  # the message itself, or the encoded number
    encoded: memoryview  # with its key and length


class DamagedOnnx(ModelError):
    """The bytes are not those of an ONNX file."""

    def __init__(self, why: str) -> None:
        super().__init__(f"not a whole ONNX file: {why}", "is the file cut off? fetch or export it again")


def metadata_props(data: bytes) -> dict[str, str]:
    """Return the metadata of an ONNX file. Raises DamagedOnnx."""
    return dict(_entry(entry) for entry in parts_of(memoryview(data))[_METADATA])


def fold_external_data(data: bytes, read: ReadExternal) -> bytes:
    """Return an ONNX file that has its weights within, the bytes themselves if it has them already.

    `read` returns a file by its location, and is called once for each. Raises DamagedOnnx, and ModelError if the result
    is too large for ONNX.
    """
    if not parts_of(memoryview(data))[GRAPH]:
        raise DamagedOnnx("it has no network")
    folded = _fold(memoryview(data), "model", cache(read))
    if folded is None:
        return data
    if len(folded) > MAX_BYTES:
        raise ModelError(
            f"the network and its external data have {len(folded):,} bytes, an ONNX file can have {MAX_BYTES:,}",
            "convert it to OpenVINO's IR first: `ovc net.onnx`, and build from net.xml",
        )
    return folded


def onnx_facts(props: Mapping[str, str]) -> SourceFacts:
    """Return what the metadata of an ONNX file says: that of an Ultralytics export, or of OpenVINO's Model API."""
    prefix = "model_info "
    if model_info := {key.removeprefix(prefix): value for key, value in props.items() if key.startswith(prefix)}:
        return model_api_facts(model_info, "metadata_props model_info")
    said = ultralytics_facts(props, "metadata_props")
    if "labels" in said.facts:
        return said
    for key in _LABELS:
        if len(names := tuple(props.get(key, "").strip().splitlines())) > 1 and all(names):
            return said.merged(SourceFacts({"labels": Fact(names, f"metadata_props {key}")}))
    return replace(said, unused=tuple(key for key in props if any(word in key.lower() for word in _LIKE_LABELS)))


def _fold(message: memoryview, message_type: str, read: ReadExternal) -> bytes | None:
    """Return a message with all external weights within, None if it has none."""
    if message_type == "tensor":
        return _fold_tensor(message, read)
    parts, is_changed = list[bytes | memoryview](), False
    for field in _fields(message):
        inner = _INNER[message_type].get(field.number)
        changed = _fold(field.value, inner, read) if inner and field.wire == _BYTES else None
        is_changed |= changed is not None
        parts.append(field.encoded if changed is None else _encoded(field.number, changed))
    return b"".join(parts) if is_changed else None


def _fold_tensor(tensor: memoryview, read: ReadExternal) -> bytes | None:
    fields = list(_fields(tensor))
    where = dict(_entry(field.value) for field in fields if field.number == _EXTERNAL_DATA)
    if not where:
        return None
    data = read(where.get("location", ""))
    try:
        first = int(where.get("offset", 0))
        length = int(where.get("length", len(data) - first))
    except ValueError:
        raise DamagedOnnx("the place of external data is not a number") from None
    if first < 0 or length < 0 or first + length > len(data):
        raise ModelError(
            f"external data {where.get('location')} has {len(data):,} bytes, {first + length:,} are needed",
            "is the file cut off, or of another export? fetch both again",
        )
    kept = [field.encoded for field in fields if field.number not in (_RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION)]
    return b"".join([*kept, _encoded(_RAW_DATA, data[first : first + length])])


def _entry(message: memoryview) -> tuple[str, str]:
    """Return the key and the value of a StringStringEntryProto."""
    parts = parts_of(message)
    return text_of(parts[1]), text_of(parts[2])


def parts_of(message: memoryview) -> defaultdict[int, list[memoryview]]:
    """Return the values of a message's fields by number. Raises DamagedOnnx."""
    parts = defaultdict[int, list[memoryview]](list)
    for field in _fields(message):
        parts[field.number].append(field.value)
    return parts


def text_of(values: Sequence[memoryview]) -> str:
    """Return the first of the values of a field as text, nothing if there is none."""
    return bytes(values[0]).decode(errors="replace") if values else ""


def _fields(message: memoryview) -> Iterator[_Field]:
    """Yield the fields of a message. Raises DamagedOnnx if the bytes are not a message or end too early."""
    position = 0
    while position < len(message):
        first = position
        key, position = read_varint(message, position)
        number, wire = key >> 3, key & 7
        start = position
        if wire == _VARINT:
            _, position = read_varint(message, position)
        elif wire == _BYTES:
            length, start = read_varint(message, position)
            position = start + length
        elif wire in _FIXED:
            position += _FIXED[wire]
        else:
            raise DamagedOnnx(f"a field of the wire type {wire}")
        if position > len(message) or number == 0:
            raise DamagedOnnx(f"field {number} ends after the file's {len(message):,} bytes")
        yield _Field(number, wire, message[start:position], message[first:position])


def read_varint(message: memoryview, position: int) -> tuple[int, int]:
    """Return a number and the position after it."""
    number = shift = 0
    while position < len(message) and shift < 70:
        byte = message[position]
        number |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return number, position
    raise DamagedOnnx("a number does not end")


def _encoded(number: int, value: bytes) -> bytes:
    """Encode a field of bytes."""
    return _encoded_number(number << 3 | _BYTES) + _encoded_number(len(value)) + value


def _encoded_number(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])
