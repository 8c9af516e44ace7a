"""A model that is built with a wrong recipe beside a function that has the right one: what differs is named."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from PIL import Image

from infer_app.base.domain import ImageRef, Output, Prediction
from infer_app.build.check.function_check import compare_answers
from infer_app.build.check.other_recipes import explain_differences
from tests.support.detectors import Quadrants, built_detector
from tests.support.networks import built_colors

EXIF_IGNORED = "with exif=ignore 100 % agree of 1 images tried, those that differ most first"
LABELS = ("red", "green", "blue")
BLUE_IS_RED = {"red": "blue", "green": "green", "blue": "red"}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """{path: label} of 24 photos, each of one colour in the middle and grey at the left and right."""
    folder = tmp_path_factory.mktemp("photos")
    answers = {}
    for number in range(24):
        pixels = np.full((20, 60, 3), 90, np.uint8)
        pixels[:, 20:40, number % 3] = 200 - number
        Image.fromarray(pixels).save(folder / f"{number:02}.png")
        answers[str(folder / f"{number:02}.png")] = LABELS[number % 3]
    return answers


def explained(artifact, photos, ours):
    predictions = [Prediction(ImageRef(path, path), Output(label=ours[label])) for path, label in photos.items()]
    compare = partial(compare_answers, labels=LABELS)
    theirs = list(photos.items())
    return explain_differences(artifact, theirs, compare(theirs, predictions), compare)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"channels": "bgr"}, "with channels=rgb 100 % agree of 12 images tried, those that differ most first"),
        (
            {"channels": "bgr", "interpolation": "area"},
            "with channels=rgb 100 % agree of 12 images tried, those that differ most first",
        ),
        ({}, ""),
    ],
)
def test_the_change_that_makes_the_answers_the_same_is_named(tmp_path, photos, wrong, told):
    ours = BLUE_IS_RED if wrong else dict(zip(LABELS, LABELS, strict=True))
    assert explained(built_colors(tmp_path / "model", **wrong), photos, ours) == told


def test_an_image_that_only_the_users_function_reads_is_left_out(tmp_path, photos):
    Image.effect_noise((80, 60), 90).save(tmp_path / "cut.jpg")
    (tmp_path / "cut.jpg").write_bytes((tmp_path / "cut.jpg").read_bytes()[:2000])
    wrong = built_colors(tmp_path / "model", channels="bgr")
    answers = {str(tmp_path / "cut.jpg"): "red"} | dict([*photos.items()][:6])
    assert explained(wrong, answers, BLUE_IS_RED).startswith("with channels=rgb 100 % agree")


@pytest.mark.parametrize(("is_detector", "told"), [(True, ""), (False, EXIF_IGNORED)])
def test_a_recipe_that_a_detector_can_not_have_is_not_advised(tmp_path, is_detector, told):
    turned = Image.Exif()
    turned[274] = 6
    Image.new("RGB", (60, 20)).save(tmp_path / "turned.jpg", exif=turned)
    built = built_detector if is_detector else built_colors
    artifact = built(tmp_path / "model", **({"module": Quadrants()} if is_detector else {}))

    def compare(theirs, ours):
        """As if the user's function ignored the orientation: the same answers in wide pictures alone."""
        is_wide = all(one.file.picture.width > one.file.picture.height for one in ours)
        return replace(compare_answers([], []), agreement=float(is_wide))

    theirs = [(str(tmp_path / "turned.jpg"), "red")]
    assert explain_differences(artifact, theirs, compare([], []), compare) == told


def test_another_recipe_is_tried_without_the_margin_of_the_one_that_is_built(tmp_path):
    """Columns at the very edge decide, which a margin would crop."""
    theirs = {}
    for number in range(12):
        pixels = np.zeros((20, 60, 3), np.uint8)
        pixels[:, 3:57, number % 3] = 20
        pixels[:, [0, 1, 2, 57, 58, 59], (number + 1) % 3] = 255
        Image.fromarray(pixels).save(tmp_path / f"{number:02}.png")
        theirs[str(tmp_path / f"{number:02}.png")] = LABELS[(number + 1) % 3]
    ours = {label: LABELS[number - 1] for number, label in enumerate(LABELS)}
    told = explained(built_colors(tmp_path / "model", recipe="resize-crop"), theirs, ours)
    assert told.startswith("with recipe=stretch 100 % agree")


def test_a_change_that_explains_a_third_of_the_differences_is_not_named(tmp_path, photos):
    next_label = dict(zip(LABELS, (*LABELS[1:], LABELS[0]), strict=True))
    theirs = {path: next_label[label] for path, label in photos.items()}
    ours = {next_label[label]: label for label in LABELS}
    assert explained(built_colors(tmp_path / "model"), theirs, ours) == ""


def test_a_preprocess_function_has_no_other_recipe(tmp_path, monkeypatch, photos):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_pixels.py").write_text("def corner(rgb):\n    return rgb[:16, :16, ::-1].copy()\n")
    artifact = built_colors(tmp_path / "model", recipe=None, preprocess="own_pixels:corner")
    assert explained(artifact, photos, BLUE_IS_RED) == ""
