"""Descriptions of models: recipes, crops and the rest by their keys, and keys that do not go together."""

from dataclasses import replace

import pytest

from infer_app.artifact.check_description import check_description
from infer_app.artifact.description import Description
from infer_app.artifact.recipe import CropRule, Recipe
from infer_app.artifact.specs import CropSpec, DetectionSpec, OutputSpec
from infer_app.base.errors import UsageError
from infer_app.base.size import Size
from infer_app.cli.model.build import parse_share
from infer_app.cli.model.model import crop_as_text
from tests.support.networks import built

WIDE = Size(640, 480)


def describe(**keys: object) -> Description:
    return Description(**{"source": "net.ts", "name": "net"} | keys)


@pytest.mark.parametrize(
    ("keys", "made"),
    [
        ({}, {}),
        ({"decode": "scaled"}, {"decode": "scaled"}),
        ({"channels": "bgr"}, {"channels": "bgr"}),
        ({"antialias": "no"}, {"antialias": False}),
        ({"interpolation": "area"}, {"interpolation": "area", "antialias": False}),
        (
            {"recipe": "letterbox", "place": "corner", "rounding": "down"},
            {"kind": "letterbox", "pad": 114, "place": "corner", "rounding": "down"},
        ),
        ({"crop_pct": 0.9}, {"resize": 248}),
        ({"crop_pct": 0.9, "centre": "down"}, {"resize": 248, "crop_rounding": "down"}),
        ({"crop_pct": 1.0}, {}),
        ({"resize": 256}, {"resize": 256}),
        ({"resize": "256x224"}, {"resize": Size(256, 224)}),
        ({"resize": 224}, {}),
        ({"size": WIDE, "crop_pct": 0.875}, {"size": WIDE, "resize": Size(731, 548)}),
        ({"recipe": "resize-crop"}, {"kind": "resize-crop", "resize": 256}),
        ({"recipe": "resize-crop", "size": WIDE}, {"kind": "resize-crop", "size": WIDE, "resize": Size(731, 548)}),
        ({"recipe": "resize-crop", "size": WIDE, "crop_pct": 1}, {"kind": "resize-crop", "size": WIDE, "resize": WIDE}),
        ({"recipe": "crop-resize"}, {"kind": "crop-resize", "crop": 0.875}),
        ({"recipe": "crop-resize", "crop_pct": 0.9}, {"kind": "crop-resize", "crop": 0.9}),
        ({"recipe": "letterbox"}, {"kind": "letterbox", "pad": 114}),
        ({"recipe": "letterbox", "pad": 0}, {"kind": "letterbox"}),
        ({"recipe": None, "preprocess": "steps:prepare"}, {"kind": "custom"}),
        ({"recipe": None, "output": "detection"}, {"kind": "letterbox", "pad": 114, "interpolation": "bilinear"}),
        ({"depth": "window:0,4095.0"}, {"depth": "window:0,4095"}),
    ],
)
def test_a_recipe_is_made_of_keys(keys: dict[str, object], made: dict[str, object]):
    described = describe(**{"recipe": "stretch"} | keys)
    check_description(described)
    assert described.make_recipe() == Recipe(**{"kind": "stretch", "size": 224} | made)


