"""What second networks predict for a detector's objects is kept, counted and shown with them, and goes with them."""

from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import select, text, update

from infer_app.base.domain import CropOutput, DetectedObject, ImageRef, Output, Reason
from infer_app.base.errors import DayHeld
from infer_app.base.run_report import DayCounts
from infer_app.tables.label_groups import read_groups, read_label_groups, replace_label_groups
from infer_app.tables.queries.thresholds import change_thresholds
from infer_app.tables.results.model_versions import switch_version
from infer_app.tables.results.schema import ALL_LABELS, object_predictions, objects, predictions, rejections
from infer_app.tables.rows.stored_objects import read_detections
from tests.conftest import DAY
from tests.support.results import ODD_TEXTS, broken
from tests.support.second_networks import DETECTOR, DOG, LION, OTHER, SECOND, D, S, StoredModel, keys, made


def test_each_object_is_kept_to_the_last_bit_and_replaced_whole(database, detector, species):
    detector.detect("1", 0.9, 0.8, 0.7)
    vector = np.frombuffer(bytes(range(64)), "<f4").tobytes()
    species.classify("1", {0: DOG, 2: LION}, vector=vector, vector_dtype="float32", vector_dim=16)
    its_object = object_predictions.join(objects, objects.c.id == object_predictions.c.object_id)
    columns = [predictions.c[name] for name in ("detector_id", "num_objects", "label", "score")]
    with database.read() as connection:
        wanted = select(objects.c.object, object_predictions).select_from(its_object).order_by(objects.c.object)
        rows = connection.execute(wanted).all()
        (of_image,) = connection.execute(select(*columns).where(predictions.c.model_id == S))
    assert [(row.object, row.model_id, row.label, row.score) for row in rows] == [
        (0, S, "dog", 0.5),
        (2, S, "lion", 0.75),
    ]
    assert [tuple(row)[-3:] for row in rows] == [(vector, "float32", 16)] * 2
    assert rows[0].output == {
        "top": [{"label": "dog", "index": 0, "score": 0.5}, {"label": "lion", "index": 1, "score": 0.25}]
    }
    assert tuple(of_image) == (D, 2, "lion", 0.75)
    species.classify("1", {1: DOG})
    assert made(database) == [[("1", S)], [], [("1", S, 1)]]
    species.classify("1", {})
    assert made(database) == [[("1", S)], [], []]


@pytest.mark.parametrize(
    ("again", "refused"),
    [(lambda d: d.detect("1", 0.5), []), (lambda d: d.detect("1"), []), (lambda d: d.reject("1"), ["1"])],
)
def test_what_replaces_a_detectors_result_deletes_what_was_made_of_it(database, detector, species, again, refused):
    """But for rejections where it was rejected itself: without objects nothing else can come of them."""
    other = StoredModel(database, OTHER, D)
    for image_id in ("1", "2"):
        detector.detect(image_id, 0.9, 0.8)
        species.classify(image_id, {0: LION, 1: DOG})
    other.reject("1")
    StoredModel(database, replace(DETECTOR, model_id="e" * 16)).detect("1", 0.9)
    of_another_version = StoredModel(database, replace(OTHER, model_id="7" * 16), "e" * 16)
    of_another_version.classify("1", {0: LION})
    again(detector)
    kept = [("1", "7" * 16), ("2", S)]
    refused = [(image_id, OTHER.model_id) for image_id in refused]
    assert made(database) == [kept, refused, [("1", "7" * 16, 0), ("2", S, 0), ("2", S, 1)]]


def test_a_detectors_result_stays_with_what_was_made_of_it_if_it_cannot_be_replaced(database, detector, species):
    detector.detect("1", 0.9)
    species.classify("1", {0: LION})
    before = [*made(database), *keys(database, objects)]
    detector.end_run()
    with pytest.raises(DayHeld):
        detector.detect("1", 0.5, 0.4)
    assert [*made(database), *keys(database, objects)] == before


