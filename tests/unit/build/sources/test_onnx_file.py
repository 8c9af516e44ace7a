import pytest

from infer_app.base.errors import ModelError, UsageError
from infer_app.base.size import Size
from infer_app.build.sources.onnx_file import DamagedOnnx, fold_external_data, metadata_props, onnx_facts
from tests.support.ultralytics import CLASSIFIER


def encoded(number: int, value: bytes) -> bytes:
    """A field of less than 128 bytes."""
    return bytes([number << 3 | 2, len(value)]) + value


def entry(key: str, value: str) -> bytes:
    return encoded(1, key.encode()) + encoded(2, value.encode())


def with_weights(tensor: bytes) -> bytes:
    """A model whose graph has one tensor."""
    return b"\x08\x08" + encoded(7, encoded(2, b"graph") + encoded(5, tensor))


EXTERNAL = encoded(8, b"w") + encoded(13, entry("location", "w.bin")) + encoded(13, entry("offset", "2")) + b"\x70\x01"


def test_metadata_is_read_without_the_package():
    data = b"\x08\x08" + encoded(14, entry("task", "classify")) + encoded(14, entry("imgsz", "[64, 64]"))
    assert metadata_props(data) == {"task": "classify", "imgsz": "[64, 64]"}


@pytest.mark.parametrize("data", [b"\x08", b"\x08\x08\x3a\x05abc", b"PK\x03\x04", b"\xff" * 30, b"\x0f"])
def test_bytes_that_are_no_onnx_file_are_refused(data):
    with pytest.raises(DamagedOnnx, match="not a whole ONNX file"):
        metadata_props(data)


def test_a_file_with_its_weights_within_stays_as_it_is():
    data = with_weights(encoded(9, b"1234"))
    assert fold_external_data(data, lambda _: b"") is data


def test_external_data_becomes_part_of_the_file_which_is_read_once():
    read = []
    folded = fold_external_data(2 * with_weights(EXTERNAL), lambda location: read.append(location) or b"--1234")
    assert folded == 2 * with_weights(encoded(8, b"w") + encoded(9, b"1234"))
    assert read == ["w.bin"]


def test_external_data_that_is_too_short_is_refused():
    tensor = EXTERNAL + encoded(13, entry("length", "40"))
    with pytest.raises(ModelError, match=r"w.bin has 6 bytes, 42 are needed"):
        fold_external_data(with_weights(tensor), lambda _: b"--1234")


PLAIN = {"mean": "0,0,0", "std": "1,1,1"}
LETTERBOX = {"recipe": "letterbox", "pad": 114, "interpolation": "bilinear", "antialias": "no"}
PADDED = PLAIN | LETTERBOX | {"size": Size.square(640)}
CLASSES, ONE_CLASS = {"imgsz": "[64, 64]", "names": "{0: 'cat', 1: 'big dog'}"}, {"imgsz": "640", "names": "['cat']"}
WIDE = PLAIN | {"size": Size(width=640, height=480), "recipe": "stretch", "interpolation": "bilinear"}
FOUND = PADDED | {"output": "detection", "labels": ("cat",), "channels": "rgb"}
YOLO10 = {"description": "Ultralytics YOLOv10n model trained on coco.yaml"}
RT_DETR = {"description": "Ultralytics rtdetr-l model"}
STRETCHED = {key: value for key, value in FOUND.items() if key != "pad"}
STRETCHED |= {"recipe": "stretch"}


@pytest.mark.parametrize(
    ("props", "given", "taken"),
    [
        (CLASSES | {"task": "classify"}, {}, CLASSIFIER),
        (
            CLASSES | {"task": "classify"},  # flags replace what the file says
            {"recipe": "stretch", "output": "embedding", "mean": "0.5,0.5,0.5"},
            {"size": Size.square(64), "std": "1,1,1", "interpolation": "bilinear"},
        ),
        # a rectangle is height by width, and classifiers are stretched to it
        ({"task": "classify", "imgsz": "[480, 640]"}, {}, WIDE | {"activation": "none"}),
        (ONE_CLASS | {"task": "detect"}, {}, FOUND | {"head": "yolo"}),
        (ONE_CLASS | {"task": "detect"} | YOLO10, {}, FOUND | {"head": "yolo,boxes"}),
        (ONE_CLASS | {"task": "detect", "end2end": "True"}, {}, FOUND | {"head": "boxes"}),
        (ONE_CLASS | {"task": "detect", "args": "{'nms': True, 'batch': 1}"} | YOLO10, {}, FOUND | {"head": "boxes"}),
        (ONE_CLASS | {"task": "detect", "args": "{'nms': False}"} | YOLO10, {}, FOUND | {"head": "yolo,boxes"}),
        (ONE_CLASS | {"task": "detect"} | RT_DETR, {"head": "my:head"}, STRETCHED),
        (ONE_CLASS | {"task": "detect"}, {"output": "raw"}, PADDED | {"channels": "rgb"}),
        (ONE_CLASS | {"task": "segment"}, {"output": "raw"}, PADDED),
        (  # which averages pixels, as antialiasing does
            ONE_CLASS | {"task": "segment"},
            {"output": "raw", "decode": "scaled"},
            {option: value for option, value in PADDED.items() if option != "antialias"},
        ),
    ],
)
def test_an_export_of_ultralytics_says_what_a_build_needs(props, given, taken):
    assert {option: fact.value for option, fact in onnx_facts(props).taken(given).items()} == taken


@pytest.mark.parametrize(
    ("props", "labels", "unused"),
    [
        ({"character": "cat\nbig dog\n"}, ("cat", "big dog"), ()),
        ({"character": "cat\nbig dog", "names": "['a', 'b']"}, ("a", "b"), ()),
        ({"labels": "cat\r\nbig dog"}, ("cat", "big dog"), ()),
        ({"classes": "cat,dog", "author": "me"}, None, ("classes",)),
        ({"character": "cat\n\ndog", "class_map": "{}"}, None, ("character", "class_map")),
    ],
)
def test_labels_one_a_line_are_taken_and_other_entries_that_may_be_labels_named(props, labels, unused):
    found = onnx_facts(props)
    assert (found.facts["labels"].value if "labels" in found.facts else None, found.unused) == (labels, unused)


def test_rt_detr_whose_boxes_are_shares_needs_a_head_of_ones_own():
    with pytest.raises(UsageError, match="RT-DETR, whose boxes are shares"):
        onnx_facts(ONE_CLASS | {"task": "detect"} | RT_DETR).taken({})


def test_a_segmentation_is_refused_unless_its_numbers_are_taken_raw():
    with pytest.raises(UsageError, match="task is segment"):
        onnx_facts(ONE_CLASS | {"task": "segment"}).taken({})


@pytest.mark.parametrize(
    ("props", "message"),
    [
        ({"names": "{0: 'cat', 2: 'dog'}"}, "not those of the classes 0, 1, 2"),
        ({"names": "__import__('os')"}, "names can't be read"),
        ({"imgsz": "'large'"}, "not a size"),
    ],
)
def test_metadata_that_is_not_valid_is_refused(props, message):
    with pytest.raises(ModelError, match=message):
        onnx_facts(props)
