"""The objects and labels of a day's images as they are read back, compared, counted and deleted."""

import json

import pytest
from sqlalchemy import select

from infer_app.ask.compare.compare_versions import compare_labels, compare_objects
from infer_app.ask.compare.paired_answers import Overlap, count_overlap, paired_images
from infer_app.base.domain import DetectedObject
from infer_app.tables.forget_results import forget_results
from infer_app.tables.queries.thresholds import change_thresholds, count_shown
from infer_app.tables.results.schema import ALL_LABELS, objects, predictions, rejections
from infer_app.tables.rows.results import Part, read_together
from infer_app.tables.shown_labels import ShownLabels
from tests.conftest import DAY, MODEL
from tests.support.results import broken, commit, of_objects, predicted


def at(label, score, x, width=0.2):
    return DetectedObject(label, 0, score, x, 0.0, width, 0.5)


def compared(tables, thresholds=({}, {}), limit=10):
    return compare_objects(
        read_together(tables, DAY, ("a", "b"), Part.OBJECTS), [ShownLabels(one) for one in thresholds], limit
    )


def test_the_objects_of_two_models_are_matched_by_label_and_box(database, tables, register):
    """Computed by hand: of image 1 a cat is moved by a quarter of its width, IoU 0.15 / 0.25, and a dog is a fox."""
    register(*(f"/{number}.jpg" for number in range(1, 6)))
    of_a = [
        of_objects("1", at("cat", 0.9, 0.0), at("dog", 0.8, 0.5)),
        of_objects("2", at("cat", 0.7, 0.0), at("cat", 0.6, 0.0)),
        of_objects("3"),
        of_objects("4", at("Cat", 0.5, 0.0), at("cat ", 0.4, 0.5)),
        of_objects("5", at("cat", 0.9, 0.0)),  # which only this model predicted
    ]
    of_b = [
        of_objects("1", at("cat", 0.7, 0.05), at("fox", 0.8, 0.5)),
        of_objects("2", at("cat", 0.8, 0.0), at("cat", 0.3, 0.15)),
        of_objects("3"),
        of_objects("4", at("cat", 0.5, 0.0), at("cat ", 0.3, 0.5)),
    ]
    commit(database, of_a, model_id="a")
    commit(database, of_b, model_id="b")
    found = compared(tables)
    assert found["objects"] == {
        "matched": 3,
        "only_a": 3,
        "only_b": 3,
        "mean_iou": pytest.approx((0.6 + 1 + 1) / 3),
        "mean_score_difference": pytest.approx((-0.2 + 0.1 - 0.1) / 3),
    }
    counts = {one["label"]: (one["matched"], one["only_a"], one["only_b"]) for one in found["labels"]}
    assert counts == {"cat": (2, 1, 2), "cat ": (1, 0, 0), "Cat": (0, 1, 0), "dog": (0, 1, 0), "fox": (0, 0, 1)}
    assert list(counts) == ["cat", "Cat", "cat ", "dog", "fox"]
    assert found["labels"][0]["mean_iou"] == pytest.approx(0.8)
    assert (found["labels"][1]["mean_iou"], found["labels"][1]["mean_score_difference"]) == (None, None)
    assert found["images"] == [
        {"image_id": image_id, "location": f"/{image_id}.jpg", "matched": 1, "only_a": 1, "only_b": 1}
        for image_id in "124"
    ]
    assert [one["image_id"] for one in compared(tables, limit=2)["images"]] == ["1", "2"]
    only_sure = compared(tables, ({ALL_LABELS: 0.7}, {ALL_LABELS: 1.0, "cat": 0.8}))
    assert [only_sure["objects"][one] for one in ("matched", "only_a", "only_b")] == [1, 2, 0]


def test_labels_are_compared_by_bytes(database, tables, register):
    register(*(f"/p/{number}.jpg" for number in range(1, 6)))
    ids = [ref.image_id for ref in tables.source.select_new(DAY, "a")]
    commit(database, predicted(*ids[:4], label="Cat"), model_id="a")
    surest = predicted(ids[0], label="cat", score=0.4), predicted(ids[1], label="cat", score=0.25)  # A's are 0.3
    commit(database, (*surest[0], *surest[1], *predicted(*ids[2:4], label="Cat")), model_id="b")
    assert count_overlap(tables, DAY, ("a", "b")) == Overlap(4, only_a=0, only_b=0, neither=1)
    found = compare_labels(paired_images(read_together(tables, DAY, ("a", "b"), Part.OUTPUT)), "images", limit=5)
    assert (found["agree"], found["confusions"]) == (2, [{"a": "Cat", "b": "cat", "images": 2}])
    assert [one["image_id"] for one in found["images"]] == ids[:2]


def test_shown_objects_and_labels_are_counted(database, tables, register):
    register("/1.jpg", "/2.jpg", "/3.jpg")
    tables.run_store.open_run(DAY, MODEL)
    labels = [{"label": "Fox", "score": 0.9}, {"label": "fox", "score": 0.2}, {"label": "\u00e4 ", "score": 0.1}]
    several = predicted("2", label="Fox", details=json.dumps({"labels": labels, "threshold": 0.1}))
    elsewhere = of_objects("99", at("cow", 0.9, 0.0))  # of no image of the day
    commit(database, [of_objects("1", at("cat", 0.9, 0.0), at("Cat", 0.8, 0.5)), *several, elsewhere])
    commit(database, [of_objects("1", at("emu", 0.9, 0.0))], model_id="another")
    source = tables.source
    assert count_shown(database, source, DAY, MODEL.name) == 5
    change_thresholds(database, MODEL.name, {ALL_LABELS: 0.85, "Cat": 0.8})
    assert count_shown(database, source, DAY, MODEL.name) == 3
    assert count_shown(database, source, DAY.before(1), MODEL.name) == 0
    assert count_shown(database, source, DAY, "another name") == 0


def test_of_images_that_are_tried_again_no_result_or_object_of_that_model_is_left(database):
    """Of more images than one statement takes."""
    this, ids = MODEL.model_id, [str(number) for number in range(1, 1101)]
    for model_id in (this, "another"):
        good = [of_objects(image_id, at("cat", 0.9, 0.0)) for image_id in ids[:3]]
        commit(database, good, broken(*ids[3:]), model_id=model_id)
    assert forget_results(database, {(MODEL.name, this): range(2, 1100)}, [DAY.date]) == 1098
    for table, numbers in ((predictions, range(1, 4)), (objects, range(1, 4)), (rejections, range(4, 1101))):
        with database.read() as connection:
            left = connection.execute(select(table.c.picture, table.c.model_id)).all()
        kept = [(number, this) for number in numbers if number in (1, 1100)]
        assert sorted(left) == sorted([*kept, *((number, "another") for number in numbers)])
