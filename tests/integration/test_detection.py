"""Objects of a day, from the network to the tables, by the command."""

import json
import re

import pytest
from PIL import Image

from tests.support.detectors import Quadrants
from tests.support.networks import save
from tests.support.projects import DATE, Project

pytestmark = pytest.mark.slow
FLAGS = ["--output", "detection", "--size", "64", "--set", "head=boxes"]
OBJECTS = 'SELECT picture, "object", label, score, x, y, width, height FROM infer_objects ORDER BY 1, 2'
PICTURES = "SELECT picture, width, height, num_objects, label, score FROM infer_predictions ORDER BY 1"


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path / "project")
    save(Quadrants(), project.folder / "quadrants.ts")
    (project.folder / "labels.txt").write_text("red\ngreen\n")
    for number, (size, color) in enumerate([((80, 40), (255, 0, 0)), ((40, 80), (0, 255, 0)), ((64, 64), (0, 0, 0))]):
        Image.new("RGB", size, color).save(project.photos / f"{number}.png")
    turned = Image.Exif()
    turned[274] = 6
    Image.new("RGB", (80, 40), (255, 0, 0)).save(project.photos / "3.jpg", exif=turned)
    (project.photos / "4.jpg").write_bytes(b"no photo")
    project.add("photos")
    project.infer("model", "build", "quadrants.ts", "--name", "net", "--labels", "labels.txt", "--set", "pad=0", *FLAGS)
    return project


@pytest.mark.always
def test_the_objects_of_a_day_are_written_with_the_upright_size(project):
    report = project.run_day()
    assert (report["predicted"], report["rejected"]) == (4, 1)
    found = project.rows(PICTURES)
    assert [row[:4] for row in found] == [(1, 80, 40, 4), (2, 40, 80, 4), (3, 64, 64, 0), (4, 40, 80, 4)]
    assert [row[4:] for row in found[:3]] == [("red", 0.5), ("green", 0.5), (None, None)]
    quarters = [(1, number, "red", 0.5, x, y, 0.5, 0.5) for number, (x, y) in enumerate(QUARTERS)]
    assert project.rows(OBJECTS)[:4] == quarters
    assert project.infer_json("verify", "--date", DATE)["balanced"] is True
    project.infer("explain", "--image", "5", "--draw", "five.svg", exit_code=2)
    assert "was rejected: unsupported_format" in project.errors


QUARTERS = [(0.0, 0.0), (0.0, 0.5), (0.5, 0.0), (0.5, 0.5)]


@pytest.mark.parametrize("executor", ["cpu", "cuda"])
def test_a_second_run_and_one_over_the_same_images_change_nothing_whatever_loads_them(project, executor):
    project.run_day()
    before = project.rows(OBJECTS), project.rows(PICTURES)
    assert project.run_day()["selected"] == 0
    assert (project.rows(OBJECTS), project.rows(PICTURES)) == before
    project.infer("retry", *(word for image_id in "1234" for word in ("--image", image_id)))
    assert project.rows("SELECT count(*) FROM infer_objects") == [(0,)]
    assert project.run_day("--executor", executor)["selected"] == 4
    assert (project.rows(OBJECTS), project.rows(PICTURES)) == before


RAISES = """
def head(boxes):
    if (boxes[:, :, 4] == 0).all(1).any():
        raise ValueError("no object at all")
    return list(boxes)
"""
EXITS = """
import sys

def head(boxes):
    return sys.exit("on an image") if (boxes[:, :, 4] == 0).all(1).any() else list(boxes)
"""
GIVES_NAN = """
def head(boxes):
    return [rows / (rows[:, 4].max() > 0) for rows in boxes]
"""


@pytest.mark.parametrize(
    ("code", "reason", "detail"),
    [
        (RAISES, "model_error", "ValueError: no object at all"),
        (EXITS, "model_error", "SystemExit: on an image"),
        (GIVES_NAN, "non_finite_output", "the model's output has a NaN or an infinity"),
    ],
)
def test_a_head_that_fails_on_an_image_rejects_it_alone(project, code, reason, detail):
    (project.folder / "my_head.py").write_text(code)
    project.infer("model", "build", "quadrants.ts", "--name", "own", *FLAGS, "--set", "head=my_head:head")
    (project.folder / "my_head.py").unlink()
    report = project.run_day("--model", "own")
    assert (report["predicted"], report["reasons"]) == (3, {reason: 1, "unsupported_format": 1})
    assert project.rows(f"SELECT picture, detail FROM infer_rejections WHERE reason = '{reason}'") == [(3, detail)]


FUNCTIONS = """
from PIL import Image, ImageOps


def quarters(path):
    picture = ImageOps.exif_transpose(Image.open(path))
    if picture.getpixel((1, 1))[0] < 200:
        return []
    x, y = picture.width / 2, picture.height / 2
    return [(a * x, b * y, a * x + x, b * y + y, 0.5, "red") for a in (0, 1) for b in (0, 1)]


def nothing(path):
    return []
"""


def check(project, function, *more, exit_code=0):
    (project.folder / "script.py").write_text(FUNCTIONS)
    command = ("model", "check", "net", "--against", f"script:{function}", "--images", "photos", *more)
    return project.infer(*command, exit_code=exit_code)


def test_a_function_that_finds_the_same_objects_agrees(project):
    photo = project.photos / "0.png"
    photo.symlink_to(photo.rename(project.folder / "elsewhere.png"))
    told = " ".join(check(project, "quarters", exit_code=4).split())
    assert "found 8 of your 8 objects (between " in told
    assert " and 100 %), with the same label and an overlap (IoU) of 0." in told
    assert "you do not have" in told  # halves of the green picture
    assert "this proves little: your answers are 8 objects" in project.errors


def test_images_without_an_object_compare_nothing(project):
    for photo in ("0.png", "1.png", "3.jpg"):
        (project.photos / photo).unlink()
    assert json.loads(check(project, "nothing", "--json", exit_code=2))["agreement"] is None
    assert "neither side found an object; take images that show some" in " ".join(project.errors.split())


def test_what_a_detector_is_can_be_looked_at(project):
    told = " ".join(project.infer("model", "show", "net").split())
    assert (
        "head boxes: objects from a score of 0.05, non-maximum suppression: none, at most 300 objects per image" in told
    )
    assert re.search(r" (\d+) of \1 objects", told)


def test_copies_of_a_sample_are_not_put_where_a_run_would_find_them(project):
    project.run_day()
    project.set("images", watch=["photos"])
    sample = ["sample", "--date", DATE, "--by", "random", "--format", "coco", "--to", "sample.json", "--copy-to"]
    project.infer(*sample, "photos/picked", exit_code=2)
    assert "whose files the next run registers" in project.errors
    assert not (project.photos / "picked").exists()
