from dataclasses import replace

import pytest

from infer_app.artifact.recipe import Recipe
from infer_app.artifact.second_network import check_against_detector
from infer_app.artifact.specs import CropSpec, DetectionSpec, OutputSpec
from infer_app.base.errors import ModelError
from tests.support.networks import built

RECIPE = Recipe("stretch", 8)
LABELS = ("mammal", "bird")
CROP = CropSpec("animals", 0.2, ("bird",))


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    manifest = built(tmp_path_factory.mktemp("model")).manifest
    output = OutputSpec("detection", detection=DetectionSpec("boxes", min_score=0.1))
    return replace(manifest, name="animals", output=output, recipe=Recipe("letterbox", 64))


@pytest.mark.parametrize(
    ("crop", "labels"),
    [
        (CROP, LABELS),
        (replace(CROP, min_score=0.1), LABELS),
        (CropSpec("animals", 1.0), ()),
        (CropSpec("a", 1, ("7",)), ()),
    ],
)
def test_what_a_detector_stores_can_be_taken(detector, crop, labels):
    check_against_detector(crop, RECIPE, detector, labels)
    deep = replace(detector, recipe=replace(detector.recipe, depth="percentile:0,100"))
    check_against_detector(crop, replace(RECIPE, depth="percentile:0,100"), deep, labels)


@pytest.mark.parametrize(
    ("crop", "recipe", "of_detector", "message", "hint"),
    [
        (CROP, RECIPE, {"crop": CropSpec("frames", 0.1)}, "takes its pictures from frames itself", "of=frames"),
        (CROP, RECIPE, {"output": OutputSpec()}, "is of kind classification and finds no", "--output detection"),
        (replace(CROP, min_score=0.05), RECIPE, {}, "animals stores them from 0.1 on", "min_score 0.1 or more"),
        (replace(CROP, labels=("bird", "dog")), RECIPE, {}, "no objects of the label 'dog'", "labels are mammal, bird"),
        (CROP, replace(RECIPE, decode="scaled"), {}, "second network decodes pictures by scaled", "build it with"),
        (CROP, RECIPE, {"recipe": Recipe("stretch", 8, decode="scaled")}, "animals decodes pictures", "build animals"),
        (CROP, replace(RECIPE, exif="ignore"), {}, "boxes of animals refer to the upright", "leave exif out"),
        (
            CROP,
            replace(RECIPE, depth="window:0,9"),
            {},
            "by depth window:0,9, animals by full",
            "--set depth=full",
        ),
    ],
)
def test_what_does_not_fit_the_detector_is_told(detector, crop, recipe, of_detector, message, hint):
    with pytest.raises(ModelError, match=message) as caught:
        check_against_detector(crop, recipe, replace(detector, **of_detector), LABELS)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("labels", "hint"), [((), "without labels"), ([str(number) for number in range(99)], "18, 19, …")]
)
def test_of_no_labels_it_is_said_and_of_many_the_first_are_listed(detector, labels, hint):
    with pytest.raises(ModelError, match="label 'bird'") as caught:
        check_against_detector(CROP, RECIPE, detector, labels)
    assert hint in caught.value.hint
