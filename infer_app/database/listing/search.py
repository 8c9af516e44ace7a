"""Finding one image among all of the source."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import or_

from infer_app.database.engine.column_types import AsText
from infer_app.database.listing.source import Source
from infer_app.database.listing.time_column import read_time
from infer_app.day import Day
from infer_app.locations import as_location

SOME = 5  # shown to a person


def find_by_id(source: Source, image_id: str, day: Day | None = None) -> list[tuple[str, datetime | None]]:
    """Location and time, UTC, of the images of an id, which should be one: some of them where it is shared.

    Without a day the whole source is read.
    """
    with source.database.read() as connection:
        among = source.listed() if day is None else source.in_day(connection, day)
        rows = connection.execute(among.where(source.id_text == image_id).limit(SOME)).all()
    return [(as_location(row[1]), read_time(row[2], source.zone)) for row in rows]


def find_similar(source: Source, text: str) -> list[tuple[str, str]]:
    """(id, location) of some images whose id begins with `text`, or whose location holds it."""
    begins, holds = (
        source.id_text.startswith(text, autoescape=True),
        AsText(source.location).contains(text, autoescape=True),
    )
    with source.database.read() as connection:
        rows = connection.execute(source.listed().where(or_(begins, holds)).limit(SOME)).all()
    return [(row[3], as_location(row[1])) for row in rows]
