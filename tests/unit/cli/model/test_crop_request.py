"""The options of a second network."""

from dataclasses import replace

import pytest

from infer_app.cli.commands.build_command import BuildOptions
from infer_app.cli.model.build_request import make_request
from infer_app.cli.model.crop_request import make_crop
from infer_app.cli.model.model import crop_as_text
from infer_app.errors import UsageError
from infer_app.models.artifact.specs import CropSpec, DetectionSpec, OutputSpec
from infer_app.recipe import CropRule
from tests.support.networks import built


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
