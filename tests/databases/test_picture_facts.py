"""Cameras, capture times and events on every database: the same in whatever order pictures come."""

import random
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import itemgetter

import pytest
from sqlalchemy import select

from infer_app.base.day import Day
from infer_app.base.domain import (
    NO_TIME,
    CaptureTime,
    FileFacts,
    ImageFile,
    ImageRef,
    Output,
    Prediction,
)
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.cameras.copies import CopiedCamera, read_copies
from infer_app.tables.cameras.day_events import (
    count_waiting,
    events,
    find_jumps,
    read_camera_rows,
    read_ends,
    read_events,
)
from infer_app.tables.cameras.periods import CameraClocks, CameraPeriod, set_cameras
from infer_app.tables.cameras.picture_facts import FactRules, fill_facts, give_up, without_camera
from infer_app.tables.cameras.place_events import place_all
from infer_app.tables.forgettable_results import Forgettable, ForgettableCounts, forget, of_missing
from infer_app.tables.listing.image_registry import DatedImage, register
from infer_app.tables.listing.update_list import update_list
from infer_app.tables.listing.watched_images import mark_missing
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.events import dissolve_events
from infer_app.tables.results.schema import IS_COPY, WITHOUT_CAMERA, WITHOUT_EVENT, pictures
from infer_app.tables.row_audit import audit_rows
from tests.conftest import MODEL
from tests.support.day_rows import add_model  # noqa: F401
from tests.support.listings import ALL_DAYS, source_of
from tests.support.results import commit

DAY = Day.of(datetime(2026, 11, 20).date(), "UTC")
START = datetime(2026, 11, 20, 12)
GAP = 60.0
TIME = (pictures.c.taken_at, pictures.c.taken_from, pictures.c.event)
RULES = FactRules(1, ("/photos/",), None, "", "UTC", names_cameras=True, has_own_times=False)


class Cards:
    """Photos of cameras in the program's own list, with the times that their files state."""

    def __init__(self, database, settings=None):
        self.database = database
        self.source = source_of(database, settings)
        self.taken = {}  # by location

    def add(self, *photos, offset=None):
        """add((camera, seconds), …): photos that a run registers and predicts; seconds None: without a time."""
        files, taken = [], {}
        for camera, seconds in photos:
            location = f"/photos/{camera}/{100 + len(self.taken) % 3}MEDIA/{len(self.taken)}.jpg"
            time = NO_TIME if seconds is None else CaptureTime(START + timedelta(seconds=seconds), offset)
            self.taken[location] = taken[location] = time
            files.append(ImageFile(location, 7, 1.0))
        dated = lambda new: [DatedImage(file, START) for file in new]  # noqa: E731
        for _ in register(self.database, files, dated):
            pass
        self.read(taken)
        return self

    def read(self, taken, label="fox", run="run 1", file=(7, 1.0), bytes_of=lambda location: location):
        ids = dict(self.rows(pictures.c.location, pictures.c.image_id))
        good = [
            Prediction(ImageRef(ids[one], one), Output(label, 0.9), FileFacts(*file, bytes_of(one), None, time))
            for one, time in taken.items()
        ]
        commit(self.database, good, run_id=run)

    def note(self, gap=GAP, rules=RULES, **more):
        fill_facts(self.database, self.source, rules, None)
        place_all(self.database, gap, **more)

    def rows(self, *columns):
        with self.database.read() as connection:
            return [tuple(row) for row in connection.execute(select(*columns))]

    def partition(self):
        """The pictures of each event."""
        found = defaultdict(set)
        for event, location in self.rows(pictures.c.event, pictures.c.location):
            assert (event or 0) > 0, location
            found[event].add(location)
        assert {number for (number,) in self.rows(events.c.id)} == found.keys()
        return sorted(map(sorted, found.values()))

    def firsts(self):
        """The first picture of each event, by the definition."""
        number = dict(self.rows(pictures.c.location, pictures.c.id))
        when = lambda one: (self.taken[one].at - (self.taken[one].offset or timedelta(0)), number[one])  # noqa: E731
        return {number[min(group, key=when) if len(group) > 1 else group[0]] for group in self.expected()}

    def expected(self, gap=GAP):
        """By the definition, from the times of the files."""
        found, of_camera = [], defaultdict(list)
        for location, time in self.taken.items():
            if time.at is None:
                found.append([location])
            else:
                of_camera[location.split("/")[2]].append((time.at - (time.offset or timedelta(0)), location))
        for photos in of_camera.values():
            last = None
            for at, location in sorted(photos):
                if last is None or (at - last).total_seconds() > gap:
                    found.append([])
                found[-1].append(location)
                last = at
        return sorted(map(sorted, found))


