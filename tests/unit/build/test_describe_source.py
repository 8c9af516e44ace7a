"""A model file says what its source says: a build from it is a build from the source."""

from pathlib import Path

import pytest

from infer_app.artifact.model_file import describe_values, read_model_file
from infer_app.base.errors import UsageError
from infer_app.base.size import Size
from infer_app.build.describe_source import describe_source
from infer_app.build.sources.export_metadata import model_api_facts, ultralytics_facts
from infer_app.build.sources.source_facts import Fact, SourceFacts, Unsupported
from infer_app.cli.commands.build_command import DescribeOptions
from infer_app.cli.model import describe as command

NAMES = {"names": "{0: 'cat', 1: 'dog \"x\"'}"}
ULTRALYTICS = {"task": "detect", "imgsz": "[480, 640]", **NAMES}
MODEL_API = {"labels": "a b", "mean_values": "127 116 104", "scale_values": "255", "resize_type": "crop"}
TIMM = {"recipe": "stretch", "size": Size(96, 64), "crop_pct": 0.9, "mean": "0.485,0.456,0.406", "std": "0.1,0.2,0.3"}
TRANSFORMERS = {"recipe": "resize-crop", "size": Size(96, 96), "resize": Size(128, 128), "centre": "down"}
SAID = {
    "nothing": SourceFacts(),
    "ultralytics": ultralytics_facts(ULTRALYTICS, "metadata_props"),
    "yolov5": ultralytics_facts({"shape": "[1, 3, 64, 64]", **NAMES}, "config.txt"),
    "model api": model_api_facts(MODEL_API | {"multilabel": "True", "confidence_threshold": "0.3"}),
    "detector": model_api_facts({"model_type": "YOLO", "iou_threshold": "0.7"}),
    "timm": SourceFacts({key: Fact(value, "config.json") for key, value in TIMM.items()}),
    "transformers": SourceFacts({key: Fact(value, "config.json") for key, value in TRANSFORMERS.items()}),
    "input": SourceFacts({"input": Fact("uint8-nhwc", "u8 input", is_fixed=True), "size": Fact(Size(8, 8), "", True)}),
}
BLANK = {
    "nothing": ["name", "labels", "recipe", "size", "mean", "std"],
    "ultralytics": ["name"],
    "yolov5": ["name", "recipe", "mean", "std"],
    "model api": ["name", "size"],
    "detector": ["name", "labels", "recipe", "size", "antialias", "mean", "std", "channels"],
    "timm": ["name", "labels"],
    "transformers": ["name", "labels", "mean", "std"],
    "input": ["name", "labels", "recipe"],
}


def made(described):
    return described.make_recipe(), described.make_input(), described.make_output(), described.labels


@pytest.mark.parametrize("kind", SAID)
def test_a_described_source_is_built_as_the_source_itself(tmp_path, kind):
    facts, source, path = SAID[kind], {"source": "net.onnx"}, tmp_path / "model.toml"
    text, blank = describe_source(describe_values(source), facts, Path())
    path.write_text(text)
    assert blank == BLANK[kind]
    with pytest.raises(UsageError, match=f"left blank: {', '.join(blank)}$"):
        describe_values(read_model_file(path))
    path.write_text("".join(line for line in text.splitlines(True) if '"?"' not in line or line.startswith("#")))
    stated = describe_values(read_model_file(path))
    by_file = describe_values({key: one.value for key, one in facts.taken(stated.stated).items()} | stated.stated)
    by_source = describe_values(source | {key: one.value for key, one in facts.taken({}).items()})
    assert made(by_file) == made(by_source)


@pytest.mark.parametrize(
    ("unless", "stated", "blank"),
    [
        ({"interpolation", "preprocess"}, {}, "interpolation"),
        ({"recipe", "preprocess"}, {}, "recipe"),
        ({"recipe", "resize", "crop_pct", "preprocess"}, {}, "resize"),
        ({"output"}, {}, "output"),
        ({"channels", "preprocess"}, {"channels": "bgr"}, None),
    ],
)
def test_what_is_not_supported_is_left_to_the_user_and_told(unless, stated, blank):
    facts = SourceFacts({}, (Unsupported("the file asks for much", "give less", frozenset(unless)),))
    text, blanks = describe_source(describe_values({"source": "net.onnx"} | stated), facts, Path())
    told = "# the file asks for much: give less."
    assert (blank in blanks, f'{told}\n{blank} = "?"\n' in text, told in text) == ((blank is not None,) * 3)


def test_what_nothing_decides_is_refused():
    facts = SourceFacts({}, (Unsupported("the file resizes itself", "export it again"),))
    with pytest.raises(UsageError, match="resizes itself"):
        describe_source(describe_values({"source": "net.onnx"}), facts, Path())


def test_paths_are_relative_to_the_file_that_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("nets", "models"):
        (tmp_path / name).mkdir()
    (tmp_path / "nets" / "net.ts").touch()
    text, _ = describe_source(describe_values({"source": "nets/net.ts"}), SourceFacts(), Path("models"))
    Path("models/model.toml").write_text(text)
    assert Path(read_model_file(Path("models/model.toml"))["source"]).samefile("nets/net.ts")


def test_without_a_file_the_text_is_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.ts").write_bytes(b"PK")
    command.describe(DescribeOptions(source="net.ts", set=["output=detection"]))
    shown = capsys.readouterr().out
    assert [key for key in ("head", "channels", "antialias") if f'\n{key} = "?"\n' in shown] == [
        "head",
        "channels",
        "antialias",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["net.ts"]


def test_a_file_that_is_there_is_not_replaced(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.ts").write_bytes(b"PK")
    options = DescribeOptions(source="net.ts", to=Path("model.toml"), set=["mean=0"])
    command.describe(options)
    assert "left blank: name, labels, recipe, size, std\n" in capsys.readouterr().out
    written = Path("model.toml").read_text()
    assert "\nmean = 0.0\n" in written
    with pytest.raises(UsageError, match=r"can't write model.toml: File exists"):
        command.describe(options)
    assert Path("model.toml").read_text() == written