def test_a_second_network_is_pending_while_its_results_are_of_a_version_out_of_use(
    database, tables, detector, species, register
):
    """Its own ones of that version count again, if they were not replaced meanwhile."""
    register(*(f"/{number}.jpg" for number in range(4)))

    def new():
        found = [ref.image_id for ref in tables.source.select_new(DAY, S)]
        assert found == [one.image_id for one in tables.pending.read_pending(DAY, S)]
        return found

    detector.detect("1", 0.9)
    species.classify("1", {0: LION})
    species.classify("2", {})
    species.reject("3")
    assert new() == ["4"]
    assert tables.count_day(DAY, S) == DayCounts(4, 2, 1, 1)
    switch_version(database, "animals", "e" * 16, {})
    assert new() == ["1", "2", "3", "4"]
    assert tables.count_day(DAY, S) == DayCounts(4, 0, 0, 4)
    species.detector_id = "e" * 16
    species.reject("1")  # in place of the prediction, which is of the former version's objects
    species.classify("3", {})
    assert new() == ["2", "4"]
    switch_version(database, "animals", D, {})
    assert new() == ["1", "3", "4"]


def test_attempts_start_anew_on_the_objects_of_another_version(database, species):
    for detector_id in (D, "e" * 16):
        species.detector_id = detector_id
        species.reject("1", Reason.READ_ERROR)
        with database.write() as connection:
            row = rejections.c
            assert connection.execute(select(row.attempts, row.detector_id)).all() == [(1, detector_id)]
            connection.execute(update(rejections).values(created_at=DAY.start.replace(tzinfo=None), run_id="earlier"))


def test_stored_objects_are_read_of_the_images_that_the_version_has_predicted(database, detector):
    detector.detect("1", 0.9, 0.5)
    detector.detect("2")
    detector.reject("3")
    StoredModel(database, replace(DETECTOR, model_id="e" * 16)).detect("4", 0.9)
    images = {number: ImageRef(str(number), f"/{number}.jpg") for number in range(600)}  # more than a statement takes
    box = (0.25, 0.5, 0.125, 0.0625)
    with database.read() as connection:
        found, few = read_detections(connection, images, D), read_detections(connection, images, D, 0.9)
        numbers = connection.scalars(select(objects.c.id).where(objects.c.model_id == D).order_by(objects.c.id)).all()
    found_objects = (DetectedObject("animal", 0, score, *box) for score in (0.9, 0.5))
    best, other = zip(range(2), found_objects, numbers, strict=True)
    assert {ref: one.objects for ref, one in found.items()} == {images[1]: (best, other), images[2]: (), images[3]: ()}
    assert few[images[1]].objects == (best,)
    assert [one.rejected for one in found.values() if one.rejected] == [*broken("3")]


def shown(database, columns="image_id, object, detected_score, label, score", model="species"):
    with database.read() as connection:
        statement = f"SELECT {columns} FROM infer_shown_crops WHERE model = :model ORDER BY image_id, object"
        return [tuple(row) for row in connection.execute(text(statement), {"model": model})]


def test_the_views_show_each_object_with_its_box_and_both_scores(database, detector, species):
    detector.detect("1", 0.9, 0.5)
    species.classify("1", {0: LION, 1: DOG})
    columns = "object, detector, x, y, width, height, detected_label, detected_score, label, score, location"
    box = (0.25, 0.5, 0.125, 0.0625)
    rows = [
        (0, "animals", *box, "animal", 0.9, "lion", 0.75, "/1.jpg"),
        (1, "animals", *box, "animal", 0.5, "dog", 0.5, "/1.jpg"),
    ]
    assert shown(database, columns) == rows
    with database.read() as connection:
        current = connection.execute(text(f"SELECT {columns} FROM infer_current_crops ORDER BY object"))
        assert [tuple(row) for row in current] == rows


CATS = {label: ("carnivora", "felidae", label) for label in ("lion", "tiger")}
GROUPS = CATS | {"dog": ("carnivora", "canidae", "dog")}
UNSURE = [("lion", 0.5), ("tiger", 0.25), ("dog", 0.125), ("emu", 0.0625)]


