"""Boxes over a picture, as they are drawn by themselves and on the page of a detection model."""

import json
import re
import xml.etree.ElementTree as ElementTree
from itertools import combinations

import pytest
from sqlalchemy import select, update

from infer_app.ask.figures.object_figures import MAX_OBJECTS, ObjectCounts
from infer_app.ask.model_report import NUM_SHOWN
from infer_app.ask.page.drawn_boxes import (
    COLORS,
    MAX_LABEL_LENGTH,
    MAX_NAMED,
    Rectangle,
    drawn_objects,
    overlay,
    svg_file,
)
from infer_app.base.domain import DetectedObject
from infer_app.tables.cameras.hidden_places import decide
from infer_app.tables.queries.thresholds import change_thresholds
from infer_app.tables.results.schema import ALL_LABELS, models, objects, pictures
from infer_app.tables.rows.image_history import ModelHistory, StoredObject
from infer_app.tables.rows.results import PredictedCrop, StoredOutput
from tests.conftest import MODEL
from tests.support.photos import jpeg
from tests.unit.ask.page.test_page import HOSTILE, Outline, check_harmless, page_of

SVG = "{http://www.w3.org/2000/svg}"
PICTURE = jpeg(320, 160)


def found(label="cat", score=0.9, x=0.25, y=0.5, width=0.5, height=0.25):
    return DetectedObject(label, 0, score, x, y, width, height)


def parts(svg):
    """The coloured boxes, the plates of the labels and the labels of an SVG."""
    text = svg.decode() if isinstance(svg, bytes) else str(svg).replace("<svg ", f'<svg xmlns="{SVG[1:-1]}" ', 1)
    root = ElementTree.fromstring(text)
    _, boxes, labels = root.findall(f"{SVG}g")
    places = [[float(one.get(name)) for name in ("x", "y", "width", "height")] for one in labels.findall(f"{SVG}rect")]
    return boxes.findall(f"{SVG}rect"), [Rectangle(*place) for place in places], labels.findall(f"{SVG}text")


def test_a_box_is_a_share_of_the_picture():
    svg = overlay(PICTURE, [found()], {})
    assert 'viewBox="0 0 320 160"' in svg
    (box,), (plate,), (label,) = parts(svg)
    assert [float(box.get(name)) for name in ("x", "y", "width", "height")] == [80, 80, 160, 40]
    assert plate.y + plate.height == pytest.approx(80, abs=0.2)  # on top of its box
    assert label.text == box[0].text == "cat 0.90"


@pytest.mark.parametrize("place", [(0.95, 0.0, 0.05, 1.0), (0.0, 0.0, 1.0, 1.0), (0.5, 0.98, 0.0, 0.0)])
@pytest.mark.parametrize("label", ["a label of some length", "猫" * 99])
def test_a_label_stays_within_the_picture_cut_where_it_is_long(place, label):
    _, (plate,), (text,) = parts(overlay(PICTURE, [found(label, 0.9, *place)], {}))
    assert (plate.x >= 0, plate.y >= 0) == (True, True)
    assert (plate.x + plate.width <= 320.1, plate.y + plate.height <= 160.1) == (True, True)
    assert len(text.text) == min(len(label), MAX_LABEL_LENGTH) + len(" 0.90")


HERD = [found("cow", 0.99 - n / 200, 0.4 + n / 1000, 0.4, 0.1, 0.1) for n in range(150)]


def test_of_many_objects_on_a_small_picture_the_best_is_named():
    boxes, _, labels = parts(overlay(PICTURE, HERD, {}))
    assert (len(boxes), [label.text for label in labels]) == (len(HERD), ["cow 0.99"])


@pytest.mark.parametrize(
    ("svg", "most"),
    [(overlay(PICTURE, HERD[:MAX_NAMED], {}), MAX_NAMED), (svg_file(jpeg(1600, 1200), HERD, ""), len(HERD))],
    ids=["overlay", "file"],
)
def test_no_label_covers_another_and_the_best_come_first(svg, most):
    boxes, plates, labels = parts(svg)
    shown = [label.text for label in labels]
    assert 1 < len(shown) <= most
    assert shown[0] == "cow 0.99"
    assert shown == sorted(shown, reverse=True)
    assert boxes[-1][0].text == "cow 0.99"  # drawn last, in front of the others
    assert not [pair for pair in combinations(plates, 2) if pair[0].overlaps(pair[1])]


def test_labels_of_one_picture_differ_in_colour_while_there_are_colours():
    labels = [f"label {number}" for number in range(len(COLORS) + 1)]
    boxes, *_ = parts(overlay(PICTURE, [found(label) for label in labels], {"label 0": 3, "label 1": 3}))
    colors = {box[0].text.rpartition(" ")[0]: box.get("stroke") for box in boxes}
    assert colors["label 0"] == COLORS[3]
    assert len({colors[label] for label in labels[:-1]}) == len(COLORS)
    assert colors[labels[-1]] in COLORS


@pytest.mark.parametrize("label", [*HOSTILE, "\ud800", "\ufffe", "]]>", "<!--"], ids=range(len(HOSTILE) + 4))
def test_a_hostile_label_is_text_in_a_file_of_its_own(label):
    svg = svg_file(PICTURE, [found(label)], label).decode()
    root = ElementTree.fromstring(svg)
    assert {element.tag for element in root.iter()} == {
        SVG + tag for tag in ("svg", "title", "image", "g", "rect", "text")
    }
    assert not [name for element in root.iter() for name in element.attrib if name.startswith("on")]
    assert re.findall(r'href="([^,"]*)', svg) == ["data:image/jpeg;base64"]
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", svg)