@pytest.fixture
def cards(database):
    return Cards(database)


def test_whatever_the_order_the_events_are_those_of_all_at_once(cards):
    rng = random.Random(5)
    photos = [(f"cam{rng.randrange(3)}", rng.choice([None, *range(0, 3000, 20)])) for _ in range(60)]
    for first in range(0, len(photos), 9):
        cards.add(*photos[first : first + 9]).note(at_once=4)
        assert cards.partition() == cards.expected()
        assert {number for (number,) in cards.rows(events.c.id)} == cards.firsts()


def test_a_late_card_joins_two_events_to_that_of_the_first_picture(cards):
    cards.add(("a", 40)).note()
    cards.add(("a", 140), ("b", 50)).note()
    cards.add(("a", 90)).note()
    span = lambda: {row[0]: row[1:] for row in cards.rows(events.c.id, events.c.started_at, events.c.ended_at)}  # noqa: E731
    assert cards.partition() == cards.expected()
    assert span()[1] == (START + timedelta(seconds=40), START + timedelta(seconds=140))
    cards.add(("a", 0)).note()
    (earlier,) = (number for number, at in cards.rows(pictures.c.id, pictures.c.taken_at) if at == START)
    assert cards.partition() == cards.expected()
    assert span()[earlier] == (START, START + timedelta(seconds=140))


@pytest.mark.parametrize("seed", range(3))
def test_clocks_that_state_offsets_that_differ_have_the_events_of_all_at_once(cards, seed):
    rng = random.Random(seed)
    for _ in range(6):
        offset = timedelta(hours=rng.choice([-14, 1, 2, 14]))
        seconds = (3600 * rng.choice([0, 1, 15, 30]) + rng.randrange(0, 400, 20) for _ in range(6))
        cards.add(*(("a", one + offset.total_seconds()) for one in seconds), offset=offset).note(at_once=4)
        assert cards.partition() == cards.expected()
        assert {number for (number,) in cards.rows(events.c.id)} == cards.firsts()


def test_a_clock_that_states_its_offset_makes_one_event_of_a_night_in_which_it_is_put_back(cards):
    cards.add(("a", 3590), offset=timedelta(hours=2))
    cards.add(("a", 10), offset=timedelta(hours=1))
    cards.note()
    assert cards.partition() == cards.expected() == [sorted(cards.taken)]


def test_a_shift_moves_the_times_of_events_and_no_stored_time(cards):
    cards.add(("a", 0), ("a", 30), ("b", 0)).note()
    before = sorted(cards.rows(pictures.c.id, pictures.c.taken_at))
    shift = CameraPeriod(camera="a", since=START + timedelta(seconds=10), shift=timedelta(hours=1))
    assert set_cameras(cards.database, [shift]) == {"a"}
    assert set_cameras(cards.database, [shift]) == set()
    cards.note()
    starts = sorted(time for (time,) in cards.rows(events.c.started_at))
    assert starts == [START, START, START + timedelta(hours=1, seconds=30)]
    assert sorted(cards.rows(pictures.c.id, pictures.c.taken_at)) == before


def test_another_gap_makes_all_events_anew(cards, caplog):
    cards.add(*(("a", 50 * number) for number in range(5))).note()
    assert len(cards.partition()) == 1
    cards.note(gap=40.0)
    assert cards.partition() == cards.expected(40.0)
    assert "all events are made anew" in caplog.text


def test_a_photo_that_is_replaced_leaves_its_event(cards):
    cards.add(("a", 0), ("a", 40), ("a", 80)).note()
    middle = sorted(cards.taken)[1]
    cards.taken[middle] = CaptureTime(START + timedelta(days=1))
    cards.read({middle: cards.taken[middle]}, file=(8, 2.0), bytes_of=lambda _: "cd")
    cards.note()
    assert cards.partition() == cards.expected()
    assert len(cards.partition()) == 3


