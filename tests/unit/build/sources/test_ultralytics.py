import json
from zipfile import ZipFile

import pytest

from infer_app.base.errors import ModelError
from infer_app.base.size import Size
from infer_app.build.network.model_source import find_source
from infer_app.build.sources.ultralytics import torchscript_config
from tests.support.ultralytics import CLASSIFIER


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
