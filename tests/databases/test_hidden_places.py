"""Objects at a place that was hidden are not shown, wherever they are asked for; what is stored stays."""

from datetime import datetime, timedelta
from random import Random

import numpy as np
import pytest
from sqlalchemy import select, text

from infer_app.ask.compare.compare_versions import compare_objects
from infer_app.ask.export.exported_images import Export
from infer_app.ask.export.exported_model import ModelVersions
from infer_app.ask.export.formats.tables import columns_of, read_rows
from infer_app.ask.export.image_paths import ImagePaths
from infer_app.ask.figures.crop_figures import open_figures
from infer_app.ask.figures.repeated_boxes import MIN_BOXES, MIN_DAYS, find_repeated_boxes
from infer_app.base.domain import DetectedObject
from infer_app.base.errors import UsageError
from infer_app.predict.detection.boxes import corners, intersection_over_union
from infer_app.tables.cameras.day_events import read_events
from infer_app.tables.cameras.hidden_places import AWAY_HOURS, decide, retire_places
from infer_app.tables.listing.source import Source
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.queries.thresholds import count_shown
from infer_app.tables.results.model_versions import switch_version
from infer_app.tables.results.schema import objects, places
from infer_app.tables.rows.image_history import read_history
from infer_app.tables.rows.results import Part, read_together
from infer_app.tables.shown_labels import ShownLabels
from tests.conftest import DAY
from tests.support.results import broken, commit, of_objects, register_rows
from tests.support.second_networks import DETECTOR, DOG, LION, SECOND, D, S, StoredModel

OTHER = "e" * 16  # another version of the detector
NOON = datetime(2026, 11, 20, 12)
ROCK = DetectedObject("animal", 0, 0.9, 0.5, 0.5, 0.2, 0.1)
FOX = DetectedObject("animal", 0, 0.8, 0.1, 0.1, 0.3, 0.2)


class Cards:
    """Pictures of cameras with what a detector found on them; objects have the numbers 1, 2, …"""

    def __init__(self, database):
        self.database, self.count = database, 0
        self.project = ProjectDatabase(database, Source(database))
        switch_version(database, DETECTOR.name, D, DETECTOR.manifest)

    def add(self, camera, at, *found):
        self.count += 1
        taken = {"camera": camera, "taken_at": at, "captured_at": at, "taken_from": "exif"}
        with self.database.write() as connection:
            register_rows(connection, {"location": f"/{self.count}.jpg", "added_at": at} | taken)
        commit(self.database, [of_objects(str(self.count), *found)], model_id=D)
        with self.database.write() as connection:
            connection.execute(text(f"UPDATE infer_pictures SET event = id, event_last = id WHERE id = {self.count}"))
        return self

    def shown(self):
        with self.database.read() as connection:
            return set(connection.scalars(text("SELECT object_id FROM infer_shown_objects")))

    def stored(self):
        with self.database.read() as connection:
            return set(connection.scalars(select(objects.c.id)))

    def decided(self):
        """What of each place was decided, by the number of its object."""
        with self.database.read() as connection:
            wanted = select(places.c.object, places.c.hidden, places.c.until)
            return {row[0]: (row.hidden, row.until) for row in connection.execute(wanted)}


@pytest.fixture
def cards(database):
    return Cards(database)


