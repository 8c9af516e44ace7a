"""Pictures that another camera has too, on every database: the one that was registered first counts."""

from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import func, update

from infer_app.base.domain import CaptureTime, ImageFile
from infer_app.tables.cameras.copies import CopiedCamera, find_copies, read_copies
from infer_app.tables.cameras.day_events import count_waiting
from infer_app.tables.cameras.place_events import place_all
from infer_app.tables.forgettable_results import Forgettable, ForgettableCounts, StoredResult, forget
from infer_app.tables.listing.image_registry import DatedImage, register
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.events import dissolve_events
from infer_app.tables.results.schema import IS_COPY, WITHOUT_CAMERA, WITHOUT_EVENT, pictures, predictions
from tests.conftest import MODEL
from tests.databases.test_picture_facts import GAP, START, Cards


class SameBytes(Cards):
    """Photos with the same number of seconds have the same bytes, of whatever camera."""

    def read(self, taken, *more, **others):
        super().read(taken, *more, **others | {"bytes_of": lambda location: str(self.taken[location].at)})

    def events(self):
        """The camera, the event and the copied picture of each, by number."""
        return [row[1:] for row in sorted(self.rows(*(pictures.c[name] for name in NAMES)))]

    def copies(self):
        return read_copies(ListedImages(self.database, self.source))


NAMES = ("id", "camera", "event", "copy_of")
FIRST = [("a", 1, None), ("a", 1, None), ("a", 3, None)]
COPIES = [("b", IS_COPY, 1), ("b", IS_COPY, 2), ("b", IS_COPY, 3)]
OF_A = ("a", 0), ("a", 30), ("a", 300)
OF_B = ("b", 0), ("b", 30), ("b", 300)


@pytest.fixture
def cards(database):
    return SameBytes(database)


@pytest.mark.parametrize("at_once", [1, 4, 100])
def test_copies_are_of_no_event_whether_they_come_together_or_later(cards, at_once):
    cards.add(*OF_A, *OF_B).note(at_once=at_once)
    assert cards.events() == [*FIRST, *COPIES]
    cards.add(("b", 500), ("c", 30)).note(at_once=at_once)
    assert cards.events()[6:] == [("b", 7, None), ("c", IS_COPY, 2)]
    assert cards.copies() == [CopiedCamera("b", "a", 3, 0), CopiedCamera("c", "a", 1, 0)]
    cards.note(gap=500)  # all are placed anew
    assert [event for _, event, _ in cards.events()] == [1, 1, 1, IS_COPY, IS_COPY, IS_COPY, 7, IS_COPY]


def test_the_same_photo_twice_of_one_camera_is_no_copy_and_neither_is_one_of_another_time(cards, execute):
    """As what a camera without a view sends every day, which has no time of its own in its file."""
    cards.add(("a", 0), ("a", 0), ("b", 0))
    execute("UPDATE infer_pictures SET taken_at = '2026-11-20 13:00:00' WHERE id = 3")
    with cards.database.read() as connection:
        assert find_copies(connection, [1, 2, 3]) == {}
    cards.note()
    assert cards.events() == [("a", 1, None), ("a", 1, None), ("b", 3, None)]
    assert cards.copies() == []


@pytest.mark.parametrize("gone", ["forgotten", "changed"])
def test_copies_have_events_once_the_first_pictures_are_gone(cards, gone):
    cards.add(*OF_A, *OF_B).note()
    if gone == "forgotten":
        results = [StoredResult(number, MODEL.model_id, None) for number in (1, 2, 3)]
        part = Forgettable(results, [1, 2, 3], is_registered=True)
        with cards.database.write() as connection:
            connection.execute(update(pictures).values(missing_since=pictures.c.added_at).where(pictures.c.id < 4))
        assert cards.copies() == [CopiedCamera("b", "a", 3, 3)]
        assert forget(cards.database, [part], ForgettableCounts.of([part])).images == 3
    else:
        with cards.database.write() as connection:
            dissolve_events(connection, [1, 2, 3])
            connection.execute(update(pictures).values(sha256="another").where(pictures.c.id < 4))
    cards.note()
    assert cards.events()[-3:] == [("b", 4, None), ("b", 4, None), ("b", 6, None)]
    assert cards.copies() == []


def test_a_copy_that_gets_other_bytes_has_an_event(cards):
    """Its file was replaced, and is not predicted again yet."""
    cards.add(*OF_A, *OF_B).note()
    with cards.database.write() as connection:
        connection.execute(update(pictures).values(sha256="another", event=0).where(pictures.c.id == 4))
    cards.note()
    assert cards.events() == [*FIRST, ("b", 4, None), *COPIES[1:]]


