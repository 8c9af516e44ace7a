"""A notice is told once by each teller of changes, again after a week of holding, and when it is over."""

from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import select, update

from infer_app.tables.listing.stored_notices import (
    MAIL,
    WEBHOOK,
    Notice,
    event,
    hold,
    mark_told,
    read_current,
    read_due,
    record,
)
from infer_app.tables.results.schema import notices

KINDS = ("unreadable", "silent camera")
SILENT = [Notice("silent camera", f"{camera} is silent", subject=camera) for camera in ("cam1", "Cam1 ", "cam2")]


@pytest.fixture
def tell(database):
    """Tell what is due, as a mail that arrives; return its lines."""

    def told(teller=MAIL):
        due = database.ask(partial(read_due, teller=teller))
        database.transact(partial(mark_told, teller=teller, told=due))
        return [notice.line.removeprefix("attention: ") for notice in due]

    return told


@pytest.fixture
def age(database):
    """Let everything be some days older."""

    def let_pass(**time):
        columns = ("since", "until", "mailed_at", "posted_at")
        with database.write() as connection:
            for row in connection.execute(select(notices)).all():
                older = {name: getattr(row, name) and getattr(row, name) - timedelta(**time) for name in columns}
                its = notices.c.kind == row.kind, notices.c.subject == row.subject
                connection.execute(update(notices).where(*its).values(older))

    return let_pass


@pytest.fixture
def holding(database):
    return lambda *found: database.transact(partial(hold, found=found, kinds=KINDS))


@pytest.fixture
def current(database):
    return lambda: [notice.text for notice in database.ask(read_current)]


def test_what_holds_is_told_once_by_each_again_after_a_week_and_when_it_is_over(holding, tell, age, current):
    holding(*SILENT)
    assert sorted(tell()) == sorted(notice.text for notice in SILENT)
    age(days=6)
    holding(*SILENT)
    assert (tell(), len(tell(WEBHOOK)), tell(WEBHOOK)) == ([], 3, [])
    age(days=1)
    holding(*SILENT[1:])
    over, *again = sorted(tell(), key=lambda line: not line.startswith("over: "))
    assert over == "over: cam1 is silent"
    assert sorted(again) == ["Cam1  is silent", "cam2 is silent"]
    assert sorted(current()) == ["Cam1  is silent", "cam2 is silent"]
    assert tell() == []


def test_what_was_over_before_it_was_told_is_told_as_over_and_is_new_when_it_begins_again(holding, tell, age):
    holding(SILENT[0])
    age(hours=1)
    holding()
    assert tell() == ["over: cam1 is silent"]
    holding(SILENT[0])
    assert tell() == ["cam1 is silent"]


def test_what_changes_is_told_anew_but_not_where_its_key_stays(holding, tell):
    holding(Notice("unreadable", "a"), Notice("silent camera", "for 3 days", key="cam"))
    tell()
    holding(Notice("unreadable", "b"), Notice("silent camera", "for 4 days", key="cam"))
    assert tell() == ["b"]


def test_what_happened_is_told_once_and_shown_for_a_week(database, tell, age, current):
    database.transact(partial(record, found=[event("wrong clock", "1 image", "walk 1")]))
    database.transact(partial(record, found=[event("wrong clock", "2 images", "walk 1")]))  # found by the same walk
    assert (tell(), tell(), current()) == (["2 images"], [], ["2 images"])
    age(days=8)
    assert (tell(), current()) == ([], [])


def test_what_is_stored_anew_while_it_is_told_is_not_taken_for_told(database, holding, tell):
    holding(Notice("unreadable", "a"))
    due = database.ask(partial(read_due, teller=MAIL))
    holding(Notice("unreadable", "b"))
    database.transact(partial(mark_told, teller=MAIL, told=due))
    assert tell() == ["b"]


def test_kinds_that_a_walk_does_not_look_for_stay(database, holding, current, age):
    database.transact(partial(record, found=[Notice("gap", "none came")]))
    holding()
    assert current() == ["none came"]
    age(days=40)
    holding()
    assert current() == ["none came"]


def test_what_is_over_for_a_month_is_deleted(database, holding, age):
    holding(SILENT[0])
    holding()
    age(days=31)
    holding()
    assert database.ask(lambda connection: connection.execute(select(notices)).all()) == []


def test_what_two_models_find_alike_is_stored_once_and_what_happens_again_is_not_told_again(database, tell):
    few = event("few images", "2 images", "2026-11-20")
    for _ in range(2):
        database.transact(partial(record, found=[few, few]))
    assert (tell(), tell()) == (["2 images"], [])
    database.transact(partial(record, found=[event("few images", "2 images", "2026-11-20")]))
    assert tell() == []


def test_what_was_told_by_a_clock_that_was_ahead_is_told_again(holding, tell, age):
    holding(SILENT[0])
    assert len(tell()) == 1
    age(days=-400)
    assert len(tell()) == 1
    holding()
    assert tell() == ["over: cam1 is silent"]


def test_what_is_over_while_it_is_told_is_told_as_over(database, holding, tell):
    holding(SILENT[0])
    due = database.ask(partial(read_due, teller=MAIL))
    holding()
    database.transact(partial(mark_told, teller=MAIL, told=due))
    assert tell() == ["over: cam1 is silent"]


def test_what_a_walk_of_other_folders_finds_stays(database, current):
    one, other = (Notice("unreadable", f"{folder} can't be read", subject=folder) for folder in ("a", "b"))
    database.transact(partial(hold, found=[one], kinds=KINDS, subject="a"))
    database.transact(partial(hold, found=[other], kinds=KINDS, subject="b"))
    database.transact(partial(hold, found=[], kinds=KINDS, subject="b"))
    assert current() == ["a can't be read"]
