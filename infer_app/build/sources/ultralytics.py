"""Read what an Ultralytics export says about its use: the same entries in an ONNX file and in a TorchScript file."""

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from infer_app.base.errors import ModelError
from infer_app.base.size import Size
from infer_app.build.sources.source_facts import FactCollector, SourceFacts

CONFIG = "extra/config.txt"  # in a TorchScript file, which is a zip archive of one folder
MAX_BYTES = 1 << 24  # of it


def torchscript_config(path: Path) -> dict[str, str]:
    """Return the entries of the export's JSON in a TorchScript file, without loading its code; none if it has no such.

    Raises ModelError if it is not a JSON object.
    """
    try:
        with ZipFile(path) as archive:
            found = [entry for entry in archive.infolist() if entry.filename.partition("/")[2] == CONFIG]
            text = archive.read(found[0]) if found and found[0].file_size <= MAX_BYTES else b"{}"
    except (BadZipFile, OSError, NotImplementedError):  # the loader of TorchScript says what is wrong with it
        return {}
    try:
        entries = dict(json.loads(text))
    except (ValueError, TypeError, RecursionError):
        raise ModelError(f"the {CONFIG} in {path} is not a JSON object", "export the file again") from None
    return {key: str(value) for key, value in entries.items()}


def ultralytics_facts(props: Mapping[str, str], origin: str) -> SourceFacts:
    """Return what the entries say; `origin` names where they were read."""
    said, task = FactCollector(origin), props.get("task")
    if "names" in props:
        said.take("names", labels=_names(props["names"]))
    if "imgsz" in props:
        said.take("imgsz", size=_size(props["imgsz"]))
    elif "shape" in props:
        said.take("shape", size=_size_of_batch(props["shape"]))
    if task is None:
        return said.collected()
    said.take("task", mean="0,0,0", std="1,1,1")
    if task == "classify":
        is_square = "size" not in said.facts or said.facts["size"].value.is_square
        geometry = {"recipe": "resize-crop", "crop_pct": 1.0} if is_square else {"recipe": "stretch"}  # to its size
        said.take("task", **geometry, interpolation="bilinear", activation="none")
        return said.collected()
    said.take("task", recipe="letterbox", pad=114, interpolation="bilinear", antialias="no")  # OpenCV's
    if task == "detect":
        said.take("task", output="detection")
    else:
        hint = "give --output raw for its numbers as they are, or export a classifier or a detector"
        said.refuse(f"the file's task is {task}, which is not supported", hint, "output")
    return said.collected()


def _names(text: str) -> tuple[str, ...]:
    """Return the labels of {0: 'cat', 1: 'dog'}. Raises ModelError unless the classes are 0, 1, 2, …."""
    found = _literal("names", text)
    if isinstance(found, (list, tuple)):
        found = dict(enumerate(found))
    if not isinstance(found, dict) or sorted(map(str, found)) != sorted(str(number) for number in range(len(found))):
        raise ModelError("the metadata's names are not those of the classes 0, 1, 2, …", "give --labels FILE")
    return tuple(str(found[key]).strip() for key in sorted(found, key=int))


def _size(text: str) -> Size:
    found = _literal("imgsz", text)
    height, width = found if isinstance(found, (list, tuple)) and len(found) == 2 else (found, found)
    if not isinstance(height, int) or not isinstance(width, int):
        raise ModelError(f"the metadata's imgsz is {text[:80]!r}, not a size", "give --size N or --size WIDTHxHEIGHT")
    return Size(width, height)


def _size_of_batch(text: str) -> Size:
    """Return the size of [1, 3, 640, 640], as exports of YOLOv5 have it."""
    found = _literal("shape", text)
    if not isinstance(found, (list, tuple)) or len(found) != 4 or not all(isinstance(one, int) for one in found):
        raise ModelError(f"the metadata's shape is {text[:80]!r}, not that of a batch", "give --size")
    return Size(found[3], found[2])


def _literal(key: str, text: str) -> object:
    try:
        found: object = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise ModelError(f"the metadata's {key} can't be read: {text[:80]!r}", "export the file again") from None
    return found
