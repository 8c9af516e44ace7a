"""What a user states of a model: in a file, and by --set."""

import tomllib
from pathlib import Path

import pytest
from pydantic_core import PydanticUndefined

from infer_app.artifact.description import Description
from infer_app.artifact.model_file import describe_values, read_assignments, read_model_file, template
from infer_app.base.domain import OutputKind
from infer_app.base.errors import UsageError
from infer_app.base.size import Size

FILE = """
source = "net.onnx"
name = "pets"
labels = ["cat", "dog"]
size = "640x480"
mean = [0.5, 0.4, 0.3]
std = 0.25
antialias = false
golden = "photos"
"""


def test_a_file_and_texts_state_the_same(tmp_path):
    path = tmp_path / "model.toml"
    path.write_text(FILE)
    (tmp_path / "net.onnx").touch()
    read = describe_values(read_model_file(path))
    texts = ["name=pets", "size=640x480", "mean=0.5, 0.4,0.3", "std=0.25", "antialias=false"]
    stated = describe_values(
        {"source": str(tmp_path / "net.onnx"), "labels": ["cat", "dog"], "golden": str(tmp_path / "photos")}
        | read_assignments(texts)
    )
    assert read == stated
    assert (read.size, read.std, read.golden) == (Size(640, 480), (0.25,) * 3, tmp_path / "photos")
    assert (read.output, read.antialias, read.labels) == (OutputKind.CLASSIFICATION, False, ("cat", "dog"))


@pytest.mark.parametrize(("source", "is_name"), [("timm:resnet18", True), ("net.onnx", False)])
def test_a_source_of_a_module_or_library_is_a_name_and_any_other_a_file(tmp_path, monkeypatch, source, is_name):
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").touch()  # another one, where the command is called
    path = tmp_path / "models" / "model.toml"
    path.parent.mkdir()
    path.write_text(f'source = "{source}"\nlabels = "labels.txt"\n')
    read = {"source": source if is_name else str(path.parent / source), "labels": str(path.parent / "labels.txt")}
    assert read_model_file(path) == read


@pytest.mark.parametrize(
    ("values", "message", "hint"),
    [
        ({"meen": 0}, "f.toml: unknown key 'meen'", "did you mean mean?"),
        ({"meen": "?"}, "f.toml: unknown key 'meen'", "did you mean mean?"),
        ({"xyz": 0}, "f.toml: unknown key 'xyz'", "known are source, name, "),
        ({"recipe": "crop"}, "f.toml: recipe 'crop' is not allowed$", "resize-crop, crop-resize, stretch or letterbox"),
        ({"output": "boxes"}, "f.toml: output 'boxes' is not allowed$", "classification, detection, "),
        ({"input": "nchw"}, "f.toml: input 'nchw' is not allowed$", "float-nchw or uint8-nhwc"),
        ({"mean": "1,2"}, "f.toml: mean '1,2' is not allowed: ", "one number or three"),
        ({"size": [640, 480]}, r"f.toml: size \[640, 480\] is not allowed: .* is not a size such as", "WIDTHxHEIGHT"),
        ({"crop_pct": 1.1}, "f.toml: crop_pct 1.1 is not allowed: .*less than or equal to 1", "size / resize"),
        ({"depth": "half"}, "depth 'half' is not known", "percentile:LOW,HIGH"),
        ({"mean": "?", "std": "?"}, "f.toml: left blank: mean, std", "mean: Means of the channels"),
        ({"recipe": "?"}, "f.toml: left blank: recipe", "recipe: How an image becomes"),
    ],
)
def test_a_wrong_key_or_value_is_named_with_what_is_allowed(values, message, hint):
    with pytest.raises(UsageError, match=message) as caught:
        describe_values({"source": "net.ts"} | values, dict.fromkeys(values, "f.toml"))
    assert hint in caught.value.hint


def test_an_error_names_the_file_only_of_its_own_keys():
    with pytest.raises(UsageError, match="^recipe 'crop' is not allowed"):
        describe_values({"source": "net.ts", "recipe": "crop"}, {"source": "f.toml"})
    with pytest.raises(UsageError, match="^source is missing"):
        describe_values({"name": "pets"}, {"name": "f.toml"})


@pytest.mark.parametrize(
    ("text", "message"), [("mean = 0,1", "line 1"), ("name = pets", "line 1"), (None, "No such file")]
)
def test_a_file_that_can_not_be_read_is_told(tmp_path: Path, text: str | None, message: str):
    path = tmp_path / "model.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=f"model.toml: .*{message}") as caught:
        read_model_file(path)
    assert caught.value.hint


def test_the_template_states_the_default_of_each_key():
    lines = {key: line for key, (_, line) in template().items()}
    stated = tomllib.loads("\n".join(line for line in lines.values() if not line.endswith(" =")))
    described = describe_values({"source": ""} | stated)
    assert (list(lines), described) == (list(Description.model_fields), describe_values({"source": ""}))
    left = {key: field.default for key, field in Description.model_fields.items() if key not in stated}
    assert set(left.values()) == {PydanticUndefined, "", None}


def test_set_takes_a_key_and_a_value():
    assert read_assignments(["mean=0", "source=a=b"]) == {"mean": "0", "source": "a=b"}
    with pytest.raises(UsageError, match="--set mean: no value"):
        read_assignments(["mean"])
