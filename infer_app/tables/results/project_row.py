"""Read and write the one row of the project: where it is, what its last run read, from which time on images count."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, exists, or_, select, update

from infer_app.tables.engine.connect import Database
from infer_app.tables.results.runs import refuse_during_runs
from infer_app.tables.results.schema import pictures, predictions, project_table, rejections


class DatabaseOwner(NamedTuple):
    """Name the project that a database belongs to."""

    id: str
    folder: str | None  # of the settings of the last command that wrote; None before the first one
    host: str | None  # of that command


def read_owner(connection: Connection) -> DatabaseOwner:
    return DatabaseOwner(*connection.execute(select(*(project_table.c[name] for name in DatabaseOwner._fields))).one())


def record_owner(database: Database, owner: DatabaseOwner) -> None:
    database.transact(lambda connection: connection.execute(update(project_table).values(owner._asdict())))


class ReadFrom(NamedTuple):
    """Tell what a run reads its images from; all are None before the first one that lists the user's table."""

    source: str | None  # as `Source.described` has it
    source_url: str | None  # without a password
    base: str | None  # the folder that relative locations start at, as this machine sees it


def read_source(connection: Connection) -> ReadFrom:
    return ReadFrom(*connection.execute(select(*(project_table.c[name] for name in ReadFrom._fields))).one())


def record_source(database: Database, now: ReadFrom) -> None:
    database.transact(lambda connection: connection.execute(update(project_table).values(now._asdict())))


def read_settings(connection: Connection) -> str | None:
    """Return the settings that the times of images, and the list of the user's table, were read by; None before."""
    settings: str | None = connection.scalar(select(project_table.c.read_by))
    return settings


def keep_settings(connection: Connection, read_by: str) -> None:
    connection.execute(update(project_table).values(read_by=read_by))


def read_last_pictures(connection: Connection, count: int) -> Sequence[Row[Any]]:
    """Return id, image_id, location and size of the last listed pictures with a result, a row for each sha256."""
    columns = [pictures.c[name] for name in ("id", "image_id", "location", "size")]
    has_result = or_(*(exists().where(table.c.picture == pictures.c.id) for table in (predictions, rejections)))
    its = pictures.c.registered == 0, pictures.c.unlisted_since.is_(None), has_result
    last = select(*columns).where(*its).order_by(pictures.c.id.desc()).limit(count).subquery()
    joined = last.outerjoin(predictions, predictions.c.picture == last.c.id)
    rows = select(last, predictions.c.sha256).select_from(joined)
    return connection.execute(rows.order_by(last.c.id.desc())).all()


def read_forgotten_before(database: Database) -> datetime | None:
    """Return the time (UTC) from which on images count, None for all."""
    latest = database.ask(lambda connection: connection.scalar(select(project_table.c.forgotten_before)))
    return None if latest is None else latest.replace(tzinfo=UTC)


def forget_before(database: Database, time: datetime) -> None:
    """Let the images that are older than a time (UTC) belong to no day any more.

    Raises DayHeld while a run is active, which would go on writing their results.
    """
    known, new = project_table.c.forgotten_before, time.replace(tzinfo=None)

    def store(connection: Connection) -> None:
        refuse_during_runs(connection)
        connection.execute(update(project_table).where(or_(known.is_(None), known < new)).values(forgotten_before=new))

    database.transact(store)