def test_a_photo_that_a_walk_finds_replaced_has_no_time_until_it_is_read(cards):
    cards.add(("a", 0), ("a", 40)).note()
    location = sorted(cards.taken)[0]
    new = FileFacts(8, 2.0, "cd")
    for _ in register(cards.database, [ImageFile(location, 8, 2.0)], lambda new: [], lambda files: [new] * len(files)):
        pass
    of_it = [row[1:] for row in cards.rows(pictures.c.location, *TIME) if row[0] == location]
    assert of_it == [(None, None, None)]
    cards.taken[location] = CaptureTime(START + timedelta(days=1))
    cards.read({location: cards.taken[location]}, file=(8, 2.0), bytes_of=lambda _: "cd")
    cards.note()
    assert cards.partition() == cards.expected()


def test_a_photo_that_a_walk_finds_replaced_is_of_the_event_of_its_new_time(cards):
    cards.add(("a", 0), ("a", 40)).note()
    location = sorted(cards.taken)[0]
    cards.taken[location] = CaptureTime(START + timedelta(days=1))
    new = FileFacts(8, 2.0, "cd", None, cards.taken[location])
    for _ in register(cards.database, [ImageFile(location, 8, 2.0)], lambda new: [], lambda files: [new] * len(files)):
        pass
    cards.note()
    assert len(cards.partition()) == 2
    assert cards.partition() == cards.expected()


@pytest.mark.parametrize("seen_by", ["walk", "run"])
def test_a_file_with_another_time_and_the_same_bytes_keeps_its_event(cards, seen_by):
    """As copies and restored backups have; a run without cameras doesn't look when a photo was taken."""
    cards.add(("a", 0), ("a", 40)).note()
    before, (location, _) = sorted(cards.rows(*TIME)), sorted(cards.taken)
    touched = FileFacts(7, 2.0, location)
    if seen_by == "walk":
        files = [ImageFile(location, 7, 2.0)]
        for _ in register(cards.database, files, lambda new: [], lambda files: [touched] * len(files)):
            pass
    else:
        ids = dict(cards.rows(pictures.c.location, pictures.c.image_id))
        commit(
            cards.database, [Prediction(ImageRef(ids[location], location), Output("fox", 0.9), touched)], run_id="run 2"
        )
    assert sorted(cards.rows(*TIME)) == before
    assert (2.0, location) in cards.rows(pictures.c.modified, pictures.c.sha256)


def test_predicted_pictures_that_wait_are_counted_by_what_they_wait_for(cards):
    """Of the day and of all; a replaced photo waits until it is predicted, or looked at, again."""
    cards.add(("a", 0), ("a", 40))
    images = ListedImages(cards.database, cards.source)
    count = lambda: [count_waiting(images, one, day) for one in (WITHOUT_CAMERA, WITHOUT_EVENT) for day in (DAY, None)]  # noqa: E731
    assert count() == [2, 2, 2, 2]
    fill_facts(cards.database, cards.source, RULES, None)
    assert count() == [0, 0, 2, 2]
    place_all(cards.database, GAP)
    assert count() == [0, 0, 0, 0]
    location = sorted(cards.taken)[0]
    new = FileFacts(8, 2.0, "cd")
    for _ in register(cards.database, [ImageFile(location, 8, 2.0)], lambda new: [], lambda files: [new] * len(files)):
        pass
    cards.note()
    assert count() == [1, 1, 1, 1]
    cards.source.forgotten_before = DAY.end
    assert count() == [0, 0, 0, 0]


def test_what_is_forgotten_of_an_event_is_no_longer_of_it(cards):
    cards.add(("a", 0), ("a", 50), ("a", 100)).note()
    first, middle, last = (row[0] for row in sorted(cards.rows(pictures.c.id, pictures.c.taken_at), key=itemgetter(1)))
    mark_missing(cards.database, [first, middle, last])
    forget(cards.database, [Forgettable([], [middle], True)], ForgettableCounts())
    place_all(cards.database, GAP)
    assert sorted(cards.rows(events.c.id)) == [(first,), (last,)]
    cards.add(("a", 50)).note()
    assert cards.rows(events.c.id) == [(first,)]
    forget(cards.database, [Forgettable([], [first], True)], ForgettableCounts())
    cards.note()
    ((middle, ended_at),) = cards.rows(events.c.id, events.c.ended_at)
    assert ended_at == START + timedelta(seconds=100)
    assert sorted(cards.rows(pictures.c.id, pictures.c.event)) == sorted([(middle, middle), (last, middle)])
    first = middle
    mark_missing(cards.database, [middle])
    forget(cards.database, [Forgettable([], [first, last], True)], ForgettableCounts())
    assert cards.rows(events.c.id) == []


