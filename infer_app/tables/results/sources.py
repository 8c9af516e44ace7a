"""The sources that runs have taken images from, as infer_sources records them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, insert, or_, select, update

from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.engine.column_types import UtcNow
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.runs import refuse_during_runs
from infer_app.tables.results.schema import OUR_IMAGES, OURS, database_id, sources


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """What tells two sources apart."""

    database: str | None  # its URL without a password; None: the one that holds our tables
    relation: str  # the table, or the query
    id_column: str
    location_column: str | None  # None where a column holds the bytes

    @classmethod
    def of(cls, settings: SourceSettings, listing: Database, results: Database) -> SourceIdentity:
        """Return that of a source in `listing` whose results are in `results`."""
        url = None if listing.shown_url == results.shown_url else listing.shown_url
        relation = settings.table if settings.query is None else settings.query.strip()
        return cls(url, relation, settings.id, settings.location if settings.bytes is None else None)

    @property
    def is_ours(self) -> bool:
        return self == OUR_IDENTITY

    @property
    def is_query(self) -> bool:
        return re.match(r"[\s(]*(select|with)\s", self.relation, re.IGNORECASE) is not None

    def may_have_been(self, other: SourceIdentity) -> bool:
        """Return whether this is the other source, or a query that the other one may have been before an edit."""
        are_queries = self.is_query and other.is_query
        return self == other or (are_queries and (self.database, self.id_column) == (other.database, other.id_column))

    def has_pictures_of(self, other: SourceIdentity) -> bool:
        """Return whether one id with one location is one picture here and in another source.

        That is so in the tables, views and queries of one database. The location of a row whose bytes a column holds
        says too little.
        """
        if self.is_ours or other.is_ours:
            return self == other
        if None in (self.location_column, other.location_column):
            return self.may_have_been(other)
        return self.database == other.database

    def __str__(self) -> str:
        return f"{' '.join(self.relation.split())!r:.200}" + (f" of {self.database}" if self.database else "")


OUR_IDENTITY = SourceIdentity(None, OUR_IMAGES, "id", "location")


def read_sources(connection: Connection) -> dict[int, SourceIdentity]:
    """Return the sources by their numbers."""
    columns = (sources.c[name] for name in SourceIdentity.__dataclass_fields__)
    return {row[0]: SourceIdentity(*row[1:]) for row in connection.execute(select(sources.c.id, *columns))}


def own_numbers(connection: Connection, identity: SourceIdentity) -> list[int]:
    """Return the numbers of a source, with those of the queries that it may have been before an edit."""
    return [number for number, one in read_sources(connection).items() if identity.may_have_been(one)]


def numbers_of_pictures(connection: Connection, identity: SourceIdentity, base: str | None) -> list[int]:
    """Return the numbers of sources among whose pictures are those of this source, if their ids and locations agree.

    `base` is the folder that its relative locations start at, which differs from that of the other one only where both
    are the same source, whose folder was moved.
    """
    if identity.is_ours:
        return [OURS]
    bases = {row.id: row.base for row in connection.execute(select(sources.c.id, sources.c.base))}
    known = read_sources(connection)
    same = [number for number, one in known.items() if one != identity and identity.has_pictures_of(one)]
    own = [number for number, one in known.items() if one == identity]
    return own + [number for number in same if None in (base, bases[number]) or bases[number] == base]


class RunSource(NamedTuple):
    """The source of a run: its number in infer_sources and the folder that its relative locations start at."""

    number: int | None = None  # None: the images are ours
    base: str | None = None

    def numbers(self, connection: Connection) -> list[int]:
        """Return the sources among whose pictures those of the run are, first the one that new ones belong to."""
        if self.number is None:
            return [OURS]
        identity = read_sources(connection).get(self.number)
        if identity is None:  # what a dry run records is rolled back
            return [self.number]
        return numbers_of_pictures(connection, identity, self.base)


OUR_SOURCE = RunSource()


def number_of(identity: SourceIdentity, known: Mapping[int, SourceIdentity]) -> int | None:
    return next((number for number, one in known.items() if one == identity), None)


def record_source(database: Database, identity: SourceIdentity, base: str | None = None) -> int:
    """Return the number of a source, recorded if it is new, as is the folder that its relative locations start at."""

    def record(connection: Connection) -> int:
        connection.execute(select(database_id).with_for_update()).close()  # keeps others from recording it meanwhile
        number = number_of(identity, read_sources(connection))
        if number is None:
            columns: Sequence[object] = astuple(identity)
            row = dict(zip(SourceIdentity.__dataclass_fields__, columns, strict=True))
            now = connection.execute(select(UtcNow())).scalar_one()
            connection.execute(insert(sources), row | {"first_used_at": now})
            number = number_of(identity, read_sources(connection))
        assert number is not None
        return number

    number = number_of(identity, database.ask(read_sources))
    number = database.transact(record) if number is None else number
    if base is not None:
        moved = update(sources).where(sources.c.id == number, func.coalesce(sources.c.base, "") != base)
        database.transact(lambda connection: connection.execute(moved.values(base=base)))
    return number


def read_forgotten_before(database: Database, identity: SourceIdentity) -> datetime | None:
    """Return the time (UTC) from which on the images of a source count, None for all.

    A query keeps that of the others over its database with its id column: it may be one of them that was edited.
    """

    def read(connection: Connection) -> datetime | None:
        its = sources.c.id.in_(own_numbers(connection, identity))
        found: datetime | None = connection.scalar(select(func.max(sources.c.forgotten_before)).where(its))
        return found

    latest = database.ask(read)
    return None if latest is None else latest.replace(tzinfo=UTC)


def forget_before(database: Database, identity: SourceIdentity, time: datetime) -> None:
    """Let the images of a source that are older than a time (UTC) belong to no day any more.

    Raises DayHeld while a run is active, which would go on writing their results.
    """
    number = record_source(database, identity)
    later = or_(sources.c.forgotten_before.is_(None), sources.c.forgotten_before < time.replace(tzinfo=None))
    forget = update(sources).where(sources.c.id == number, later).values(forgotten_before=time.replace(tzinfo=None))

    def store(connection: Connection) -> None:
        refuse_during_runs(connection)
        connection.execute(forget)

    database.transact(store)