def test_what_is_at_a_hidden_place_is_shown_nowhere_until_it_is_kept(cards):
    database, project = cards.database, cards.project
    cards.add("a", NOON, ROCK, FOX).add("a", NOON + timedelta(hours=1), ROCK).add("b", NOON, ROCK)
    species = StoredModel(database, SECOND, D)
    for number, found in (("1", [ROCK, FOX]), ("2", [ROCK]), ("3", [ROCK])):
        commit(database, [of_objects(number, *found)], model_id=OTHER)
    for image_id, crops in {"1": {0: LION, 1: DOG}, "2": {0: LION}, "3": {0: LION}}.items():
        species.classify(image_id, crops)
    switch_version(database, SECOND.name, S, SECOND.manifest)

    def seen():
        """How many objects of each camera's pictures each of these tells of."""
        exports = [
            Export.of_days(project, [DAY], ModelVersions.find(project, [DAY], name), ImagePaths())
            for name in (DETECTOR.name, SECOND.name)
        ]
        events, _ = read_events(project, DAY)
        histories = [read_history(database, [(DETECTOR.name, D), (SECOND.name, S)], number) for number in (1, 2, 3)]
        pairs = read_together(project, DAY, (D, OTHER), Part.OBJECTS)
        compared = compare_objects(pairs, [ShownLabels({})] * 2, 9)["objects"]
        figures = [open_figures(project, name, id_) for name, id_ in ((DETECTOR.name, D), (SECOND.name, S))]
        return {
            "views": count_shown(database, project.source, DAY, DETECTOR.name),
            "views of a second network": count_shown(database, project.source, DAY, SECOND.name),
            "exports": [[len(one.objects) for one in export.read_images()] for export in exports],
            "places": [row[columns_of(one).index("object")] for one in exports for row in read_rows(one)],
            "events": [sum(one.count for one in event.labels) for event in events],
            "history": [[sum(one.is_shown for one in model.objects) for model in found] for found in histories],
            "comparison": compared["matched"] + compared["only_a"] + compared["only_b"],
            "figures": [one.results.count(DAY).num_objects for one in figures],
            "labels": [sum(one.count_labels(DAY).values()) for one in figures],
            "empty": [(one.label, one.score) for one in figures[0].results.empty(DAY, 9)],
        }

    before, stored = seen(), cards.stored()
    assert before == {
        "views": 4,
        "views of a second network": 4,
        "exports": [[2, 1, 1]] * 2,
        "places": [0, 1, 0, 0] * 2,
        "events": [4, 2, 2],
        "history": [[2, 2], [1, 1], [1, 1]],
        "comparison": 4,
        "figures": [4, 4],
        "labels": [4, 4],
        "empty": [],
    }
    decide(database, [1], is_hidden=True)
    assert seen() == {
        "views": 2,
        "views of a second network": 2,
        "exports": [[1, 1, 0]] * 2,
        "places": [1, 0, None] * 2,
        "events": [2, 0, 2],
        "history": [[1, 1], [0, 0], [1, 1]],
        "comparison": 2,
        "figures": [2, 2],
        "labels": [2, 2],
        "empty": [(None, None)],
    }
    assert cards.stored() == stored
    decide(database, [1], is_hidden=False)
    assert seen() == before


def test_a_place_is_what_overlaps_its_box_by_as_much_as_python_says_and_has_its_label_and_camera(cards):
    chance, found = Random(3), []
    cards.add("a", NOON, ROCK)
    for _ in range(60):
        scale = chance.choice([0.02, 0.1, 0.3])
        box = [one + side * chance.uniform(-scale, scale) for one, side in zip(ROCK[3:], (0.2, 0.1) * 2, strict=True)]
        found.append(ROCK._replace(x=box[0], y=box[1], width=box[2], height=box[3]))
    cards.add("a", NOON, *found).add("a", NOON, ROCK._replace(label="person")).add("b", NOON, ROCK)
    decide(cards.database, [1], is_hidden=True)
    overlaps = intersection_over_union(corners([ROCK]), corners(found))[0]
    assert 10 < np.count_nonzero(overlaps >= 0.75) < 50
    apart = {number for number, overlap in enumerate(overlaps, 2) if overlap < 0.75}
    assert cards.shown() == apart | {62, 63}


@pytest.mark.parametrize(("hours", "is_over"), [(AWAY_HOURS - 1, False), (AWAY_HOURS + 1, True)])
def test_a_place_without_an_object_is_over_once_its_camera_has_brought_later_pictures(cards, hours, is_over):
    """What came after is shown, as of a camera that has moved, and what was hidden before stays so."""
    later = NOON + timedelta(hours=hours)
    cards.add("a", NOON - timedelta(days=30), ROCK).add("a", NOON, ROCK).add("b", later, ROCK)
    decide(cards.database, [1], is_hidden=True)
    assert cards.decided() == {1: (1, None)}
    cards.add("a", later, FOX)
    cards.database.transact(retire_places)
    assert cards.decided() == {1: (1, NOON if is_over else None)}
    cards.add("a", later + timedelta(hours=1), ROCK)
    assert cards.shown() == ({3, 4, 5} if is_over else {3, 4})