def test_copies_whose_own_files_are_gone_are_named_no_more(cards):
    cards.add(*OF_A, *OF_B).note()
    with cards.database.write() as connection:
        connection.execute(update(pictures).values(missing_since=pictures.c.added_at).where(pictures.c.id > 3))
    assert cards.copies() == []
    assert cards.events() == [*FIRST, *COPIES]


@pytest.mark.parametrize("at_once", [1, 100])
def test_a_copy_that_was_predicted_first_loses_its_event(cards, at_once):
    """As one of last night, of a photo that a backfill reaches later; the others of its event keep theirs."""
    cards.add(*OF_A, *OF_B, ("b", 40))
    of_a = predictions.c.picture < 4
    with cards.database.write() as connection:
        connection.execute(update(predictions).where(of_a).values(sha256=predictions.c.sha256 + "x"))
    cards.note()
    assert [event for _, event, _ in cards.events()] == [1, 1, 3, 4, 4, 4, 7]  # the fifth is that of 40 s
    with cards.database.write() as connection:
        connection.execute(update(predictions).where(of_a).values(sha256=func.replace(predictions.c.sha256, "x", "")))
        connection.execute(update(pictures).where(pictures.c.id < 4).values(event=0))
    place_all(cards.database, GAP, at_once)
    assert cards.events() == [*FIRST, COPIES[0], ("b", 5, None), *COPIES[1:]]


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_copy_that_was_given_an_event_before_it_was_predicted_counts_once(cards, first):
    """As where files state their times when they are registered, and the run ends before it comes to them."""
    time, found = partial(CaptureTime, offset=None), []
    for camera in "ab":
        files = {f"/photos/{camera}/{n}.jpg": time(START + timedelta(seconds=n)) for n in (0, 30)}
        dated = lambda new, taken=files, camera=camera: [  # noqa: E731
            DatedImage(one, START, taken=taken[one.location], camera=camera) for one in new
        ]
        for _ in register(cards.database, [ImageFile(one, 7, 1.0) for one in files], dated):
            pass
        cards.taken |= files
        found.append(files)
    place_all(cards.database, GAP)
    assert cards.events() == [("a", 1, None), ("a", 1, None), ("b", 3, None), ("b", 3, None)]
    for files in found if first == "a" else reversed(found):
        cards.read(files)
        place_all(cards.database, GAP)
    assert cards.events() == [("a", 1, None), ("a", 1, None), ("b", IS_COPY, 1), ("b", IS_COPY, 2)]


def test_a_copy_waits_for_nothing(cards):
    cards.add(*OF_A, *OF_B).note()
    images = ListedImages(cards.database, cards.source)
    assert [count_waiting(images, state) for state in (WITHOUT_CAMERA, WITHOUT_EVENT)] == [0, 0]


def test_a_photo_without_a_camera_is_of_no_other_camera(cards, execute):
    """As one that lay beside the folders of cameras: an export leaves it out, and would leave out the copies too."""
    cards.add(*OF_A, *OF_B)
    execute("UPDATE infer_pictures SET camera = '', event = 0, taken_from = 'exif' WHERE id < 4")
    execute("UPDATE infer_pictures SET camera = 'b', event = 0, taken_from = 'exif' WHERE id > 3")
    place_all(cards.database, GAP)
    assert cards.events()[3:] == [("b", 4, None), ("b", 4, None), ("b", 6, None)]


def test_copies_have_events_once_the_results_of_the_first_pictures_are_forgotten(cards):
    """As those of former days, whose pictures are kept."""
    cards.add(*OF_A, *OF_B).note()
    part = Forgettable([StoredResult(number, MODEL.model_id, None) for number in (1, 2, 3)])
    forget(cards.database, [part], ForgettableCounts.of([part]))
    cards.note()
    assert cards.events()[3:] == [("b", 4, None), ("b", 4, None), ("b", 6, None)]


def test_of_photos_that_are_listed_twice_the_first_that_is_still_there_counts(cards, execute):
    """Also of another list: a picture of it is none of this source."""
    cards.add(*OF_A, *OF_B, ("c", 0))
    execute("UPDATE infer_pictures SET unlisted_since = '2026-11-21 00:00:00' WHERE id = 1")
    execute("UPDATE infer_pictures SET registered = 0 WHERE id = 2")
    cards.note()
    assert cards.events()[3:] == [("b", 4, None), ("b", 4, None), ("b", IS_COPY, 3), ("c", IS_COPY, 4)]
