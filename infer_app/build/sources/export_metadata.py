"""Read what exporters write about a network's use: OpenVINO's Model API, and Ultralytics.

Model API's entries are `rt_info` in the XML file of an IR; those of Ultralytics are the same in an ONNX file and in a
TorchScript file.
"""

import ast
import json
import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree
from zipfile import BadZipFile, ZipFile

from infer_app.base.errors import ModelError
from infer_app.base.size import Size
from infer_app.build.sources.source_facts import FactCollector, SourceFacts, three

CONFIG = "extra/config.txt"  # in a TorchScript file, which is a zip archive of one folder
MAX_BYTES = 1 << 24  # of it
_RECIPES: dict[str, dict[str, object]] = {
    "standard": {"recipe": "stretch"},
    "crop": {"recipe": "crop-resize", "crop_pct": 1.0},
}
_INTERPOLATIONS = {"LINEAR": "bilinear", "CUBIC": "bicubic"}
# Heads that an export may have, of which the shapes of its outputs tell one: by Model API's model_type.
_DETECTORS = {**dict.fromkeys(("yolo", "yolov5", "yolov8", "yolov11", "yolo11"), "yolo,yolo5,boxes"), "ssd": "boxes"}
_YOLO, _RT_DETR = re.compile(r"Ultralytics (?!yolo_?nas)yolo", re.I), re.compile(r"Ultralytics rt-?detr", re.I)


def model_info(xml: bytes) -> dict[str, str]:
    """Return the entries of `rt_info/model_info` of an IR. Raises ModelError if the file is not an IR."""
    try:
        root = ElementTree.fromstring(xml)
    except ElementTree.ParseError as error:
        raise ModelError(f"not a whole XML file: {error}", "is the file cut off? fetch or export it again") from None
    if root.tag != "net" or root.find("layers") is None:
        raise ModelError(
            f"an XML file with <{root.tag}>, not a network of OpenVINO's", "give the .xml that lies beside its .bin"
        )
    entries = root.find("rt_info/model_info")
    return {} if entries is None else {entry.tag: entry.get("value", "").strip() for entry in entries}


def model_api_facts(info: Mapping[str, str], origin: str = "rt_info") -> SourceFacts:
    """Return what the entries of Model API say about a network."""
    said = FactCollector(origin)
    _refuse_unsupported(info, said)
    if labels := tuple(info.get("labels", "").split()):
        said.take("labels", labels=labels)
    for key, option in (("mean_values", "mean"), ("scale_values", "std")):
        if info.get(key):
            said.take(key, **{option: three(_numbers(key, info[key]))})
    if "std" in said.facts and "mean" not in said.facts:
        said.take("scale_values", mean="0,0,0")
    if "mean" in said.facts and "std" not in said.facts:
        said.take("mean_values", std=three([1.0]))
    if is_on(info, "multilabel"):
        said.take("multilabel", activation="sigmoid")
        if info.get("confidence_threshold"):
            threshold = _numbers("confidence_threshold", info["confidence_threshold"])[0]
            said.take("confidence_threshold", threshold=threshold)
    resize = info.get("resize_type", "")
    if resize in _RECIPES:
        interpolation = _INTERPOLATIONS.get(info.get("interpolation_type", "LINEAR").upper())
        said.take("resize_type", **_RECIPES[resize], interpolation=interpolation or "bilinear")
        if interpolation is None:
            what = f"the file's interpolation_type is {info['interpolation_type']}, which no recipe does"
            said.refuse(what, "give interpolation bilinear or bicubic", "interpolation")
    elif resize in ("fit_to_window", "fit_to_window_letterbox"):
        place = "corner" if resize == "fit_to_window" else "centre"
        said.take("resize_type", recipe="letterbox", interpolation="bilinear", place=place)
        said.take("pad_value", pad=int(_numbers("pad_value", info.get("pad_value") or "0")[0]))
    elif resize:
        said.refuse(f"the file's resize_type is {resize}, which is not known", "give --recipe", "recipe", "preprocess")
    if head := _DETECTORS.get(info.get("model_type", "").lower()):
        said.take("model_type", output="detection", head=head)
        if info.get("iou_threshold"):
            said.take("iou_threshold", nms=_numbers("iou_threshold", info["iou_threshold"])[0])
    return said.collected()


def is_on(info: Mapping[str, str], key: str) -> bool:
    """Return whether a switch of Model API is on."""
    return info.get(key, "").lower() in ("yes", "true", "1")


def _refuse_unsupported(info: Mapping[str, str], said: FactCollector) -> None:
    model_type = info.get("model_type", "Classification")
    raw = "give --output raw for its numbers as they are"
    if model_type.lower() not in ("classification", "", *_DETECTORS):
        what = f"the file's model_type is {model_type}, which is not supported"
        said.refuse(what, f"{raw}, or export a classifier or a detector", "output")
    if is_on(info, "hierarchical"):
        said.refuse("the file's labels are hierarchical, which is not supported", raw, "output")
    if is_on(info, "reverse_input_channels"):
        # Model API itself converts what it takes to be BGR, as of cv2.imread, to RGB; Geti and OTX give it RGB.
        what = "the file says reverse_input_channels, which does not tell what the network takes"
        hint = (
            "give --set channels=rgb for an export of Model API's converters, whose pictures come from cv2.imread; "
            "--set channels=bgr for one of Geti or OTX, whose pictures are RGB before they are reversed"
        )
        said.refuse(what, hint, "channels", "preprocess")
    if info.get("intensity_mode"):
        what = f"the file's intensity_mode is {info['intensity_mode']}, which changes the scale of its mean and std"
        said.refuse(what, "give mean and std for pixels of 0 to 1", "mean", "std")
    if is_on(info, "embedded_processing"):
        what = "the network resizes and normalises by itself (embedded_processing)"
        said.refuse(what, "export it without embedded processing: its input must be the network's own")


def _numbers(key: str, text: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.replace(",", " ").strip("[] ").split()]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 3):
        raise ModelError(f"the file's {key} {text[:80]!r} is not one number or three", "give mean and std yourself")
    return numbers


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
        said.take("task", output="detection", channels="rgb")
        _take_head(props, said)
    else:
        hint = "give --output raw for its numbers as they are, or export a classifier or a detector"
        said.refuse(f"the file's task is {task}, which is not supported", hint, "output")
    return said.collected()


def _take_head(props: Mapping[str, str], said: FactCollector) -> None:
    """Take the head that an export's network has; the name of one that its user named says nothing."""
    name, arguments = props.get("description", ""), _literal("args", props.get("args", "{}"))
    if is_on(props, "end2end") or (isinstance(arguments, dict) and arguments.get("nms") is True):
        said.take("end2end or nms", head="boxes")
    elif _RT_DETR.match(name):
        said.facts.pop("pad")
        said.take("description", recipe="stretch")
        hint = "write the head: rows are centre x, centre y, width and height from 0 to 1, then a score for each class"
        said.refuse("the file's network is RT-DETR, whose boxes are shares of the input", hint, "head", "output")
    else:
        said.take("task", head="yolo,boxes" if _YOLO.match(name) else "yolo")


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
