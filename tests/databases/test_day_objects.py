"""The objects of a second network are counted beside its images."""

from dataclasses import replace

from infer_app.base.run_report import DayObjects
from infer_app.tables.queries.day_objects import count_day_objects
from infer_app.tables.results.model_versions import switch_version
from tests.conftest import DAY
from tests.support.second_networks import DETECTION, DETECTOR, DOG, LION, D, S, StoredModel


def test_objects_are_found_taken_and_done(database, tables, register):
    """The gate takes scores from 0.2 on; those of another version of the detector are others."""
    register("/1.jpg", "/2.jpg")
    detector = StoredModel(database, DETECTOR)
    second = StoredModel(database, detector_id=D)
    assert count_day_objects(tables, DAY, D) is None
    assert count_day_objects(tables, DAY, S) == DayObjects(0, 0, 0)
    detector.detect("1", 0.9, 0.5, 0.1)
    detector.detect("2", 0.3)
    second.classify("1", {0: LION, 1: DOG})
    assert count_day_objects(tables, DAY, S) == DayObjects(4, 3, 2)
    switch_version(database, DETECTOR.name, "e" * 16, DETECTION)
    assert count_day_objects(tables, DAY, S) == DayObjects(0, 0, 0)
    StoredModel(database, replace(DETECTOR, model_id="e" * 16)).detect("2", 0.3, 0.25)
    assert count_day_objects(tables, DAY, S) == DayObjects(2, 2, 0)
