"""The rows of a day that can have no result, because results are kept by id: runs leave them out and name them."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Subquery, case, func, select

from infer_app.base.day import Day
from infer_app.base.errors import UnusableIds
from infer_app.base.locations import as_location, shown
from infer_app.tables.engine.connect import backend_of

MAX_SHARED = 1000  # ids that several rows have; where there are more, the column is a wrong one
NUM_NAMED = 3  # rows of each kind that messages name
NEEDED = "name a column, or write a query, that gives every image an id of its own"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The rows of a day without an id, with one that is too long or with that of another row. They stay pending."""

    max_chars: int | None = None  # of an id; None for no limit
    shared: frozenset[str] = frozenset()  # ids that several rows have
    text: str = ""  # which rows, for messages; empty if there are none

    def has(self, image_id: str | None) -> bool:
        """Return whether a row with this id is left out."""
        is_long = image_id is not None and self.max_chars is not None and len(image_id) > self.max_chars
        return image_id is None or is_long or image_id in self.shared


def read_left_out(connection: Connection, listed: Subquery, key: str, day: Day, max_chars: int | None) -> LeftOut:
    """Return the rows that are left out of `listed`: id, location, time and id as text of a day's images.

    One query if there are none. `key` names the setting. Raises UnusableIds if more than MAX_SHARED ids are those of
    several rows, or if a collation takes ids for equal, so that pages could lose images.
    """
    backend, identity = backend_of(connection), listed.c[0]
    text = backend.exact(listed.c[3])
    is_long = backend.char_length(text) > (max_chars or 0)
    numbers = [func.count(), func.count(identity), func.count(text.distinct()), func.count(identity.distinct())]
    longs = [func.count(case((is_long, 1)))] if max_chars else []
    rows, known, distinct, told_apart, *long = connection.execute(select(*numbers, *longs).select_from(listed)).one()
    if told_apart < distinct:
        same = func.min(text), func.max(text)
        of_one_id = select(*same).select_from(listed).group_by(identity).having(same[0] != same[1]).limit(1)
        pair = connection.execute(of_one_id).one()
        raise UnusableIds(
            f"{key}: of {rows:,} images of {day} {distinct - told_apart:,} have an id that the column's collation takes"
            " for another's: they differ in case, accents or blanks only, such as "
            + " and ".join(_named(connection, listed, text.in_(pair))),
            'compare them exactly: [source] query = "SELECT … COLLATE … AS …"',
        )
    kinds: list[tuple[int, str, ColumnElement[bool]]] = [(rows - known, "without an id", identity.is_(None))]
    kinds += [(number, f"with an id of more than {max_chars} characters", is_long) for number in long]
    shared: dict[str, int] = {}
    if distinct < known:
        by_id = select(text, func.count()).where(identity.is_not(None)).group_by(text).having(func.count() > 1)
        shared = {row[0]: row[1] for row in connection.execute(by_id.limit(MAX_SHARED + 1))}
        if len(shared) > MAX_SHARED:
            raise UnusableIds(f"{key}: of {rows:,} images of {day} {known - distinct:,} have the id of another", NEEDED)
        kinds.append((sum(shared.values()), "with an id that several have", text.in_(sorted(shared)[:1])))
    found = [
        f"{number:,} {what} ({', '.join(_named(connection, listed, condition))})"
        for number, what, condition in kinds
        if number
    ]
    described = f"{key}: of {rows:,} images of {day} some are left out: {'; '.join(found)}"
    return LeftOut(max_chars, frozenset(shared), described if found else "")


def _named(connection: Connection, listed: Subquery, condition: ColumnElement[bool]) -> Iterator[str]:
    """Yield the location of some rows, or the time of one without a location."""
    rows = select(listed).where(condition).order_by(listed.c[2], listed.c[1]).limit(NUM_NAMED)
    for _, location, time, _ in connection.execute(rows):
        yield f"{shown(as_location(location))!r:.200}" if location else f"that of {time}"
