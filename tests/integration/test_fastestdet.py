"""A real detection network with a head of one's own, from the file to the tables, beside two other programs."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from infer_app.predict.detection.boxes import match_boxes
from tests.conftest import need
from tests.support.fastestdet import BUILD, FOLDER, PHOTOS, need_fastestdet, reference_objects, write_scripts
from tests.support.projects import DATE, Project

pytestmark = pytest.mark.slow

NUM_PHOTOS = 205
OBJECTS = """
    SELECT location, "object", o.label, o.score, x, y, o.width, o.height FROM infer_objects AS o
    JOIN infer_images i ON i.id = picture ORDER BY location, "object"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """With the built model and all photos, which stay where they are; a run has predicted them."""
    need_fastestdet()
    need("openvino", "onnxruntime")
    project = Project(tmp_path_factory.mktemp("fastestdet") / "project")
    write_scripts(project.folder)
    project.infer("model", "build", *BUILD, "--name", "fd", "--set", f"golden={FOLDER / 'photos'}")
    project.add(*map(str, PHOTOS))
    report = project.run_day()
    assert (report["predicted"], report["rejected"]) == (NUM_PHOTOS, 0)
    return project


def corners(boxes):
    return np.array(boxes, np.float64).reshape(-1, 4)


def share_found(project, min_score):
    """The share of the reference's objects over a score that have one of the same label and nearly the same box."""
    ours = defaultdict(list)
    for location, _, label, _, x, y, width, height in project.rows(OBJECTS):
        ours[Path(location).name].append((label, (x, y, x + width, y + height)))
    num_objects = num_found = 0
    for file, objects in reference_objects().items():
        theirs = [(label, box) for label, score, box in objects if score > min_score]
        labels = ([label for label, _ in objects] for objects in (theirs, ours[file]))
        boxes = (corners([box for _, box in objects]) for objects in (theirs, ours[file]))
        num_objects += len(theirs)
        num_found += len(match_boxes(*boxes, *labels, 0.9))
    assert num_objects > 1000
    return num_found / num_objects


def test_the_objects_of_the_reference_are_found(project):
    assert share_found(project, 0.4) >= 0.99
    assert project.infer_json("verify", "--date", DATE)["balanced"] is True


def test_the_objects_of_the_user_s_own_program_are_found(project):
    num_compared = num_theirs = num_found = 0
    for photos in map(str, PHOTOS):
        report = project.infer_json("model", "check", "fd", "--against", "script:detect", "--images", photos)
        found = report["objects"]
        assert (report["their_failures"], report["our_rejections"], found["notes"]) == ([], [], [])
        assert (found["mean_overlap"] > 0.99, found["mean_score_difference"] < 0.01) == (True, True)
        num_compared += report["num_compared"]
        num_theirs, num_found = num_theirs + found["num_theirs"], num_found + found["num_found"]
    assert (num_compared, num_theirs > 1000) == (NUM_PHOTOS, True)
    assert num_found >= 0.99 * num_theirs


def test_half_precision_and_int8_are_judged_by_the_objects_that_they_keep(project):
    need("nncf")
    more = ("--calibrate", str(PHOTOS[0]), "--min-agreement", "85%")
    told = project.infer("model", "build", *BUILD, "--name", "judged", *more)
    assert "objects: between" in told
    variants = project.infer_json("model", "show", "judged")["variants"]
    fp32, int8 = (variants[name]["calibration"] for name in ("cpu-openvino-fp32", "cpu-openvino-int8"))
    assert (fp32["num_images"], fp32["num_objects"] > 500, fp32["object_agreement"] > 0.999) == (66, True, True)
    assert 0.85 <= int8["object_agreement"] < 1
    assert 0 < int8["p99_score_difference"] <= int8["worst_score_difference"] < 1
    error = project.run_day("--model", "judged", "--precision", "int8", "--dry-run", exit_code=12)
    assert "it was judged on 66 images of yours, 300 are needed" in error["error"]