def test_of_a_second_network_the_objects_that_it_took_are_drawn_with_its_labels():
    box, hidden = found("animal", 0.9), found("animal", 0.1)
    made = PredictedCrop("dog", 0.6, StoredOutput("{}", None, None))
    own = ((box, True, made, "fox", 0.7), (box, True), (hidden, False, made, "fox", 0.7), (box, True, made))
    stored = tuple(StoredObject(place, *one) for place, one in enumerate(own))  # the last one of an embedder
    drawn = drawn_objects(ModelHistory("species", "s", None, None, objects=stored, detector="animals"))
    assert [(one.label, one.score) for one in drawn] == [("fox", 0.7), ("animal", 0.9)]
    found_alone = tuple(StoredObject(place, *one[:2]) for place, one in enumerate(own))
    assert drawn_objects(ModelHistory("animals", "d", None, None, objects=found_alone)) == [box] * 3


# The page


@pytest.fixture
def output_kind():
    return "detection"


def test_a_report_of_objects(database, make_report, detect):
    detect({"/p/a.jpg": [found("cat", 0.9), found("dog", 0.6), found("cat", 0.1)], "/p/b.jpg": [found("dog", 0.2)]})
    detect({"https://me:secret@h/c.jpg?sig=1": []})
    detect({"/p/old.jpg": [found("cat", 0.9), found("dog", 0.8)]}, days_ago=3)
    detect({"/p/older.jpg": [found("dog", 0.8)]}, days_ago=20)
    change_thresholds(database, MODEL.name, {ALL_LABELS: 0.5, "cat": 0.05})
    report = make_report()
    (model,) = report.models
    assert model.output == "detection"
    assert model.objects.counts == ObjectCounts(num_objects=3, num_stored=4, num_images=3, num_empty=2)
    assert model.objects.counts_7 == ObjectCounts(num_objects=2, num_stored=2, num_images=1, num_empty=0)
    assert [(one.label, one.count, one.share_7, one.share_28) for one in model.labels.most] == [
        ("cat", 2, 1 / 2, 1 / 3),
        ("dog", 1, 1 / 2, 2 / 3),
    ]
    assert model.labels.drift_7.num_before == 2
    assert sum(model.scores.counts) == 3
    assert [one.location for one in model.least] == [one.location for one in model.most] == ["/p/a.jpg"]
    text = Outline(page_of(report, PICTURE)).text
    assert "Shown by the model's thresholds: at least 0.5; cat 0.05. 1 more is stored." in text
    assert "0.20 dog, not shown" in text
    data = json.dumps(report.to_json(), default=str)
    assert json.loads(data)["models"][0]["objects"]["counts"]["num_stored"] == 4
    assert ("https://***@h/c.jpg?***" in data, "secret" in data) == (True, False)


def test_boxes_lie_over_each_picture_of_an_image_with_objects(make_report, detect):
    many = [found("cat", 0.9 - n / 100) for n in range(MAX_OBJECTS + 3)]
    detect({"/p/a.jpg": many, "/p/b.jpg": [found("dog", 0.4)], "/p/c.jpg": []})
    page = page_of(make_report(), PICTURE)
    assert page.count('class="boxes"') == 2
    assert page.count('class="frame"') == 3
    assert f"{MAX_OBJECTS + 3} objects, {MAX_OBJECTS} drawn" in page
    assert "infer threshold set stub --default 0.3" in page


def test_objects_at_hidden_places_are_not_called_shown(database, make_report, detect):
    detect({"/p/a.jpg": [found("cat", 0.9)], "/p/b.jpg": [found("dog", 0.4)]})
    says = "all objects that are stored are shown"
    assert f"{says}. To show fewer" in page_of(make_report(), PICTURE)
    with database.write() as connection:
        connection.execute(update(pictures).values(camera="a"))
        number = connection.scalar(select(objects.c.id).where(objects.c.label == "dog"))
    decide(database, [number], is_hidden=True)
    assert f"{says}, but for 1 at hidden places. To show fewer" in page_of(make_report(), PICTURE)


@pytest.mark.parametrize(("stored_from", "advised"), [(0.05, "0.3"), (0.3, "0.65"), (0.5, "0.75")])
def test_the_threshold_that_a_report_advises_hides_some_of_what_is_stored(
    database, make_report, detect, stored_from, advised
):
    detect({"/p/a.jpg": [found("cat", 0.9)]})
    manifest = {"output": {"kind": "detection", "detection": {"min_score": stored_from}}}
    with database.write() as connection:
        connection.execute(update(models).values(manifest=manifest))
    assert f"infer threshold set stub --default {advised}<" in page_of(make_report(), PICTURE)


def test_a_page_of_many_objects_with_hostile_labels_has_a_size(database, make_report, detect, add_run):
    crowd = [found(f"{n}{'&' * 500}", 0.99 - n / 500) for n in range(300)]
    detect({f"/p/{n}" + "<" * 300: crowd for n in range(40)})
    detect({f"/p/{n}{n}": [] for n in range(100, 140)})
    detect({name: [found(name, 0.9), found("cat", 0.5)] for name in HOSTILE})
    change_thresholds(database, MODEL.name, {ALL_LABELS: 0.3} | {name[:500]: 0.3 for name in HOSTILE})
    add_run()
    report = make_report()
    (model,) = report.models
    shown = (model.objects.busiest, model.objects.empty, model.least, model.most)
    assert [len(images) for images in shown] == [NUM_SHOWN] * 4
    page = page_of(report, PICTURE)
    assert len(page) < 500_000  # and at most 1 MB of pictures
    check_harmless(page)
