"""The objects of a day's images as they are read back."""

from infer_app.database.listing.source import Source
from infer_app.database.queries.detections import PredictedImage, read_predicted_images
from infer_app.database.queries.thresholds import ALL_LABELS, change_thresholds, read_thresholds
from infer_app.domain import DetectedObject
from infer_app.settings.sections import SourceSettings
from tests.conftest import DAY, MODEL
from tests.databases.test_conformance import PICTURE, commit, predicted


def test_images_are_read_with_their_objects_in_order(tables, database, register):
    register("/1.jpg", "/2.jpg", "/3.jpg")
    cat, dog = DetectedObject("cat", 0, 0.9, 0.1, 0.2, 0.3, 0.4), DetectedObject("dog", 1, 0.8, 0.0, 0.0, 1.0, 1.0)
    commit(database, [*predicted("1", objects=(cat, dog)), *predicted("2", objects=())])
    found = list(read_predicted_images(database, Source(database, SourceSettings()), DAY, MODEL.model_id))
    assert [(one.image_id, one.location, one.picture, one.objects) for one in found] == [
        ("1", "/1.jpg", PICTURE, (cat, dog)),
        ("2", "/2.jpg", PICTURE, ()),
    ]


def test_an_object_is_shown_by_the_threshold_of_its_label_or_of_the_model(database):
    change_thresholds(database, "m", {ALL_LABELS: 0.5, "cat": 0.2, "dog": 0.9})
    change_thresholds(database, "m", {"dog": None, "cat": 0.3})
    change_thresholds(database, "other", {"cat": 1.0})
    assert read_thresholds(database, "m") == {ALL_LABELS: 0.5, "cat": 0.3}

    low, high = (DetectedObject("cat", 0, score, 0, 0, 1, 1) for score in (0.29, 0.3))
    dog = DetectedObject("dog", 1, 0.49, 0, 0, 1, 1)
    image = PredictedImage("1", "/1.jpg", None, "dog", 0.49, (dog, high, low))
    assert image.shown(read_thresholds(database, "m")) == (high,)
    assert image.shown({}) == (dog, high, low)
