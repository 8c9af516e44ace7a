"""The figures of a day's objects, and the objects of one image, over the thresholds of their model."""

import pytest
from sqlalchemy import column, func, select, text

from infer_app.ask.figures.crop_figures import open_figures
from infer_app.ask.figures.figures import Figures
from infer_app.ask.figures.object_figures import MAX_OBJECTS, ObjectCounts, ObjectResults
from infer_app.base.domain import DetectedObject
from infer_app.tables.label_groups import replace_label_groups
from infer_app.tables.queries.thresholds import change_thresholds
from infer_app.tables.results.model_versions import switch_version
from infer_app.tables.results.schema import ALL_LABELS
from infer_app.tables.rows.image_history import StoredObject, read_history
from tests.conftest import DAY, MODEL
from tests.support.results import commit, of_objects, predicted
from tests.support.second_networks import DETECTOR, SECOND

HOSTILE = 'it\'s <b>"%s" :x \\ 😀\n'


def found(label, *scores):
    return tuple(DetectedObject(label, 0, score, 0.1, 0.2, 0.3, 0.4) for score in scores)


@pytest.fixture
def figures(database, register, tables):
    """Five images: one with objects of two labels, one of a hostile label, two with little or nothing, one not done."""
    register(*(f"/{number}.jpg" for number in range(1, 6)))
    commit(
        database,
        [
            of_objects("1", *found("cat", 0.9, 0.8), *found("Cat", 0.7), *found("cat", 0.2)),
            of_objects("2", *found(HOSTILE, 0.6, 0.5)),
            of_objects("3", *found("cat", 0.3)),
            of_objects("4"),
        ],
    )
    commit(database, predicted("1", objects=found("owl", 0.99)), model_id="another")
    return Figures(tables, MODEL.model_id, ObjectResults(tables, MODEL.name, MODEL.model_id))


def test_without_thresholds_every_stored_object_counts(figures):
    assert figures.results.count(DAY) == ObjectCounts(num_objects=7, num_stored=7, num_images=4, num_empty=1)
    assert figures.count_labels(DAY) == {"cat": 4, HOSTILE: 2, "Cat": 1}
    assert figures.score_range(DAY) == (0.2, 0.9)
    assert figures.count_scores(DAY, [0.0, 0.5, 0.8, 1.0]) == [2, 3, 2]
    assert [one.image_id for one in figures.results.empty(DAY, 9)] == ["4"]


def test_with_thresholds_those_that_they_show(database, figures):
    change_thresholds(database, MODEL.name, {ALL_LABELS: 0.65, "cat": 0.85, HOSTILE: 0.5})
    change_thresholds(database, "another", {ALL_LABELS: 0.0})
    assert figures.results.count(DAY) == ObjectCounts(num_objects=4, num_stored=7, num_images=4, num_empty=2)
    assert figures.count_labels(DAY) == {HOSTILE: 2, "Cat": 1, "cat": 1}
    assert figures.score_range(DAY) == (0.5, 0.9)
    assert figures.count_scores(DAY, [0.0, 0.65, 1.0]) == [2, 2]


def test_the_busiest_the_empty_and_the_extreme_images(database, figures):
    assert [(one.image_id, one.num_objects) for one in figures.results.busiest(DAY, 2)] == [("1", 4), ("2", 2)]
    change_thresholds(database, MODEL.name, {ALL_LABELS: 0.65, HOSTILE: 0.5})
    (busiest, second) = figures.results.busiest(DAY, 9)
    assert (busiest.location, busiest.label, busiest.score, busiest.num_objects) == ("/1.jpg", "cat", 0.9, 3)
    assert [one.score for one in busiest.objects] == [0.9, 0.8, 0.7]
    assert second.objects == found(HOSTILE, 0.6, 0.5)
    near, nothing = figures.results.empty(DAY, 9)
    assert (near.image_id, near.label, near.num_objects, near.objects) == ("3", "cat", 0, ())
    assert (nothing.image_id, nothing.label, nothing.score) == ("4", None, None)
    assert [(one.image_id, one.score) for one in figures.results.extremes(DAY, 1, highest=False)] == [("2", 0.6)]
    assert [(one.image_id, one.score) for one in figures.results.extremes(DAY, 1, highest=True)] == [("1", 0.9)]


def test_of_very_many_objects_the_best_are_read(database, figures):
    many = found("cat", *(0.99 - number / 1000 for number in range(MAX_OBJECTS + 30)))
    commit(database, predicted("5", objects=many))
    (image,) = figures.results.busiest(DAY, 1)
    assert (image.num_objects, image.objects) == (MAX_OBJECTS + 30, many[:MAX_OBJECTS])


