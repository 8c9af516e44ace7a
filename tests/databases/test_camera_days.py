"""Days of cameras and what is wrong with them, by rows of every database."""

from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import delete, insert, select

from infer_app.base.day import Day, naive
from infer_app.base.domain import CaptureTime, FileFacts, ImageRef, Output, PictureFigures, Prediction
from infer_app.tables.cameras.camera_days import (
    CameraDay,
    CameraDays,
    DayResults,
    count_blank,
    read_arrivals,
)
from infer_app.tables.cameras.periods import CameraClocks, CameraPeriod, set_cameras
from infer_app.tables.day.ill_cameras import IllCameraReader
from infer_app.tables.listing.stored_notices import Notice, record
from infer_app.tables.results.schema import models, pictures
from tests.conftest import MODEL
from tests.support.query_plans import recorded
from tests.support.results import broken, commit, register_rows

LAST = Day.of(date(2026, 11, 20), "Europe/Berlin")
USUAL = PictureFigures(100.0, 50.0, 12.0, 0)


class Camera:
    """Rows of pictures as nights leave them; `ago` counts days before LAST, on whose morning after they came."""

    def __init__(self, database):
        self.database, self.number = database, 0
        with database.write() as connection:
            row = {"id": MODEL.model_id, "name": MODEL.name, "manifest": {"output": {"kind": "classification"}}}
            connection.execute(
                insert(models), row | dict.fromkeys(("created_at", "in_use_since"), datetime(2026, 1, 1))
            )

    def add(self, ago, *figures, camera="a", hour=12, **more):
        """Add a picture for each of some figures, all of which have another look unless it is given."""
        day = LAST.before(ago)
        seen = {"first_seen": (day.end + timedelta(hours=3)).timestamp(), "camera": camera}
        at = (day.start + timedelta(hours=hour)).replace(tzinfo=None)
        rows = []
        for one in figures:
            self.number += 1
            known = dict.fromkeys(PictureFigures._fields) if one is None else one._asdict()
            known |= {"look": self.number} if one is not None and not one.look else {}
            rows.append(
                {"id": self.number, "location": f"/{camera}/{self.number}.jpg", "added_at": at} | seen | known | more
            )
        with self.database.write() as connection:
            register_rows(connection, *rows)
        return [str(row["id"]) for row in rows]

    def predict(self, ids, label):
        commit(self.database, [Prediction(ImageRef(one, f"/{one}.jpg"), Output(label, 0.9)) for one in ids])


@pytest.fixture
def camera(database):
    return Camera(database)


def test_the_days_of_a_camera_are_summed_up_by_day_with_what_was_not_decoded(camera, tables):
    dark, bright = USUAL._replace(brightness=3.0), USUAL._replace(brightness=250.0)
    camera.add(3, USUAL, USUAL, dark, bright, None, USUAL._replace(look=-(2**63)), USUAL._replace(look=-(2**63)))
    commit(tables.database, bad=broken(*camera.add(2, None), *camera.add(2, USUAL)))
    camera.add(29, USUAL)
    camera.add(0, USUAL, hour=23.99)
    camera.add(0, USUAL._replace(contrast=20.0, sharpness=4.0), camera="b")
    camera.add(1, USUAL, camera="")
    of = {"contrast": 50.0, "sharpness": 12.0}
    expected = [
        CameraDay("a", date(2026, 11, 17), 7, 0, 6, 1, 1, 4, 1, **of, lowest=-(2**63), highest=2),
        CameraDay("a", date(2026, 11, 18), 2, 1, 1, 0, 0, 1, 0, **of, lowest=9, highest=9),
        CameraDay("a", date(2026, 11, 20), 1, 0, 1, 0, 0, 1, 0, **of, lowest=11, highest=11),
    ]
    found = CameraDays(tables).read(LAST, [MODEL.model_id])
    assert found == {"a": expected, "b": [CameraDay("b", LAST.date, 1, 0, 1, 0, 0, 1, 0, 20.0, 4.0, 12, 12)]}
    assert all(type(value) in (str, date, int, float) for day in found["a"] for value in day)


def test_what_models_say_of_days_is_counted_by_camera(camera, tables):
    camera.predict(camera.add(1, USUAL, USUAL), "deer")
    ids = camera.add(0, *[USUAL] * 4)
    camera.predict(ids[:2], "deer")
    camera.predict(ids[2:3], "cat")
    none = Prediction(ImageRef(ids[3], "/none.jpg"), Output(objects=()))
    commit(tables.database, [none, *(Prediction(ImageRef(ids[0], "/0.jpg"), Output("car", 0.5)),)][:1])
    commit(tables.database, [Prediction(ImageRef(ids[0], "/0.jpg"), Output("car", 0.5))], model_id="another")
    camera.predict(camera.add(0, USUAL, camera="b"), "cat")
    of_a = DayResults("a", LAST.date, 4, 3, pytest.approx(0.9), {"deer": 2, "cat": 1, "": 1})
    before = DayResults("a", LAST.before(1).date, 2, 2, pytest.approx(0.9), {"deer": 2})
    other = DayResults("a", LAST.date, 1, 1, 0.5, {"car": 1})
    of_b = DayResults("b", LAST.date, 1, 1, pytest.approx(0.9), {"cat": 1})
    ids = [MODEL.model_id, "another"]
    of_all = {("a", MODEL.model_id): [before, of_a], ("a", "another"): [other], ("b", MODEL.model_id): [of_b]}
    assert CameraDays(tables).read_results(LAST, ids) == of_all
    assert CameraDays(tables).read_results(LAST, ids[:1], "b", "c") == {("b", MODEL.model_id): [of_b]}


