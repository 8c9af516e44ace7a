import contextlib
import io
from dataclasses import replace

import numpy as np
import pytest
from pycocotools.coco import COCO

from infer_app.ask.export.formats.coco import write_dataset
from infer_app.base.errors import UsageError
from tests.support.exports import CAT, DOG, HOSTILE, HOSTILE_PATH, detected, export_of, written


def test_a_dataset_has_boxes_in_pixels_and_the_images_own_ids(tmp_path):
    hostile = replace(detected("12", location=HOSTILE_PATH), picture=12)
    seven = replace(detected("7", CAT, DOG._replace(label=HOSTILE)), picture=7)
    found = written(write_dataset, tmp_path / "coco.json", seven, hostile)
    box = {"image_id": 7, "iscrowd": 0}
    cat = {"category_id": 1, "bbox": [160.0, 240.0, 80.0, 120.0], "area": 9600.0, "score": 0.75}
    dog = {"category_id": 3, "bbox": [0.0, 0.0, 640.0, 480.0], "area": 307200.0, "score": 0.5}
    assert found == {
        "info": {"description": "Predictions of animals@01234567"},
        "licenses": [],
        "images": [
            {"id": 7, "file_name": "/srv/photos/7.jpg", "width": 640, "height": 480},
            {"id": 12, "file_name": HOSTILE_PATH, "width": 640, "height": 480},
        ],
        "annotations": [{"id": 1} | box | cat, {"id": 2} | box | dog],
        "categories": [{"id": 1, "name": "cat"}, {"id": 3, "name": HOSTILE}],
    }


def test_the_number_of_an_image_is_that_of_its_picture_whatever_its_id(tmp_path):
    images = [detected("IMG_1", CAT), replace(detected("IMG_1", DOG), picture=7)]
    dataset = written(write_dataset, tmp_path / "coco.json", *images)
    assert [(one["id"], one["source_id"]) for one in dataset["images"]] == [(images[0].picture, "IMG_1"), (7, "IMG_1")]


def test_pycocotools_counts_the_same(tmp_path):
    generator = np.random.default_rng(1)
    objects = [CAT._replace(x=x, y=y, score=score) for x, y, score in generator.random((300, 3)).tolist()]
    images = [detected(str(number), *objects[number * 10 : number * 10 + 10]) for number in range(30)]
    write_dataset(tmp_path / "coco.json", export_of(*images))
    with contextlib.redirect_stdout(io.StringIO()):
        dataset = COCO(tmp_path / "coco.json")
        results = dataset.loadRes(dataset.dataset["annotations"])
    assert len(dataset.anns) == len(results.anns) == 300
    for image in images:
        loaded = results.loadAnns(results.getAnnIds(imgIds=[image.picture]))
        assert [(one["bbox"][0] / 640, one["bbox"][1] / 480, one["score"], one["category_id"]) for one in loaded] == [
            (pytest.approx(one.x), pytest.approx(one.y), one.score, 1) for one in image.objects
        ]


def test_an_image_without_a_size_is_named(tmp_path):
    with pytest.raises(UsageError, match="image 3 was predicted by a release that stored no sizes"):
        write_dataset(tmp_path / "coco.json", export_of(detected("3", CAT, picture=None)))
    assert list(tmp_path.iterdir()) == []