STRETCH, CROP, DETECTOR = {"recipe": "stretch"}, {"recipe": "crop-resize"}, {"output": "detection"}
SECOND = {"of": "animals"}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"name": ""}, "the model has no name"),
        ({"name": "../x"}, "model name '../x' is not allowed"),
        ({"channels": "rgb", "preprocess": "a:b"}, "channels belongs to a recipe, whose place preprocess takes"),
        ({"decode": "scaled", "preprocess": "a:b"}, "decode belongs to a recipe"),
        ({"antialias": False, "preprocess": "a:b"}, "antialias belongs to a recipe"),
        (STRETCH | {"preprocess": "a:b"}, "recipe belongs to a recipe"),
        (STRETCH | {"antialias": False, "decode": "scaled"}, "decode scaled averages pixels"),
        (STRETCH | {"interpolation": "area", "decode": "scaled"}, "decode scaled averages pixels"),
        (STRETCH | {"place": "corner"}, "place belongs to the recipe letterbox"),
        ({"rounding": "down"}, "rounding belongs to the recipe letterbox"),
        (CROP | {"resize": WIDE}, "resize belongs to the recipes resize-crop and stretch"),
        ({"recipe": "letterbox", "crop_pct": 0.9}, "crop_pct belongs to the recipes resize-crop, crop-resize and st"),
        (STRETCH | {"pad": 0}, "pad belongs to the recipe letterbox"),
        ({"resize": WIDE, "crop_pct": 0.9}, "mean the same"),
        (CROP | {"size": WIDE}, "the model's input is 640x480"),
        (STRETCH | {"size": WIDE, "resize": 200}, "crops 640x480 out of 200, which is smaller"),
        (STRETCH | {"size": WIDE, "resize": "640x479"}, "out of 640x479, which is smaller"),
        (STRETCH | {"centre": "down"}, "nothing is resized and then cropped"),
        (STRETCH | {"centre": "down", "crop_pct": 1.0}, "nothing is resized and then cropped"),
        (DETECTOR | {"head": "ssd"}, "unknown head 'ssd'"),
        (DETECTOR | {"nms": 0.0}, "nms 0.0 is not an overlap"),
        (DETECTOR | {"head": "boxes", "activation": "softmax"}, "does not go with the head boxes"),
        (DETECTOR | {"exif": "ignore"}, "can't use exif ignore"),
        (DETECTOR | {"preprocess": "a:b"}, "a detector can't use preprocess"),
        ({"head": "boxes"}, "head belongs to the output detection"),
        ({"min_score": 0.05}, "min_score belongs to the output detection, or a second network"),
        ({"output": "embedding", "labels": "l.txt"}, "labels belongs to the outputs classification and detection"),
        ({"input": "uint8-nhwc", "mean": 0.5}, "normalises by itself"),
        ({"crop": "square"}, "crop belongs to a second network"),
        ({"of_labels": "red"}, "of_labels belongs to a second network"),
        ({"of": "animals@12ab"}, "names the version animals@12ab"),
        (SECOND | DETECTOR, "finds none itself"),
        (SECOND | {"name": "animals"}, "animals, which the key `of` names, is this model"),
        (SECOND | {"nms": 0.5}, "nms belongs to the output detection"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(keys: dict[str, object], message: str):
    with pytest.raises(UsageError, match=message) as caught:
        check_description(describe(**keys))
    assert caught.value.hint or "head" in keys or "nms" in keys


def test_an_activation_goes_with_several_heads_of_which_one_takes_it():
    described = describe(**DETECTOR, head="detr,boxes", activation="sigmoid")
    check_description(described)
    assert described.make_output().activation == "sigmoid"


def test_who_leaves_the_channels_to_a_function_learns_in_which_order_it_returns_them():
    with pytest.raises(UsageError) as caught:
        check_description(describe(preprocess="a:b", channels="bgr"))
    assert "leave channels out: your function returns them in the network's order" in caught.value.hint


def test_imagenets_mean_and_std_come_in_the_order_of_the_channels():
    def normalisation(**keys: object) -> tuple[object, object]:
        spec = describe(**keys).make_input()
        return spec.mean, spec.std

    assert normalisation() == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    assert normalisation(channels="bgr") == ((0.406, 0.456, 0.485), (0.225, 0.224, 0.229))
    assert normalisation(channels="bgr", mean="0.1,0.2,0.3", std="0.4") == ((0.1, 0.2, 0.3), (0.4, 0.4, 0.4))
    assert normalisation(mean=0.5, std=256 / 255)[1] == (256 / 255,) * 3
    plain = ((0, 0, 0), (1, 1, 1))
    assert [normalisation(output="detection"), normalisation(input="uint8-nhwc")] == [plain, plain]
    assert normalisation(output="detection", mean=[0.5, 0.5, 0]) == ((0.5, 0.5, 0), (1, 1, 1))


def test_what_was_taken_by_default_names_the_size():
    said = {"mean": 0, "std": 1, "labels": ("cat",), "recipe": "letterbox", "size": WIDE}
    assert describe(**said).silent_defaults() == {}
    assert describe().silent_defaults() == {
        **{"recipe": "resize-crop", "size": "224", "mean": "0.485,0.456,0.406", "std": "0.229,0.224,0.225"},
        "labels": "(numbers)",
    }
    assert describe(output="raw", preprocess="a:b", input="uint8-nhwc").silent_defaults() == {}


def test_the_least_agreement_is_a_share():
    assert [parse_share(text) for text in ("97%", "0.5", "1", "100%", None)] == [0.97, 0.5, 1, 1, None]
    for text in ("most", "%", "0", "101%", "97", "nan"):
        with pytest.raises(UsageError, match=f"--min-agreement '{text}' is no share"):
            parse_share(text)


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    manifest = built(tmp_path_factory.mktemp("model"), name="animals").manifest
    return replace(manifest, output=OutputSpec("detection", detection=DetectionSpec("boxes", min_score=0.1)))


@pytest.mark.parametrize(
    ("keys", "made"),
    [
        ({}, CropSpec("animals", 0.1)),
        ({"min_score": 0.2}, CropSpec("animals", 0.2)),
        ({"of_labels": "red,green, blue"}, CropSpec("animals", 0.1, ("blue", "green", "red"))),
        ({"of_labels": "red, "}, CropSpec("animals", 0.1, ("red",))),
        ({"of_labels": ""}, CropSpec("animals", 0.1)),
        ({"of_labels": ["dog, wild"]}, CropSpec("animals", 0.1, ("dog, wild",))),
        ({"crop": "square"}, CropSpec("animals", 0.1, rule=CropRule("square"))),
        ({"crop": "my_crops:cut"}, CropSpec("animals", 0.1, rule=CropRule("my_crops:cut"))),
        ({"crop_margin": "0.1"}, CropSpec("animals", 0.1, rule=CropRule(margin=0.1))),
        ({"crop_margin_px": "30", "crop_min_px": 224}, CropSpec("animals", 0.1, rule=CropRule("box", 0, 30, 224))),
        ({"crop_rounding": "nearest"}, CropSpec("animals", 0.1, rule=CropRule(rounding="nearest"))),
    ],
)
def test_a_second_network_is_made_of_keys(detector, keys, made):
    for of in ("animals", detector.model_id):
        assert describe(of=of, **keys).make_crop(detector) == made


@pytest.mark.parametrize(
    ("keys", "message", "hint"),
    [
        ({"crop": "circle"}, "unknown crop 'circle'", "square-pad"),
        ({"crop_margin": 30}, "crop_margin 30 is not a share of 0 to 2", "crop_margin_px"),
        ({"crop_margin_px": -1}, "crop_margin_px and crop_min_px are from 0 to 4096", ""),
        ({"crop": "my:cut", "crop_min_px": 9}, "do not belong to crop my:cut", "leave them out"),
    ],
)
def test_what_can_not_be_cut_out_is_refused(detector, keys, message, hint):
    with pytest.raises(UsageError, match=message) as caught:
        describe(of="animals", **keys).make_crop(detector)
    assert hint in caught.value.hint


def test_what_a_second_network_is_made_of_is_told():
    assert crop_as_text(CropSpec("animals", 0.2)) == (
        "pictures: objects found by animals from a score of 0.2 on, labels: all; crop: box, rounding int"
    )
    rule = CropRule("square-pad", 0.1, 30, 224, "nearest")
    assert crop_as_text(CropSpec("animals", 0.2, ("bird", "mammal"), rule)) == (
        "pictures: objects found by animals from a score of 0.2 on, labels: bird, mammal; crop: square-pad, margin "
        "10 % and 30 pixels, at least 224 pixels, rounding nearest"
    )
    assert crop_as_text(CropSpec("animals", 0.2, rule=CropRule("my:cut"))).endswith("crop: my:cut")