def test_an_event_whose_picture_has_changed_is_placed_by_the_next_run(cards):
    cards.add(("a", 0), ("a", 50), ("a", 500)).note()
    before = sorted(cards.rows(pictures.c.id, pictures.c.event))
    first = next(event for number, event in before if number != event)
    cards.database.transact(partial(dissolve_events, numbers=[first]))
    now = dict(cards.rows(pictures.c.id, pictures.c.event))
    assert now == {number: 0 if event == first else event for number, event in before}
    cards.note()
    assert sorted(cards.rows(pictures.c.id, pictures.c.event)) == before


def test_a_table_of_cameras_that_is_set_when_some_pictures_are_placed_counts_for_all(cards, monkeypatch):
    cards.add(("a", 0), ("a", 1000))
    fill_facts(cards.database, cards.source, RULES, None)
    shift, transact, waits = timedelta(hours=1), cards.database.transact, iter([True, True])
    monkeypatch.setattr(cards.database, "transact", lambda work: next(waits) and transact(work))
    with pytest.raises(StopIteration):  # as of a process that is killed
        place_all(cards.database, GAP, at_once=1)
    monkeypatch.undo()
    assert sorted(event for (event,) in cards.rows(pictures.c.event)) in ([0, 1], [0, 2])
    set_cameras(cards.database, [CameraPeriod(camera="a", shift=shift)])
    place_all(cards.database, GAP)
    starts = sorted(time for (time,) in cards.rows(events.c.started_at))
    assert starts == [START + shift, START + timedelta(seconds=1000) + shift]


class TableCards(Cards):
    """A project over a table or query of its own, whose column names the cameras; `photos` has been made."""

    rules = replace(RULES, camera_folder=None)

    def __init__(self, database, **listed):
        super().__init__(database, SourceSettings(**listed, time_zone="UTC", camera="camera"))
        self.source.camera_of = self.rules.camera

    def read(self, *seconds, of):
        """Predict photos of `of`, one that was taken at each of the seconds, which are their ids."""
        for second in seconds:
            taken = CaptureTime(START + timedelta(seconds=second))
            ref = ImageRef(str(second), f"/{of}/{second}.jpg")
            self.taken[ref.location] = taken
            read = Prediction(ref, Output("fox", 0.9), FileFacts(7, 1.0, "ab", None, taken))
            commit(self.database, [read], registered=False)
        return self

    def note(self, gap=GAP):
        update_list(self.source, ALL_DAYS)
        return super().note(gap, self.rules)

    def fill(self):
        fill_facts(self.database, self.source, self.rules, None)

    @property
    def events(self):
        """The first seconds of the events that are of the day, and how many continue."""
        found, continued = read_events(ListedImages(self.database, self.source), DAY)
        return sorted((event.started_at - START).total_seconds() for event in found), continued

    @property
    def cameras(self):
        return {one.camera: one.num_images for one in read_camera_rows(ListedImages(self.database, self.source))}


@pytest.fixture
def make_photos(execute):
    """make_photos("north", 0, 30): a table with photos of cam1, whose ids are the seconds at which they were taken."""

    def make(name, *seconds):
        execute(f"CREATE TABLE {name} (id integer, location varchar(99), added_at varchar(29), camera varchar(9))")
        for one in seconds:
            at = START + timedelta(seconds=one)
            execute(f"INSERT INTO {name} VALUES ({one}, '/{name}/{one}.jpg', '{at}', 'cam1')")

    return make


def test_the_time_of_a_column_counts_for_a_replaced_file_too_whatever_its_run_was_killed_after(database, make_photos):
    make_photos("photos", 0)
    cards = TableCards(database, table="photos", taken="added_at").read(0, of="photos")
    cards.note()
    before = cards.rows(*TIME)
    assert before[0][:2] == (START, "column")
    replaced = FileFacts(8, 2.0, "cd", None, CaptureTime(START - timedelta(days=365)))
    commit(database, [Prediction(ImageRef("0", "/photos/0.jpg"), Output("fox", 0.9), replaced)], registered=False)
    assert len(database.ask(partial(without_camera, source=cards.source))) == 1
    cards.note()
    assert [row[:2] for row in cards.rows(*TIME)] == [row[:2] for row in before]


