import json
from zipfile import ZipFile

import pytest

from infer_app.base.errors import ModelError, UsageError
from infer_app.base.size import Size
from infer_app.build.network.model_source import find_source
from infer_app.build.sources.export_metadata import model_api_facts, model_info, torchscript_config
from infer_app.build.sources.source_facts import Fact, SourceFacts
from tests.support.ultralytics import CLASSIFIER

IR = b'<net><layers/><rt_info><model_info><labels value="cat dog"/></model_info></rt_info></net>'


def test_entries_are_read_from_the_xml_file():
    assert model_info(IR) == {"labels": "cat dog"}
    assert model_info(b"<net><layers/></net>") == {}


@pytest.mark.parametrize(("xml", "message"), [(IR[:40], "not a whole XML file"), (b"<html/>", "with <html>")])
def test_what_is_no_ir_is_refused(xml, message):
    with pytest.raises(ModelError, match=message):
        model_info(xml)


PIXELS = {"labels": "cat dog", "mean_values": "127.5 127.5 127.5", "scale_values": "255", "resize_type": "crop"}
YOLO = {"model_type": "YOLO", "resize_type": "fit_to_window_letterbox", "pad_value": "114", "iou_threshold": "0.7"}


@pytest.mark.parametrize(
    ("info", "taken"),
    [
        (
            PIXELS | {"model_type": "Classification", "reverse_input_channels": "NO"},
            {"labels": ("cat", "dog"), "mean": "0.5,0.5,0.5", "std": "1,1,1"}
            | {"recipe": "crop-resize", "crop_pct": 1.0, "interpolation": "bilinear"},
        ),
        (
            {"resize_type": "fit_to_window", "model_type": "ssd"},
            {"output": "detection", "head": "boxes", "recipe": "letterbox", "interpolation": "bilinear"}
            | {"pad": 0, "place": "corner"},
        ),
        ({"multilabel": "True", "confidence_threshold": "0.3"}, {"activation": "sigmoid", "threshold": 0.3}),
        (
            YOLO | {"scale_values": "255.0", "labels": "cat big_dog"},
            {"output": "detection", "recipe": "letterbox", "interpolation": "bilinear", "pad": 114, "nms": 0.7}
            | {"head": "yolo,yolo5,boxes", "place": "centre"}
            | {"mean": "0,0,0", "std": "1,1,1", "labels": ("cat", "big_dog")},
        ),
    ],
)
def test_what_the_entries_say_is_taken(info, taken):
    assert {option: fact.value for option, fact in model_api_facts(info).taken({}).items()} == taken


@pytest.mark.parametrize(
    ("info", "message", "given"),
    [
        ({"model_type": "Segmentation"}, "model_type is Segmentation", {"output": "raw"}),
        ({"reverse_input_channels": "YES"}, "reverse_input_channels", {"preprocess": "my:function"}),
        ({"reverse_input_channels": "YES"}, "reverse_input_channels", {"channels": "rgb"}),
        ({"resize_type": "fit_somehow"}, "resize_type is fit_somehow", {"recipe": "stretch"}),
        ({"resize_type": "standard", "interpolation_type": "AREA"}, "type is AREA", {"interpolation": "bicubic"}),
        ({"intensity_mode": "scale_to_unit"}, "intensity_mode", {"mean": "0,0,0"}),
        ({"hierarchical": "True"}, "hierarchical", {"output": "raw"}),
    ],
)
def test_what_is_not_supported_is_refused_until_a_flag_decides_it(info, message, given):
    facts = model_api_facts(info)
    with pytest.raises(UsageError, match=message):
        facts.taken({})
    facts.taken(given)


def test_what_no_flag_decides_is_refused():
    with pytest.raises(UsageError, match="embedded_processing"):
        model_api_facts({"embedded_processing": "YES"}).taken({"preprocess": "my:function"})
    with pytest.raises(ModelError, match="mean_values '1 2' is not one number or three"):
        model_api_facts({"mean_values": "1 2"})


def test_a_flag_that_the_network_can_not_run_with_is_refused():
    facts = SourceFacts({"size": Fact(64, "input of 64 x 64", is_fixed=True)})
    with pytest.raises(UsageError, match=r"size 32 contradicts the file: size 64 \(input of 64 x 64\)"):
        facts.taken({"size": 32})
    assert facts.taken({"size": 64}) == {}


def test_a_file_that_contradicts_itself_is_refused():
    shape, imgsz = Fact(64, "input of 64 x 64", is_fixed=True), Fact(96, "metadata_props imgsz")
    with pytest.raises(UsageError, match="contradicts itself"):
        SourceFacts({"size": shape}).merged(SourceFacts({"size": imgsz}))


def torchscript(folder, config):
    """Write an archive as torch.jit.save does with _extra_files, without the code, which is not looked at."""
    path = folder / "net.torchscript"
    with ZipFile(path, "w") as archive:
        archive.writestr("net/data.pkl", b"code is not looked at")
        if config is not None:
            archive.writestr("net/extra/config.txt", config)
    return path


def taken(folder, config, given=()):
    facts = find_source(str(torchscript(folder, json.dumps(config))), None).facts(None).taken(dict(given))
    return {option: fact.value for option, fact in facts.items()}


def test_a_torchscript_file_says_what_a_build_needs(tmp_path):
    config = {"task": "classify", "imgsz": [64, 64], "names": {"0": "cat", "1": "big dog"}, "stride": 1}
    assert taken(tmp_path, config) == CLASSIFIER
    found = taken(tmp_path, {"task": "detect", "imgsz": [480, 640]})
    assert [found[name] for name in ("output", "recipe", "size")] == ["detection", "letterbox", Size(640, 480)]


def test_a_file_without_entries_says_nothing(tmp_path):
    for config in (None, "{}"):
        assert torchscript_config(torchscript(tmp_path, config)) == {}
    (tmp_path / "net.ts").write_bytes(b"PK")
    assert torchscript_config(tmp_path / "net.ts") == {}


@pytest.mark.parametrize("config", ["", "[1]", "{", '"text"', "\xff"])
def test_entries_that_are_no_object_are_refused(tmp_path, config):
    with pytest.raises(ModelError, match="not a JSON object"):
        torchscript_config(torchscript(tmp_path, config))


def test_an_export_of_yolov5_says_its_size_and_labels(tmp_path):
    config = {"shape": [1, 3, 480, 640], "stride": 32, "names": {"0": "animal", "1": "person"}}
    found = taken(tmp_path, config, {"output": "detection"})
    assert found == {"size": Size(640, 480), "labels": ("animal", "person")}
    with pytest.raises(ModelError, match="not that of a batch"):
        taken(tmp_path, {"shape": [3, 640]})