@pytest.mark.parametrize("since", [1, 14])
def test_unusual_labels_are_told_since_their_first_day(camera, tables, since):
    for ago in range(28, -1, -1):
        camera.predict(camera.add(ago, *[USUAL] * 6), "car" if ago <= since else "deer")
        camera.predict(camera.add(ago, *[USUAL] * 6, camera="b"), "deer")
    assert ill(tables)[0] == [("camera results", "a", str(LAST.before(since).date))]
    assert ill(tables, LAST.before(since))[0] == []
    with tables.database.write() as connection:  # with fewer than two weeks to compare with
        connection.execute(delete(pictures).where(pictures.c.added_at < naive(LAST.before(since + 13).start)))
    assert ill(tables)[0] == []


@pytest.mark.parametrize("subject", ["a", ""])
def test_unusual_labels_that_were_told_hold_whichever_days_tell_first_which_may_be(camera, tables, subject):
    for ago in {*range(28, -1, -1)} - {28, 25}:  # which are two of six that are looked at first
        camera.predict(camera.add(ago, *[USUAL] * 6), "car" if ago <= 11 else "deer")
    assert ill(tables)[0] == []
    told = Notice("camera results", "unusual", subject=subject, since=LAST.before(10).end)
    tables.database.transact(lambda connection: record(connection, [told]))
    assert ill(tables)[0] == [("camera results", "a", str(LAST.before(11).date))]


def test_each_day_is_read_once(camera, tables):
    for ago in (30, 5, 0):
        camera.add(ago, USUAL)
    statements, days = recorded(tables.database), CameraDays(tables)

    def read(ago, *model_ids):
        statements.clear()
        found = days.read(LAST.before(ago), model_ids).get("a", ())
        return [(LAST.date - one.date).days for one in found], sum("GROUP BY" in sql for sql, *_ in statements)

    assert read(2) == ([30, 5], 29)
    assert read(1) == ([5], 1)
    assert read(0) == ([5, 0], 1)
    assert read(1) == ([5], 0)
    assert read(0, MODEL.model_id) == ([5, 0], 29)


def test_days_of_23_and_25_hours_have_what_is_of_them(camera, tables):
    """Clocks are set back on 25 October, and forward on 29 March."""
    for last, hours in ((date(2026, 10, 25), 25), (date(2026, 3, 29), 23)):
        day = Day.of(last, "Europe/Berlin")
        ago = (LAST.date - last).days
        for hour in (0, hours - 0.01, hours + 0.01):
            camera.add(ago, USUAL, hour=hour)
        sums = CameraDays(tables).read(Day.of(last + timedelta(days=1), "Europe/Berlin"), [])["a"]
        assert [(one.date, one.num_images) for one in sums][-2:] == [(day.date, 2), (last + timedelta(days=1), 1)]


def test_arrivals_are_by_when_images_came_within_a_day_of_the_last_ones(camera, tables):
    taken = datetime(2026, 11, 20, 12)
    camera.add(2, USUAL, taken_at=taken)
    camera.add(0, USUAL, taken_at=taken)
    camera.add(0, USUAL, taken_at=taken - timedelta(days=3))
    camera.add(0, USUAL, camera="b")
    periods = [CameraPeriod(camera="a", until=taken - timedelta(days=1), shift=timedelta(hours=1))]
    found = read_arrivals(tables, CameraClocks(periods), "Europe/Berlin")
    assert [one[1:3] for one in found["a"]] == [(2, date(2026, 11, 19)), (0, date(2026, 11, 21))]
    came = datetime(2026, 11, 21, 2)
    assert found["a"][-1][3:] == (came, 2, taken - timedelta(days=3, hours=-1), taken)
    assert found["b"] == [("b", 0, date(2026, 11, 21), came, 1, came, came)]


def ill(tables, last=LAST):
    found = IllCameraReader(tables).find(last, [MODEL.model_id])
    return [(one.kind.name, one.camera, str(one.since)) for one in found.found], found.num_cameras


