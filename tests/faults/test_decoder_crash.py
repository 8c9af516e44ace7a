"""Images that end or stop the process that decodes them, and files that are none, in the middle of a day."""

import os

import pytest
from PIL import Image

from tests.faults.conftest import Hit
from tests.support.projects import DATE

MAGENTA, CYAN = (255, 0, 255), (0, 255, 255)  # the two that the model's preprocess function can't stand


@pytest.fixture
def fragile(tmp_path, models):
    """fragile("a.png", …) is a project with twelve photos and others, in the order of their names."""
    project = Hit(tmp_path / "fragile")
    project.init()
    project.use_models(models)
    for i in range(12):
        color = tuple(220 if channel == i % 3 else 30 for channel in range(3))
        Image.new("RGB", (20, 20), color).save(project.photos / f"{i:02}.png")
    return project


def add(project, name, color):
    Image.new("RGB", (20, 20), color).save(project.photos / name)


def run(project, *more, **environ):
    command = ("run", "--date", DATE, "--lookback", "0", "--workers", "2", "--model", "fragile", *more)
    return project.infer_json(*command, INFER_IMAGES__TIMEOUT_S="2", **environ)


def labels(project):
    rows = project.rows(
        "SELECT i.location, p.label FROM infer_predictions p JOIN infer_images i ON CAST(i.id AS TEXT) = p.image_id"
    )
    return {location.rsplit("/", 1)[1]: label for location, label in rows}


def rejections(project):
    rows = project.rows("SELECT location, reason, stage, size IS NOT NULL, length(sha256) FROM infer_rejections")
    return {location.rsplit("/", 1)[1]: tuple(rest) for location, *rest in rows}


PHOTOS = {f"{i:02}.png": ("red", "green", "blue")[i % 3] for i in range(12)}


@pytest.mark.always
def test_each_fault_is_named_and_its_neighbours_are_predicted(fragile):
    add(fragile, "03-crash.png", MAGENTA)
    add(fragile, "05-hang.png", CYAN)
    add(fragile, "06-missing.png", "red")
    os.mkfifo(fragile.photos / "07-fifo.png")
    fragile.infer("images", "add", "photos", "photos/07-fifo.png", "--date", DATE)
    (fragile.photos / "06-missing.png").unlink()
    report = run(fragile)
    assert report["reasons"] == {"decode_timeout": 1, "decoder_crash": 1, "not_found": 1, "not_regular_file": 1}
    assert report["day"] == {"eligible": 16, "predicted": 12, "rejected": 4, "pending": 0}
    assert labels(fragile) == PHOTOS
    assert rejections(fragile) == {
        "03-crash.png": ("decoder_crash", "transform", 1, 64),
        "05-hang.png": ("decode_timeout", "transform", 1, 64),
        "06-missing.png": ("not_found", "read", 0, None),
        "07-fifo.png": ("not_regular_file", "read", 0, None),
    }
    before = fragile.results()
    assert run(fragile)["reasons"] == {"not_found": 1}  # the others are final
    assert fragile.results() == before


def test_crashes_at_the_first_and_last_place_of_a_chunk_and_two_in_one(fragile):
    for name in ("00-crash.png", "02-crash.png", "02-crasher.png", "11-crash.png"):
        add(fragile, name, MAGENTA)
    fragile.add("photos")
    report = run(fragile, INFER_RUN__CHUNK_SIZE="4")
    assert report["reasons"] == {"decoder_crash": 4}
    assert labels(fragile) == PHOTOS


def test_a_day_of_images_that_all_crash_ends_and_is_a_fault_of_the_function_that_crashes(fragile):
    for path in fragile.photos.iterdir():
        path.unlink()
    for i in range(3):
        add(fragile, f"{i}.png", MAGENTA)
    fragile.add("photos")
    report = fragile.infer_json("run", "--date", DATE, "--model", "fragile", "--lookback", "0", exit_code=3)
    assert report["day"] == {"eligible": 3, "predicted": 0, "rejected": 0, "pending": 3}
    assert "the decoder died twice by SIGSEGV" in report["stopped"]
