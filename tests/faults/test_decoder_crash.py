"""Images that end or stop the process that decodes them, and files that are none, in the middle of a day."""

import os

import pytest
from PIL import Image

from tests.faults.conftest import Hit
from tests.support.projects import DATE, REJECTED

BROKEN = {
    "03-crash.png": ("decoder_crash", "transform", 1, 64),
    "05-hang.png": ("decode_timeout", "transform", 1, 64),
    "06-missing.png": ("not_found", "read", 0, None),
    "07-fifo.png": ("not_regular_file", "read", 0, None),
}
# The model's preprocess function can't stand the first two.
COLORS = {"03-crash.png": (255, 0, 255), "05-hang.png": (0, 255, 255), "06-missing.png": (255, 0, 0)}


@pytest.mark.always
def test_each_fault_is_named_and_its_neighbours_are_predicted(tmp_path, models):
    project = Hit(tmp_path / "fragile", models)
    project.add_photos(12)
    for name, color in COLORS.items():
        Image.new("RGB", (20, 20), color).save(project.photos / name)
    os.mkfifo(project.photos / "07-fifo.png")
    project.add("photos", "photos/07-fifo.png")
    (project.photos / "06-missing.png").unlink()

    command = ("run", "--date", DATE, "--lookback", "0", "--workers", "2", "--model", "fragile")
    report = project.infer_json(*command, INFER_IMAGES__TIMEOUT_S="2")
    assert report["reasons"] == {reason: 1 for reason, *_ in BROKEN.values()}
    assert report["day"] == {"eligible": 16, "predicted": 12, "rejected": 4, "pending": 0}
    rows = project.rows(f"SELECT location, reason, stage, r.size IS NOT NULL, length(r.sha256) FROM {REJECTED}")
    assert {location.rsplit("/", 1)[1]: tuple(rest) for location, *rest in rows} == BROKEN
    labels = [row[0] for row in project.rows("SELECT label FROM infer_current_predictions ORDER BY location")]
    assert labels == ["red", "green", "blue"] * 4

    before = project.results()
    again = project.infer_json(*command, INFER_IMAGES__TIMEOUT_S="2")
    assert again["reasons"] == {"not_found": 1}  # the others are final
    assert project.results() == before