def test_pictures_that_no_detector_has_answered_for_end_no_place(cards):
    """A run that ends early leaves those of a card's last weeks pending; others are rejected."""
    cards.add("a", NOON, ROCK)
    decide(cards.database, [1], is_hidden=True)
    later = {"camera": "a", "added_at": NOON + timedelta(hours=AWAY_HOURS + 1)}
    with cards.database.write() as connection:
        register_rows(connection, {"location": "/pending.jpg"} | later, {"location": "/rejected.jpg"} | later)
    commit(cards.database, bad=broken("3"), model_id=D)
    cards.database.transact(retire_places)
    assert cards.decided() == {1: (1, None)}


def test_a_place_is_over_also_when_what_was_there_is_forgotten(cards, execute):
    cards.add("a", NOON, ROCK)
    decide(cards.database, [1], is_hidden=True)
    execute("DELETE FROM infer_objects")
    cards.add("a", NOON + timedelta(days=1), FOX)
    cards.add("a", NOON + timedelta(days=1, hours=AWAY_HOURS + 1), FOX)
    cards.database.transact(retire_places)
    assert cards.decided() == {1: (1, NOON)}


def test_a_place_stays_with_its_pictures_when_they_are_said_to_be_another_cameras(cards, execute):
    cards.add("a", NOON, ROCK).add("b", NOON, ROCK)
    decide(cards.database, [1], is_hidden=True)
    execute("UPDATE infer_pictures SET camera = CASE camera WHEN 'a' THEN 'north' ELSE 'a' END")
    cards.database.transact(retire_places)
    assert cards.shown() == {2}


def test_a_number_of_no_object_is_refused_and_nothing_is_decided(cards, execute):
    cards.add("a", NOON, ROCK).add("", NOON, ROCK).add("a", NOON, FOX)
    for unknown in (2, 7):  # of no camera, of nothing
        with pytest.raises(UsageError, match=f"{unknown} is no object of a camera"):
            decide(cards.database, [1, unknown], is_hidden=True)
    assert cards.decided() == {}
    decide(cards.database, [1, 3], is_hidden=True)
    execute("DELETE FROM infer_objects WHERE id = 1")  # predicted again, say: another number
    decide(cards.database, [1], is_hidden=False)
    assert cards.decided() == {1: (0, None), 3: (1, None)}


def on_nights(cards, camera, nights, boxes, found_of):
    for night in range(nights):
        for number in range(boxes):
            cards.add(camera, NOON + timedelta(days=night, minutes=number), *found_of(night, number))


def test_what_repeats_over_days_is_listed_until_it_is_decided(cards):
    chance = Random(5)

    def near(box, by):
        x, y = (chance.gauss(0, by) * side for side in (box.width, box.height))
        return box._replace(x=box.x + x, y=box.y + y)

    on_nights(cards, "rocks", 6, 5, lambda night, _: [near(ROCK, 0.01), FOX._replace(x=chance.random() * 0.7)])
    on_nights(cards, "asleep", 2, 15, lambda night, _: [near(FOX, 0.01)])
    on_nights(cards, "birds", 6, 15, lambda night, _: [near(FOX, 0.15)])
    on_nights(cards, "large", 6, 5, lambda night, _: [ROCK._replace(x=0.0, y=0.0, width=0.5, height=0.5)])
    on_nights(cards, "rare", 6, 3, lambda night, _: [ROCK])
    on_nights(cards, "unsure", 6, 5, lambda night, _: [ROCK._replace(score=0.09)])
    on_nights(cards, "", 6, 5, lambda night, _: [ROCK])
    (found,) = find_repeated_boxes(cards.project, DETECTOR.name, D)
    assert (found.camera, found.label, found.boxes, found.days) == ("rocks", "animal", 30, 6)
    assert found.last == "2026-11-25"
    assert found.box == pytest.approx(ROCK[3:], abs=0.01)
    decide(cards.database, [found.number], is_hidden=False)
    assert find_repeated_boxes(cards.project, DETECTOR.name, D) == []
    assert (MIN_BOXES, MIN_DAYS) == (20, 5)
