"""The page of a second network, whose pictures are objects of a detector."""

import json
from datetime import datetime

import pytest
from sqlalchemy import update

from infer_app.ask.page.page import pictured, render_day
from infer_app.ask.page.thumbnails import PictureOfObject, Thumbnail
from infer_app.base.domain import DetectedObject, Output
from infer_app.tables.queries.thresholds import change_thresholds
from infer_app.tables.results.schema import ALL_LABELS, models
from tests.conftest import MODEL
from tests.support.second_networks import classified
from tests.unit.ask.page.test_page import HOSTILE, Outline, check_harmless, page_of

ANIMALS = "a1" * 8


def animal(score=0.9, x=0.25, label="animal"):
    return DetectedObject(label, 0, score, x, 0.5, 0.5, 0.25)


@pytest.fixture(params=["classification"])
def output_kind(request):
    return request.param


@pytest.fixture
def make_report(make_report, add_model, database, output_kind):
    """The report of a second network on the objects of animals."""
    add_model("animals", ANIMALS, datetime(2026, 11, 1), "detection")
    crop = {"of": "animals", "min_score": 0.2, "labels": ["animal"], "rule": {}}
    with database.write() as connection:
        manifest = {"output": {"kind": output_kind}, "crop": crop}
        connection.execute(update(models).where(models.c.id == MODEL.model_id).values(manifest=manifest))
    return make_report


@pytest.fixture
def find(detect):
    """find({location: objects}) writes what the detector found."""
    return lambda found, days_ago=0: detect(found, days_ago, ANIMALS)


def test_labels_and_scores_are_those_of_objects(make_report, find, give, database):
    """Of those that the detector's thresholds show; labels below the second network's threshold do not count."""
    find({"/p/a.jpg": [animal(0.9), animal(0.8, 0.1), animal(0.3)], "/p/b.jpg": [animal(0.95)], "/p/c.jpg": []})
    find({"/p/d.jpg": [animal()]}, days_ago=3)
    outputs = {0: classified(("fox", 0.7)), 1: classified(("hare", 0.4)), 2: classified(("hare", 0.99))}
    give({"/p/a.jpg": outputs, "/p/b.jpg": {0: classified(("fox", 0.6))}, "/p/c.jpg": {}}, ANIMALS)
    give({"/p/d.jpg": {0: classified(("fox", 0.8))}}, ANIMALS, days_ago=3)
    change_thresholds(database, "animals", {ALL_LABELS: 0.5})
    change_thresholds(database, MODEL.name, {ALL_LABELS: 0.5})
    report = make_report()
    (model,) = report.models
    counts = model.objects.counts
    assert (counts.num_objects, counts.num_stored, counts.num_images, counts.num_empty) == (3, 4, 3, 1)
    assert [(one.label, one.count, one.share_7) for one in model.labels.most] == [("fox", 2, 1.0)]
    assert (model.objects.taken.num_unlabelled, sum(model.scores.counts)) == (1, 3)
    assert [(one.label, one.score, one.detected.score) for one in model.least] == [
        ("hare", 0.4, 0.8),
        ("fox", 0.6, 0.95),
        ("fox", 0.7, 0.9),
    ]
    text = Outline(page_of(report)).text
    assert "Objects of animals labelled animal, with a score of at least 0.2, shown by its thresholds: at least" in text
    assert "1 more is stored. Labels by the thresholds of stub: at least 0.5. 1 object without a label" in text
    assert "1images without an object: 33 %" in text
    data = json.loads(json.dumps(report.to_json(), default=str))
    assert data["models"][0]["least"][0]["detected"]["label"] == "animal"


def test_each_object_is_a_picture_with_both_labels_and_scores(make_report, find, give):
    find({"/p/a.jpg": [animal(0.9), animal(0.8, 0.1)]})
    give({"/p/a.jpg": {0: classified(("fox", 0.7)), 1: classified(("hare", 0.4))}}, ANIMALS)
    report = make_report()
    boxes = [PictureOfObject("/p/a.jpg", x, 0.5, 0.5, 0.25) for x in (0.1, 0.25)]
    assert pictured(report) == [*reversed(boxes), *boxes]
    made = dict(zip(boxes, (Thumbnail(b"hare"), Thumbnail(b"fox")), strict=True))
    outline = Outline(render_day(report, made))
    hare, fox = "data:image/jpeg;base64,aGFyZQ==", "data:image/jpeg;base64,Zm94"
    assert outline.values("src") == [fox, hare]
    assert "0.40 hareanimal 0.80 · p/a.jpg" in outline.text.replace("\n", "")


def test_a_second_network_is_once_on_the_page_after_the_versions_of_its_detector(make_report, add_model, find):
    add_model("animals", "a2" * 8, datetime(2026, 11, 2), "detection")
    find({"/p/a.jpg": [animal()]})
    report = make_report(("animals", ANIMALS), ("animals", "a2" * 8))
    assert list(report.by_name) == ["animals@a1a1a1a1", "animals@a2a2a2a2", MODEL.name]


def test_objects_of_another_version_of_the_detector_do_not_count(make_report, add_model, find, give):
    add_model("animals", "a0" * 8, datetime(2026, 10, 1), "detection", used_until=datetime(2026, 11, 1))
    find({"/p/a.jpg": [animal()]})
    give({"/p/a.jpg": {0: classified(("fox", 0.7))}}, "a0" * 8)
    report = make_report()
    (model,) = report.models
    assert (model.counts.pending, model.objects.counts.num_images, model.labels) == (1, 0, None)


@pytest.mark.parametrize(
    ("output_kind", "output", "shown"),
    [
        ("embedding", Output(vector=b"\0\0\0\0", vector_dtype="float32", vector_dim=1), []),
        ("regression", Output(score=-3.5), [-3.5]),
    ],
    indirect=["output_kind"],
)
def test_a_network_without_labels_has_what_it_can_say(make_report, find, give, output, shown):
    find({"/p/a.jpg": [animal()]})
    give({"/p/a.jpg": {0: output}}, ANIMALS)
    report = make_report()
    (model,) = report.models
    assert (model.objects.counts.num_objects, model.objects.taken.num_unlabelled, model.labels) == (1, None, None)
    assert [one.score for one in model.least] == shown
    assert "without a label" not in page_of(report)


def test_hostile_labels_are_text(make_report, find, give):
    find({name: [animal(label=name)] for name in HOSTILE})
    give({name: {0: classified((name, 0.5))} for name in HOSTILE}, ANIMALS)
    check_harmless(page_of(make_report()))