@pytest.mark.parametrize(
    ("groups", "thresholds", "label", "score"),
    [
        ({}, {}, "lion", 0.5),
        ({}, {ALL_LABELS: 0.5}, "lion", 0.5),
        ({}, {ALL_LABELS: 0.75}, None, None),
        (GROUPS, {ALL_LABELS: 0.5}, "lion", 0.5),  # the label before its groups
        (GROUPS, {ALL_LABELS: 0.75}, "felidae", 0.75),
        (GROUPS, {ALL_LABELS: 0.75, "felidae": 0.8}, "carnivora", 0.875),
        (GROUPS, {ALL_LABELS: 0.9}, None, None),  # without the emu, which has no groups
        (GROUPS, {ALL_LABELS: 0.9, "emu": 0.05}, "emu", 0.0625),  # a label by itself is one of the groups
        (GROUPS, {ALL_LABELS: 0.75, "carnivora": 0.1}, "felidae", 0.75),  # the deeper one
        (GROUPS, {ALL_LABELS: 0.9, "felidae": 0.75, "canidae": 0.1}, "felidae", 0.75),  # the larger one of two
        ({"lion": None}, {ALL_LABELS: 0.25}, "tiger", 0.25),
        (GROUPS | {"lion": None}, {ALL_LABELS: 0.25}, "tiger", 0.25),
        (GROUPS | {"lion": None}, {ALL_LABELS: 0.3}, "carnivora", 0.375),
        (dict.fromkeys(("lion", "tiger", "dog", "emu")), {}, None, None),
        ({"tiger": ("lion", "tiger"), "lion": ("lion",)}, {ALL_LABELS: 0.6}, "lion", 0.75),  # a label that is a group
    ],
)
@pytest.mark.parametrize("key", ["top", "labels"], ids=["softmax", "sigmoid"])
def test_an_object_is_shown_as_its_best_allowed_label_or_the_deepest_group(
    database, detector, species, groups, thresholds, label, score, key
):
    detector.detect("1", 0.9)
    species.classify("1", {0: UNSURE}, key=key)
    replace_label_groups(database, "another", {"lion": None, "tiger": None})
    replace_label_groups(database, "species", groups)
    change_thresholds(database, "species", thresholds)
    assert shown(database) == [("1", 0, 0.9, label, score)]


def test_objects_under_the_detectors_threshold_are_not_shown(database, detector, species):
    detector.detect("1", 0.9, 0.5)
    species.classify("1", {0: LION, 1: DOG})
    for thresholds, numbers in (({ALL_LABELS: 0.5}, [0, 1]), ({"animal": 0.6}, [0]), ({ALL_LABELS: 0.95}, [0])):
        change_thresholds(database, "animals", thresholds)
        assert [row[1] for row in shown(database)] == numbers


def test_numbers_and_vectors_of_objects_are_shown_without_labels(database, detector):
    size = StoredModel(database, replace(SECOND, name="size", model_id="8" * 16), D)
    detector.detect("1", 0.9, 0.5)
    outputs = (Output(score=7.5), Output(details='{"values": [1, 2]}'))
    size.predict("1", Output(crops=tuple(map(CropOutput, (0, 1), outputs))))
    assert shown(database, model="size") == [("1", 0, 0.9, None, 7.5), ("1", 1, 0.5, None, None)]


def test_groups_of_labels_that_look_alike_are_kept_apart_and_replaced_whole(database):
    groups = {label: ("root", f"of {label}", label) for label in ODD_TEXTS} | {"x" * 512: ("x" * 511, "x" * 512)}
    replace_label_groups(database, "species", groups | {"not": None})
    assert read_label_groups(database, "species") == groups | {"not": None}
    assert read_groups(database, "species") == {group for chain in groups.values() for group in chain}
    replace_label_groups(database, "species", {"lion": None})
    assert read_label_groups(database, "species") == {"lion": None}