def test_a_camera_that_is_corrected_in_the_table_has_its_own_events(database, make_photos, execute):
    make_photos("photos", 0, 30, 500)
    cards = TableCards(database, table="photos").read(0, 30, 500, of="photos")
    cards.note()
    assert (cards.cameras, cards.events) == ({"cam1": 3}, ([0, 500], 0))
    execute("UPDATE photos SET camera = ' cam2 ' WHERE id = 30")  # blanks around a name don't count
    cards.note()
    assert (cards.cameras, cards.events) == ({"cam1": 2, "cam2": 1}, ([0, 30, 500], 0))


def test_events_are_those_of_all_lists_and_cameras_of_what_is_listed_now(database, make_photos):
    make_photos("photos", -86_400, 0)
    TableCards(database, query="SELECT * FROM photos").read(-86_400, of="photos").note()
    set_cameras(database, [CameraPeriod(camera="cam1", shift=timedelta(seconds=5))])
    now = TableCards(database, query="SELECT * FROM photos WHERE 1 = 1").read(0, of="photos")
    now.note()
    make_photos("others", 7)
    TableCards(database, table="others").read(7, of="others").note()
    assert (now.events, now.cameras) == (([5], 0), {"cam1": 1})


def test_an_event_is_of_the_day_of_its_first_picture_that_is_listed(database, make_photos, execute):
    """Its first picture was of the day before, is gone from the table, or was forgotten."""
    midnight = 12 * 3600
    seconds = (-1, -midnight - 5, -midnight + 5, 100, 500)
    make_photos("photos", *seconds)
    cards = TableCards(database, table="photos").read(*seconds, of="photos")
    cards.note()
    assert cards.events == ([-1, 100, 500], 1)
    execute("DELETE FROM photos WHERE id = -1")
    cards.note(gap=200.0)
    assert cards.events == ([-1, 500], 1)
    cards.source.forgotten_before = datetime(2026, 11, 20, tzinfo=UTC)
    assert cards.events == ([-midnight - 5, -1, 500], 0)
    cards.source.forgotten_before = None
    back = CameraPeriod(camera="cam1", since=START - timedelta(hours=12), shift=timedelta(seconds=8))
    set_cameras(database, [back])  # the order is that of the clock put right
    cards.note(gap=200.0)
    assert cards.events == ([7, 508], 1)


def test_a_camera_that_no_database_can_hold_is_escaped_and_keeps_no_picture_waiting(cards):
    assert RULES.camera(None, "/photos/For\udceat/1.jpg") == "For\\udceat"
    assert replace(RULES, camera_folder=None).camera("a\0b", "/photos/1.jpg") == "a\\x00b"


def test_a_picture_that_is_listed_no_more_makes_no_run_look_at_all_again(cards):
    cards.add(("a", 0))
    left = cards.database.ask(partial(without_camera, source=cards.source))
    cards.database.transact(partial(give_up, numbers=left))
    assert (len(left), cards.database.ask(partial(without_camera, source=cards.source))) == (1, [])


def test_an_event_without_its_pictures_is_named_by_the_audit(cards, execute):
    cards.add(("a", 0), ("b", 40), ("b", 50)).note()
    before = list(audit_rows(cards.database))  # of rows that no run wrote
    execute("UPDATE infer_pictures SET event = 99 WHERE camera = 'a'")
    execute("UPDATE infer_pictures SET event_last = 99 WHERE camera = 'b' AND event = id")
    execute("UPDATE infer_pictures SET camera = 'c' WHERE camera = 'b' AND event <> id")
    told = [one for one in audit_rows(cards.database) if one not in before]
    assert [one.rpartition(":")[0] for one in told] == [
        "2 images of an event whose first picture is not of it, or is of another camera",
        "1 image of an event whose last picture is not of it",
    ]
    assert not [one for one in before if "event" in one]


