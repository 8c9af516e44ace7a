import contextlib
import io

import numpy as np
import pytest
from pycocotools.coco import COCO

from infer_app.ask.export.formats.coco import image_number, write_dataset
from infer_app.base.errors import UsageError
from tests.support.exports import CAT, DOG, HOSTILE, HOSTILE_PATH, detected, export_of, written


def test_a_dataset_has_boxes_in_pixels_and_the_images_own_ids(tmp_path):
    hostile = detected("12", location=HOSTILE_PATH)
    found = written(write_dataset, tmp_path / "coco.json", detected("7", CAT, DOG._replace(label=HOSTILE)), hostile)
    box = {"image_id": 7, "iscrowd": 0, "segmentation": []}
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


@pytest.mark.parametrize("other", ["a", "07", "-1", "1.5", "٣", "9" * 16, "9" * 19, "", "\udcff"])
def test_the_number_of_an_image_is_its_id_or_a_hash_that_is_the_same_in_every_export(tmp_path, other):
    seven, named = detected("7", CAT), detected(other, DOG)
    dataset = written(write_dataset, tmp_path / "coco.json", seven, named)
    number = dataset["images"][1]["id"]
    assert [(one["id"], one.get("source_id")) for one in dataset["images"]] == [(7, None), (number, other)]
    assert 2**52 <= number < 2**53
    assert [one["image_id"] for one in dataset["annotations"]] == [7, number]
    more = written(write_dataset, tmp_path / "more.json", detected("new", CAT), named, detected("b", CAT), seven)
    assert [one["image_id"] for one in more["annotations"]][1::2] == [number, 7]


def test_the_hash_of_an_id_is_that_of_every_release():
    assert image_number("IMG_0001") == 8_769_831_484_440_514


@pytest.mark.parametrize("ids", ["121", "aba"], ids=["of a table whose ids start at 1 each day", "of one hash"])
def test_two_images_of_one_number_are_refused(tmp_path, ids):
    with pytest.raises(UsageError, match="the ids of two images give one number"):
        write_dataset(tmp_path / "coco.json", export_of(*(detected(one, CAT) for one in ids)))
    assert list(tmp_path.iterdir()) == []


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
        loaded = results.loadAnns(results.getAnnIds(imgIds=[int(image.image_id)]))
        assert [(one["bbox"][0] / 640, one["bbox"][1] / 480, one["score"], one["category_id"]) for one in loaded] == [
            (pytest.approx(one.x), pytest.approx(one.y), one.score, 1) for one in image.objects
        ]


def test_an_image_without_a_size_is_named(tmp_path):
    with pytest.raises(UsageError, match="image 3 was predicted by a release that stored no sizes"):
        write_dataset(tmp_path / "coco.json", export_of(detected("3", CAT, picture=None)))
    assert list(tmp_path.iterdir()) == []