def test_cameras_are_ill_by_their_rows_unless_they_are_retired(camera, tables):
    for ago in range(20, -1, -1):
        camera.add(ago, *[USUAL] * 8)
        camera.add(ago, *[USUAL._replace(brightness=2.0 if ago < 2 else 90.0)] * 8, camera="dark")
        if ago > 3:
            camera.add(ago, *[USUAL] * 8, camera="mute")
    expected = [("dark camera", "dark", "2026-11-19"), ("silent camera", "mute", "2026-11-17")]
    assert ill(tables) == (expected, 3)
    assert ill(tables, LAST.before(5))[0] == expected[1:]  # which is by arrival
    moved = datetime(2026, 5, 1)
    periods = [CameraPeriod(camera="mute", until=moved, retired=True), CameraPeriod(camera="mute", since=moved)]
    set_cameras(tables.database, [CameraPeriod(camera="dark", retired=True), *periods])
    assert ill(tables)[0] == expected[1:]


def test_a_camera_that_is_to_bring_images_daily_is_silent_after_one_day(camera, tables):
    for ago in (2, 1, 0):
        camera.add(ago, USUAL)
        for name in ("b", "c") if ago else ():
            camera.add(ago, USUAL, camera=name)
    assert ill(tables)[0] == []
    set_cameras(tables.database, [CameraPeriod(camera="b", expect="daily")])
    assert ill(tables)[0] == [("silent camera", "b", "2026-11-20")]
    tables.source.expects_daily = True
    assert ill(tables)[0] == [("silent camera", one, "2026-11-20") for one in "bc"]


@pytest.mark.parametrize("subject", ["its own", ""])
def test_a_camera_is_ill_for_as_long_as_it_differs_from_the_days_before_it_was_told(camera, tables, subject):
    for ago in range(70, -1, -1):
        camera.add(ago, *[USUAL] * 8)
        camera.add(ago, *[USUAL._replace(brightness=2.0 if 2 <= ago < 40 else 90.0)] * 8, camera="dark")
        if ago >= 40:
            camera.add(ago, *[USUAL] * 8, camera="mute")
    assert ill(tables, LAST.before(2))[0] == []
    told = [
        Notice(f"{kind} camera", "", subject=subject and name, key="", since=LAST.before(39).end)
        for kind, name in (("dark", "dark"), ("silent", "mute"))
    ]
    tables.database.transact(lambda connection: record(connection, told))
    dark, mute = ("dark camera", "dark", "2026-10-12"), ("silent camera", "mute", "2026-10-12")
    assert ill(tables, LAST.before(2)) == ([dark, mute], 3)
    assert ill(tables, LAST.before(1))[0] == [dark, mute]
    assert ill(tables)[0] == [mute]  # the other was well for two days


@pytest.mark.parametrize(("label", "is_flood"), [("Blank", True), ("deer", False)])
def test_many_images_are_a_flood_if_they_are_blank(camera, tables, label, is_flood):
    for ago in range(10, 0, -1):
        camera.predict(camera.add(ago, *[USUAL] * 8), "deer")
    camera.predict(camera.add(0, *[USUAL] * 5), "deer")
    camera.predict(camera.add(0, *[USUAL] * 90), label)
    assert ill(tables)[0] == ([("flooded camera", "a", "2026-11-20")] if is_flood else [])
    assert count_blank(tables, LAST, "a") == (90 if is_flood else 0, 95)


def test_figures_of_a_picture_are_stored_with_its_facts_once_and_anew_for_another_file(database, register):
    register("/1.jpg", "/2.jpg")
    columns = [pictures.c[name] for name in PictureFigures._fields]

    def read(figures, size=7, taken=None):
        facts = FileFacts(size, 1.0, f"{size:064}", None, taken, figures)
        commit(database, [Prediction(ImageRef("1", "/1.jpg"), Output("cat", 0.9), facts)])
        with database.read() as connection:
            return [tuple(row) for row in connection.execute(select(*columns).order_by(pictures.c.id))]

    unknown = (None,) * 4
    assert read(None) == [unknown, unknown]
    first = PictureFigures(1.5, 2.25, 3.125, -(2**63))
    assert read(first, taken=CaptureTime(datetime(2026, 11, 20, 12, tzinfo=UTC).replace(tzinfo=None), None)) == [
        first,
        unknown,
    ]
    assert read(USUAL) == [first, unknown]  # of another model, or a recipe that decodes it otherwise
    assert read(USUAL, 8) == [USUAL, unknown]
    assert read(None, 9) == [unknown, unknown]  # a tiny one
    assert read(None, 9) == [unknown, unknown]


def test_a_picture_of_a_users_table_has_its_figures_from_its_first_result(database):
    facts = FileFacts(7, 1.0, "ab" * 32, None, None, USUAL)
    commit(database, [Prediction(ImageRef("x", "/x.jpg"), Output("cat", 0.9), facts)], registered=False)
    with database.read() as connection:
        assert connection.execute(select(pictures.c.brightness, pictures.c.look)).one() == (100.0, 0)