def test_the_figures_are_those_of_the_kind_of_output(tables):
    for kind, model_id, wanted in (("detection", "1" * 16, True), ("classification", "2" * 16, False)):
        tables.run_store.open_run(DAY, type(MODEL)("m", model_id, "cpu", {"output": {"kind": kind}}))
        assert isinstance(open_figures(tables, "m", model_id).results, ObjectResults) is wanted
    assert not isinstance(open_figures(tables, "m", "never ran").results, ObjectResults)


def test_the_history_of_an_image_has_its_objects(database, figures):
    change_thresholds(database, MODEL.name, {ALL_LABELS: 0.85, "Cat": 0.5})
    commit(database, predicted("1"), model_id="classifier")
    versions = [(MODEL.name, MODEL.model_id), ("another", "another"), ("classifier", "classifier")]
    history = read_history(database, versions, 1)
    ours, other, classifier = (one.objects for one in history)
    assert [(one.found.label, one.found.score, one.is_shown) for one in ours] == [
        ("cat", 0.9, True),
        ("cat", 0.8, False),
        ("Cat", 0.7, True),
        ("cat", 0.2, False),
    ]
    assert other == (StoredObject(0, found("owl", 0.99)[0], True),)
    assert classifier is None


@pytest.fixture
def crop_figures(database, register, tables, detector, species):
    """A second network's figures: three images, of which one has objects of its labels, one of none, one no object."""
    register(*(f"/{number}.jpg" for number in range(1, 5)))
    switch_version(database, DETECTOR.name, DETECTOR.model_id, DETECTOR.manifest)
    detector.detect("1", 0.9, 0.8, 0.3)
    detector.detect("2", 0.7)
    detector.detect("3")
    species.classify("1", {0: [("lion", 0.5), ("tiger", 0.25)], 1: [(HOSTILE, 0.75)], 2: [("dog", 0.9)]})
    species.classify("2", {0: [("tiger", 0.4), ("lion", 0.3)]})
    species.classify("3", {})
    return open_figures(tables, SECOND.name, SECOND.model_id)


def test_what_a_second_network_gives_for_the_objects_that_are_shown(database, crop_figures):
    change_thresholds(database, DETECTOR.name, {ALL_LABELS: 0.5})
    assert crop_figures.results.count(DAY) == ObjectCounts(num_objects=3, num_stored=4, num_images=3, num_empty=1)
    assert crop_figures.count_labels(DAY) == {"lion": 1, "tiger": 1, HOSTILE: 1}
    assert crop_figures.count_scores(DAY, [0.0, 0.45, 1.0]) == [1, 2]
    assert [(one.image_id, one.object, one.label) for one in crop_figures.results.extremes(DAY, 2, highest=True)] == [
        ("1", 1, HOSTILE),
        ("1", 0, "lion"),
    ]
    change_thresholds(database, SECOND.name, {ALL_LABELS: 0.45, HOSTILE: 0.8})
    assert crop_figures.count_labels(DAY) == {"lion": 1}
    switch_version(database, DETECTOR.name, "e" * 16, DETECTOR.manifest)  # then they are pending
    assert (crop_figures.count_labels(DAY), crop_figures.count_predicted(DAY)) == ({}, 0)


def test_labels_with_groups_are_counted_as_they_are_shown(database, tables, crop_figures):
    change_thresholds(database, SECOND.name, {ALL_LABELS: 0.6})
    groups = {"lion": ("cat", "lion"), "tiger": ("cat", "tiger"), "dog": None}
    replace_label_groups(database, SECOND.name, groups)
    figures = open_figures(tables, SECOND.name, SECOND.model_id)
    assert figures.count_labels(DAY) == {"cat": 2, HOSTILE: 1}


def test_labels_with_thresholds_of_their_own_are_counted_as_they_are_shown(database, tables, crop_figures):
    """Where the best label does not reach its own, another one of the object may."""
    change_thresholds(database, SECOND.name, {"lion": 0.9})
    figures = open_figures(tables, SECOND.name, SECOND.model_id)
    with database.read() as connection:
        label = column("label")
        shown = select(label, func.count()).select_from(text("infer_shown_crops")).where(label.is_not(None))
        assert figures.count_labels(DAY) == dict(connection.execute(shown.group_by(label)).all()) != {}