def test_a_second_network_that_reads_a_picture_again_changes_nothing(cards):
    cards.add(("a", 0), ("a", 40)).note()
    before = cards.rows(*pictures.c), cards.rows(*events.c)
    cards.read(cards.taken, run="run 2")
    cards.note()
    assert (cards.rows(*pictures.c), cards.rows(*events.c)) == before


def test_without_the_settings_nothing_is_stored(cards):
    cards.taken = {}
    with_none = [DatedImage(ImageFile("/photos/a/1.jpg", 7, 1.0), START)]
    for _ in register(cards.database, [one.file for one in with_none], lambda new: with_none):
        pass
    commit(cards.database, [Prediction(ImageRef("1", "/photos/a/1.jpg"), Output("fox", 0.9), FileFacts(7, 1.0, "ab"))])
    assert cards.rows(pictures.c.camera, pictures.c.taken_from, pictures.c.event) == [(None, None, None)]


def test_what_is_shown_of_an_event_says_how_many_there_were_at_least(cards, add_model):  # noqa: F811
    """By hand: two foxes and a badger in 40 s, then another fox; a picture without a time is an event of its own."""
    add_model(MODEL.name, MODEL.model_id, START)
    cards.add(("a", 0), ("a", 20), ("a", 40), ("a", 300), ("b", None))
    photos = list(cards.taken)
    ids = dict(cards.rows(pictures.c.location, pictures.c.image_id))
    one, two, _, four, five = (ids[photo] for photo in photos)
    for label, of in (("badger", photos[1]), ("hare", photos[4])):
        cards.read({of: cards.taken[of]}, label)
    cards.note()
    found, continued = read_events(ListedImages(cards.database, cards.source), DAY)
    told = [
        (event.camera, event.started_at and (event.started_at - START).seconds, event.num_images, shown(event))
        for event in found
    ]
    assert (told, continued) == (
        [
            ("a", 0, 3, {"fox": (1, 2, one), "badger": (1, 1, two)}),
            ("a", 300, 1, {"fox": (1, 1, four)}),
            ("b", None, 1, {"hare": (1, 1, five)}),
        ],
        0,
    )
    view = "SELECT camera, label, count, images, best_image FROM infer_shown_events"
    with cards.database.read() as connection:
        rows = sorted(tuple(row) for row in connection.exec_driver_sql(view))
    assert rows == sorted((camera, label, *facts) for camera, _, _, labels in told for label, facts in labels.items())


def shown(event):
    return {one.label: (one.count, one.images, one.best_image) for one in event.labels}


def test_a_clock_that_jumps_back_by_a_year_against_the_order_of_arrival_is_named(cards, execute):
    year = 365 * 86_400
    for camera, seconds in {"reset": (0, 60, -2 * year), "late": (0, -20 * 86_400, 60)}.items():
        cards.add(*((camera, second) for second in seconds)).note()
    for day, (number,) in enumerate(sorted(cards.rows(pictures.c.id))):
        execute(f"UPDATE infer_pictures SET first_seen = {1_700_000_000 + day * 86_400} WHERE id = {number}")
    images = ListedImages(cards.database, cards.source)
    assert find_jumps(images, CameraClocks(())) == {"reset": START - timedelta(seconds=2 * year)}
    right = [CameraPeriod(camera="reset", until=START - timedelta(days=365), shift=timedelta(days=730))]
    assert find_jumps(images, CameraClocks(right)) == {}


