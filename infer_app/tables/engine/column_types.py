"""Column types and SQL functions that mean the same in every database."""

from datetime import datetime
from typing import Any, TypeAlias

from sqlalchemy import (
    JSON,
    ColumnElement,
    DateTime,
    Dialect,
    LargeBinary,
    Select,
    String,
    TypeDecorator,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

FAMILY = ("mysql", "mariadb")
Query: TypeAlias = Select[*tuple[Any, ...]]  # whose rows are read by the names of their columns
OURS = "ours"  # in the info of the metadata of our own tables
MAX_ID = 512  # characters of an image's id: with the model's id it fills the longest key of MariaDB


def is_utf8(text: str) -> bool:
    """Return whether the text can be encoded: names of files, and values from SQLite, may hold surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class OddTime(str):
    """A value of a column of times that no datetime holds, as the database writes it: infinity, 12026-01-01, 44 BC."""


class Microseconds(DateTime):
    """A time to the microsecond: MariaDB's default type rounds to seconds, which could move an image to another day."""


class LongBytes(LargeBinary):
    """Bytes of any number: MariaDB's default type holds at most 64 KiB."""


class Exact(String):
    """Text that is compared byte by byte: by MariaDB's default `a`, `A` and `a ` are the same key."""


class EncodedJSON(TypeDecorator[Any]):
    """JSON that is written as text already encoded, and decoded when it is read."""

    impl = JSON
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> None:
        return None


class UtcNow(FunctionElement[datetime]):
    """The database's clock, UTC without a zone: clocks of several machines differ."""

    type = Microseconds()
    inherit_cache = True
    name = "utc_now"


class HoursAfter(FunctionElement[datetime]):
    """The time in a column, some whole hours later."""

    type = Microseconds()
    inherit_cache = False
    name = "hours_after"

    def __init__(self, time: ColumnElement[datetime], hours: int) -> None:
        super().__init__(time)
        self.hours = hours


class AsText(FunctionElement[str]):
    """A value of any type cast to text, as our tables hold ids, without truncation."""

    type = String()
    inherit_cache = True
    name = "as_text"


@compiles(AsText)
def _as_text(element: AsText, compiler: Any, **options: Any) -> str:
    return f"CAST({compiler.process(element.clauses, **options)} AS TEXT)"
