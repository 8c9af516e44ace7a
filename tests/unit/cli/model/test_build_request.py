"""The request of a build: recipes by their options, and what was taken by default."""

from dataclasses import replace

import pytest

from infer_app.artifact.recipe import CropRule, Recipe
from infer_app.artifact.specs import CropSpec, DetectionSpec, OutputSpec
from infer_app.base.errors import UsageError
from infer_app.base.size import Size
from infer_app.build.build_arguments import BuildRequest
from infer_app.cli.commands.build_command import BuildOptions
from infer_app.cli.model.build import parse_share
from infer_app.cli.model.build_request import make_crop, make_recipe, make_request, taken_by_default
from infer_app.cli.model.model import crop_as_text
from tests.support.networks import built

WIDE = Size(640, 480)


def recipe(**options: object) -> Recipe:
    return make_recipe(BuildOptions(**{"source": "net.ts", "name": "net", "recipe": "stretch"} | options))


@pytest.mark.parametrize(
    ("options", "made"),
    [
        ({}, {}),
        ({"decode": "scaled"}, {"decode": "scaled"}),
        ({"channels": "bgr"}, {"channels": "bgr"}),
        ({"antialias": "no"}, {"antialias": False}),
        ({"crop_pct": 0.9}, {"resize": 248}),
        ({"crop_pct": 0.9, "centre": "down"}, {"resize": 248, "crop_rounding": "down"}),
        ({"crop_pct": 1.0}, {}),
        ({"resize": Size.square(256)}, {"resize": 256}),
        ({"resize": Size(256, 224)}, {"resize": Size(256, 224)}),
        ({"resize": Size.square(224)}, {}),
        ({"size": WIDE, "crop_pct": 0.875}, {"size": WIDE, "resize": Size(731, 548)}),
        ({"recipe": "resize-crop"}, {"kind": "resize-crop", "resize": 256}),
        ({"recipe": "resize-crop", "size": WIDE}, {"kind": "resize-crop", "size": WIDE, "resize": Size(731, 548)}),
        ({"recipe": "resize-crop", "size": WIDE, "crop_pct": 1}, {"kind": "resize-crop", "size": WIDE, "resize": WIDE}),
        ({"recipe": "crop-resize"}, {"kind": "crop-resize", "crop": 0.875}),
        ({"recipe": "crop-resize", "crop_pct": 0.9}, {"kind": "crop-resize", "crop": 0.9}),
        ({"recipe": "letterbox"}, {"kind": "letterbox", "pad": 114}),
        ({"recipe": "letterbox", "pad": 0}, {"kind": "letterbox"}),
        ({"preprocess": "steps:prepare"}, {"kind": "custom"}),
    ],
)
def test_a_recipe_is_made_of_options(options: dict[str, object], made: dict[str, object]):
    assert recipe(**options) == Recipe(**{"kind": "stretch", "size": 224} | made)


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"decode": "fast"}, "unknown decode 'fast'", "exact, scaled"),
        ({"channels": "grb"}, "unknown channels 'grb'", "rgb, bgr"),
        ({"centre": "up"}, "unknown centre 'up'", "nearest, down"),
        ({"channels": "bgr", "preprocess": "a:b"}, "--channels bgr does not belong to the recipe", "in the order"),
        ({"decode": "scaled", "preprocess": "a:b"}, "--decode scaled does not belong to the recipe", "whole picture"),
        ({"antialias": "never"}, "unknown antialias 'never'", "yes, no"),
        ({"antialias": "no", "preprocess": "a:b"}, "--antialias no does not belong to the recipe", "resizes"),
        ({"antialias": "no", "decode": "scaled"}, "--decode scaled averages pixels", "one of them"),
        ({"recipe": "crop-resize", "resize": WIDE}, "--resize 640x480 does not belong to the", "--crop-pct alone"),
        ({"recipe": "letterbox", "crop_pct": 0.9}, "--resize 248 does not belong to the recipe", "--crop-pct out"),
        ({"recipe": "custom"}, "unknown recipe 'custom'", "stretch, letterbox"),
        ({"pad": 0}, "--pad 0 does not belong to the recipe stretch", "leave --pad out"),
        ({"pad": 3}, "--pad 3 does not belong to the recipe stretch", "leave --pad out"),
        ({"resize": WIDE, "crop_pct": 0.9}, "mean the same", "one of them"),
        ({"crop_pct": 1.1}, "1.1 is not a share between 0 and 1", ""),
        ({"recipe": "crop-resize", "size": WIDE}, "the model's input is 640x480", "--recipe resize-crop, stretch and"),
        ({"size": WIDE, "resize": Size.square(200)}, "crops 640x480 out of 200, which is", "--resize WIDTHxHEIGHT"),
        ({"size": WIDE, "resize": Size(640, 479)}, "out of 640x479, which is smaller", "--resize WIDTHxHEIGHT"),
        ({"centre": "down"}, "nothing is resized and then cropped", "--recipe resize-crop"),
        ({"centre": "down", "crop_pct": 1.0}, "nothing is resized and then cropped", "--recipe resize-crop"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, object], message: str, hint: str):
    with pytest.raises(UsageError, match=message) as caught:
        recipe(**options)
    assert hint in caught.value.hint