def test_a_clock_that_jumps_back_by_a_year_within_a_card_is_named(cards, execute):
    """A card comes as a whole; one that was filled over two years has no such gap."""
    year = 365 * 86_400
    long = range(0, 2 * year, year // 4)
    for camera, seconds in {"reset": (0, 60, -2 * year, 60 - 2 * year), "long": long}.items():
        cards.add(*((camera, second) for second in seconds)).note()
    execute("UPDATE infer_pictures SET first_seen = 1700000000")
    images = ListedImages(cards.database, cards.source)
    assert find_jumps(images, CameraClocks(())) == {"reset": START - timedelta(seconds=2 * year)}


def test_the_first_and_last_picture_are_found_by_the_clock_put_right(cards):
    """The clock was reset by a year after 30 s, and stands a minute later again."""
    year = 365 * 86_400
    cards.add(("a", 0), ("a", 30), ("a", 60 - year), ("b", 5)).note()
    reset = CameraPeriod(camera="a", until=START - timedelta(days=1), shift=timedelta(seconds=year))
    images = ListedImages(cards.database, cards.source)
    set_cameras(cards.database, [CameraPeriod(camera="b", latitude=1, longitude=1), reset])
    found = {(camera, period == reset): ends for (camera, period), ends in read_ends(images).items()}
    at = [START + timedelta(seconds=second) for second in (0, 5, 30, 60)]
    assert found == {("a", False): (at[0], at[2]), ("a", True): (at[3], at[3]), ("b", False): (at[1], at[1])}
    images.source.forgotten_before = DAY.end
    assert read_ends(images) == {}


def test_a_camera_is_found_by_the_name_that_is_stored_whatever_the_column_holds(cards, execute):
    """A number, a padded text, a text that is too long to be stored whole, and nothing."""
    long = "x" * 600
    execute("CREATE TABLE photos (id INTEGER PRIMARY KEY, added_at VARCHAR(30), a DOUBLE PRECISION, b CHAR(8), c TEXT)")
    execute(f"INSERT INTO photos VALUES (1, '{START}', 1.0, 'north', '{long}'), (2, '{START}', NULL, NULL, NULL)")
    shared = {"table": "photos", "id": "id", "location": "id", "time": "added_at", "time_zone": "UTC"}
    for column in ("a", "b", "c"):
        settings = SourceSettings(**shared, camera=column)
        source = source_of(cards.database, settings)
        source.camera_of = replace(RULES, camera_folder=None).camera
        update_list(source, ALL_DAYS)
        names = sorted(name for (name,) in cards.rows(pictures.c.camera))
        assert (names[0], len(names)) == ("", 2)
        assert names[1] == names[1].strip()
        sources = [source_of(cards.database, settings, camera=name) for name in (*names, "\udcff")]
        assert [ListedImages(cards.database, source).count(DAY) for source in sources] == [1, 1, 0]


def test_a_photo_that_could_not_be_read_when_it_was_registered_gets_its_time_from_the_run_that_reads_it(cards):
    file = ImageFile("/photos/a/1.jpg", 7, 1.0)
    for _ in register(cards.database, [file], lambda new: [DatedImage(one, START, camera="a") for one in new]):
        pass
    cards.taken[file.location] = CaptureTime(START)
    cards.read(cards.taken)
    cards.note()
    assert cards.rows(pictures.c.camera, *TIME) == [("a", START, "exif", 1)]


def test_a_clock_of_the_first_or_the_last_year_is_told_without_an_error(cards, execute):
    cards.add(("a", -int((START - datetime(1, 1, 2)).total_seconds()))).note()
    cards.add(("a", 0)).note()
    execute(f"UPDATE infer_pictures SET first_seen = first_seen + 86400 WHERE id = {max(cards.rows(pictures.c.id))[0]}")
    images = ListedImages(cards.database, cards.source)
    assert find_jumps(images, CameraClocks(())) == {}
    period = CameraPeriod.model_validate({"camera": "a", "to": "9999-12-31", "shift": "365d"})
    assert period.put_right(period.until) == period.until
    with pytest.raises(ValueError, match="Input should be a valid datetime"):
        CameraPeriod.model_validate({"camera": "a", "to": "9999-12-31T24:00"})


def test_rows_of_the_users_table_are_copies_until_the_first_is_forgotten(database, make_photos, add_model, execute):  # noqa: F811
    add_model(MODEL.name, MODEL.model_id, START)
    make_photos("photos", 0, 1)
    execute(f"UPDATE photos SET camera = 'cam2', added_at = '{START}' WHERE id = 1")
    cards = TableCards(database, table="photos", taken="added_at").read(0, 1, of="photos")
    cards.note()
    columns = pictures.c.camera, pictures.c.event, pictures.c.copy_of
    assert sorted(cards.rows(*columns)) == [("cam1", 1, None), ("cam2", IS_COPY, 1)]
    images = ListedImages(database, cards.source)
    assert read_copies(images) == [CopiedCamera("cam2", "cam1", 1, 0)]
    execute("DELETE FROM photos WHERE id = 0")
    cards.note()
    parts = list(of_missing(database, cards.source, list))
    assert forget(database, parts, ForgettableCounts.of(parts)).predictions == 1
    cards.note()
    assert cards.rows(*columns) == [("cam2", 2, None)]
    assert read_copies(images) == []
