"""Column types and SQL functions that mean the same in every database."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Boolean, ColumnElement, DateTime, Dialect, LargeBinary, String, TypeDecorator
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

FAMILY = ("mysql", "mariadb")

# MariaDB's default type rounds to whole seconds, which could move an image into the next day.
Microseconds = DateTime().with_variant(mysql.DATETIME(fsp=6), *FAMILY)
# MariaDB's BLOB holds at most 64 KiB.
LongBytes = LargeBinary().with_variant(mysql.LONGBLOB(), *FAMILY)


def is_utf8(text: str) -> bool:
    """Return whether the text can be encoded: names of files, and values from SQLite, may hold surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Exact(String):
    """Text that is compared byte by byte: by MariaDB's default `a`, `A` and `a ` are the same key."""


@compiles(Exact, *FAMILY)
def _exact(type_: Exact, compiler: Any, **_: Any) -> str:
    name = f"VARCHAR({type_.length})" if type_.length else "TEXT"
    # The dialect can tell MariaDB from MySQL only when it is connected, as it is here.
    return f"{name} CHARACTER SET utf8mb4 COLLATE {exact_collation(compiler.dialect)}"


def exact_collation(dialect: Dialect) -> str:
    """Return the collation that compares bytes, trailing spaces included. MySQL's needs version 8.0."""
    return "utf8mb4_nopad_bin" if getattr(dialect, "is_mariadb", False) else "utf8mb4_0900_bin"


class EncodedJSON(TypeDecorator[Any]):
    """JSON that is written as text already encoded, and decoded when it is read."""

    impl = JSON
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> None:
        return None


class UtcNow(FunctionElement[datetime]):
    """The database's clock, UTC without a zone: clocks of several machines differ."""

    type = Microseconds
    inherit_cache = True
    name = "utc_now"


@compiles(UtcNow)
def _utc_now(element: UtcNow, compiler: Any, **_: Any) -> str:
    return "(clock_timestamp() AT TIME ZONE 'UTC')"


@compiles(UtcNow, "sqlite")
def _utc_now_sqlite(element: UtcNow, compiler: Any, **_: Any) -> str:
    return "(strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')"  # in the format that SQLAlchemy writes


@compiles(UtcNow, *FAMILY)
def _utc_now_mariadb(element: UtcNow, compiler: Any, **_: Any) -> str:
    return "UTC_TIMESTAMP(6)"


class HoursAfter(FunctionElement[datetime]):
    """The time in a column, some whole hours later."""

    type = Microseconds
    inherit_cache = False
    name = "hours_after"

    def __init__(self, time: ColumnElement[datetime], hours: int) -> None:
        super().__init__(time)
        self.hours = hours


@compiles(HoursAfter)
def _hours_after(element: HoursAfter, compiler: Any, **options: Any) -> str:
    return f"({compiler.process(element.clauses, **options)} + INTERVAL '{element.hours} hours')"


@compiles(HoursAfter, "sqlite")
def _hours_after_sqlite(element: HoursAfter, compiler: Any, **options: Any) -> str:
    return f"datetime({compiler.process(element.clauses, **options)}, '+{element.hours} hours')"


@compiles(HoursAfter, *FAMILY)
def _hours_after_mariadb(element: HoursAfter, compiler: Any, **options: Any) -> str:
    return f"({compiler.process(element.clauses, **options)} + INTERVAL {element.hours} HOUR)"


class AsText(FunctionElement[str]):
    """A value of any type cast to text, as our tables hold ids, without truncation."""

    type = String()
    inherit_cache = True
    name = "as_text"


@compiles(AsText)
def _as_text(element: AsText, compiler: Any, **options: Any) -> str:
    return f"CAST({compiler.process(element.clauses, **options)} AS TEXT)"


@compiles(AsText, *FAMILY)
def _as_exact_text(element: AsText, compiler: Any, **options: Any) -> str:
    value = compiler.process(element.clauses, **options)
    return f"CAST({value} AS CHAR CHARACTER SET utf8mb4) COLLATE {exact_collation(compiler.dialect)}"


class AsUtcText(FunctionElement[str]):
    """A value of a time column cast to text that is the same in every session."""

    type = String()
    inherit_cache = True
    name = "as_utc_text"


@compiles(AsUtcText)
def _as_utc_text(element: AsUtcText, compiler: Any, **options: Any) -> str:
    return str(compiler.process(AsText(*element.clauses), **options))


@compiles(AsUtcText, "postgresql")
def _as_utc_text_postgres(element: AsUtcText, compiler: Any, **options: Any) -> str:
    """Shift times with a zone to UTC: PostgreSQL writes them in the zone of the session. The type is not known here."""
    text = compiler.process(AsText(*element.clauses), **options)
    utc = f"CAST(CAST({text} AS timestamptz) AT TIME ZONE 'UTC' AS TEXT)"
    return f"CASE WHEN {text} ~ '^[0-9]+-[0-9][0-9]-[0-9][0-9] .*[+-][0-9]+' THEN {utc} ELSE {text} END"


_MARKS = ("'***'", r"'\udc'", r"'\x00'")  # in place of secrets, undecodable bytes and NUL in a stored location


_BY_BYTES = '"C"'  # PostgreSQL's collation


class SameLocation(FunctionElement[bool]):
    """Whether a stored location, or NULL where it is not known, is that of a listed one, cast to text.

    What `stored_location` has masked or escaped can't be compared: the text before it decides.
    """

    type = Boolean()
    inherit_cache = True
    name = "same_location"


@compiles(SameLocation)
def _same_location(element: SameLocation, compiler: Any, **options: Any) -> str:
    stored, listed = (compiler.process(clause, **options) for clause in element.clauses)
    return _is_same(stored, f"COALESCE({listed}, '')", "instr", _MARKS)


@compiles(SameLocation, "postgresql")
def _same_location_postgres(element: SameLocation, compiler: Any, **options: Any) -> str:
    stored, listed = (compiler.process(clause, **options) for clause in element.clauses)
    exact = f"COALESCE({listed}, '') COLLATE {_BY_BYTES}"
    of_bytes = f"{exact} = '\\x' || encode(convert_to({stored}, 'UTF8'), 'hex')"  # how a BYTEA is cast to text
    return _is_same(stored, exact, "strpos", _MARKS, of_bytes)


@compiles(SameLocation, *FAMILY)
def _same_location_mariadb(element: SameLocation, compiler: Any, **options: Any) -> str:
    stored, listed = (compiler.process(clause, **options) for clause in element.clauses)
    marks = tuple(mark.replace("\\", "\\\\") for mark in _MARKS)
    return _is_same(stored, f"COALESCE({listed}, '')", "instr", marks)


def _is_same(stored: str, listed: str, position: str, marks: tuple[str, ...], *more: str) -> str:
    ways = [f"{stored} IS NULL", f"{stored} = {listed}", *more]
    for mark in marks:
        at = f"{position}({stored}, {mark})"
        ways.append(f"({at} > 0 AND substr({stored}, 1, {at} - 1) = substr({listed}, 1, {at} - 1))")
    return f"({' OR '.join(ways)})"