DETECTION = {"output": "detection", "given": frozenset({"output"})}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (DETECTION | {"head": "ssd"}, "unknown head 'ssd'"),
        (DETECTION | {"nms": 0.0}, "nms 0.0 is not an overlap"),
        (DETECTION | {"head": "boxes", "given": frozenset({"output", "activation"})}, "does not go with --head boxes"),
        (DETECTION | {"exif": "ignore"}, "can't use --exif ignore"),
        ({"given": frozenset({"head"})}, "--head belongs to --output detection"),
        ({"output": "classification", "given": frozenset({"min_score"})}, "--min-score belongs to --output detection"),
    ],
)
def test_options_of_detectors_and_of_others_are_not_mixed(options: dict[str, object], message: str):
    with pytest.raises(UsageError, match=message):
        make_request(BuildOptions(source="net.ts", name="net", **options), {}).check()


def test_imagenets_mean_and_std_come_in_the_order_of_the_channels():
    def normalisation(**given: object) -> tuple[object, object]:
        request = make_request(BuildOptions(source="a", name="a", **given), {})
        return request.mean, request.std

    assert normalisation() == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    assert normalisation(channels="bgr") == ((0.406, 0.456, 0.485), (0.225, 0.224, 0.229))
    assert normalisation(channels="bgr", mean="1,2,3", std="4") == ((1, 2, 3), (4, 4, 4))


def test_what_was_taken_by_default_names_the_size():
    request = BuildRequest("net.onnx", "net", Recipe("letterbox", WIDE))
    said = {"mean", "std", "labels"}
    assert taken_by_default(request, said) == ["recipe letterbox", "size 640x480"]
    assert taken_by_default(request, said | {"recipe", "size"}) == []


def test_the_least_agreement_is_a_share():
    assert [parse_share(text) for text in ("97%", "0.5", "1", "100%", None)] == [0.97, 0.5, 1, 1, None]
    for text in ("most", "%", "0", "101%", "97", "nan"):
        with pytest.raises(UsageError, match=f"--min-agreement '{text}' is no share"):
            parse_share(text)


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    """Its labels are red, green and blue."""
    artifact = built(tmp_path_factory.mktemp("model"), name="animals")
    output = OutputSpec("detection", detection=DetectionSpec("boxes", min_score=0.1))
    return replace(artifact, manifest=replace(artifact.manifest, output=output))


def options(**given: object) -> BuildOptions:
    return BuildOptions(**{"source": "net.ts", "name": "species"} | given, given=frozenset(given))


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({}, CropSpec("animals", 0.1)),
        ({"min_score": 0.2}, CropSpec("animals", 0.2)),
        ({"of_label": ["red", "green,blue"]}, CropSpec("animals", 0.1, ("blue", "green", "red"))),
        ({"crop": "square"}, CropSpec("animals", 0.1, rule=CropRule("square"))),
        ({"crop": "my_crops:cut"}, CropSpec("animals", 0.1, rule=CropRule("my_crops:cut"))),
        ({"crop_margin": "0.1"}, CropSpec("animals", 0.1, rule=CropRule(margin=0.1))),
        ({"crop_margin": "30px", "crop_min": "224px"}, CropSpec("animals", 0.1, rule=CropRule("box", 0, 30, 224))),
        ({"crop_rounding": "nearest"}, CropSpec("animals", 0.1, rule=CropRule(rounding="nearest"))),
    ],
)
def test_a_second_network_is_made_of_options(detector, given, made):
    assert make_request(options(of="animals", **given), {}, detector).crop == made


def test_a_label_with_a_comma_is_one_label(detector):
    of_dogs = replace(detector)
    vars(of_dogs)["labels"] = ("dog, wild", "dog")
    assert make_crop(options(of="animals", of_label=["dog, wild"]), of_dogs).labels == ("dog, wild",)


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"crop": "square"}, "--crop belongs to a second network, which --of NAME makes", "leave --crop out"),
        ({"crop_rounding": "nearest"}, "--crop-rounding belongs to a second network", "leave --crop-rounding out"),
        ({"of_label": ["red"]}, "--of-label belongs to a second network", "leave --of-label out"),
        ({"crop": "0.875", "recipe": "crop-resize"}, "--crop 0.875 is a share", "--crop-pct 0.875"),
        ({"crop_rounding": "down"}, "--crop-rounding down is no rounding", "--centre down"),
        ({"of": "animals@12ab"}, "--of animals@12ab names a version", "--of animals"),
        ({"of": "animals", "crop": "circle"}, "unknown crop 'circle'", "square-pad"),
        ({"of": "animals", "crop_margin": "a tenth"}, "'a tenth' is neither a share", "0.1, or 30px"),
        ({"of": "animals", "crop_margin": "30"}, "crop-margin 30 is not a share of 0 to 2", "30px"),
        ({"of": "animals", "crop_margin": "-1px"}, "--crop-margin '-1px' is not a number of pixels", "224px"),
        ({"of": "animals", "crop_min": "224"}, "--crop-min '224' is not a number of pixels", "224px"),
        ({"of": "animals", "crop": "my:cut", "crop_min": "9px"}, "do not belong to --crop my:cut", "leave them out"),
        ({"of": "animals", "output": "detection"}, "finds none itself", "another --output"),
        ({"of": "animals", "name": "animals"}, "--of animals is the name of this model", "another --name"),
        ({"of": "animals", "nms": 0.5}, "--nms belongs to --output detection", "leave --nms out"),
    ],
)
def test_options_of_crops_that_do_not_go_together_are_refused(detector, given, message, hint):
    with pytest.raises(UsageError, match=message) as caught:
        make_request(options(**given), {}, detector if "of" in given else None).check()
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
