"""Column types that mean the same in every database, where the standard ones do not."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, DateTime, Dialect, LargeBinary, String, TypeDecorator
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

FAMILY = ("mysql", "mariadb")

# MariaDB's own keep whole seconds, and round to them, which could move an image into the next day.
Microseconds = DateTime().with_variant(mysql.DATETIME(fsp=6), *FAMILY)
# Its BLOB ends at 64 KiB.
LongBytes = LargeBinary().with_variant(mysql.LONGBLOB(), *FAMILY)


def is_utf8(text: str) -> bool:
    """Whether a database can hold it: a file's name, or what SQLite gives, may be no text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Exact(String):
    """Text of which no two spellings are equal: MariaDB's default takes `a`, `A` and `a ` for one key."""


@compiles(Exact, *FAMILY)
def _exact(type_: Exact, compiler: Any, **_: Any) -> str:
    name = f"VARCHAR({type_.length})" if type_.length else "TEXT"
    # The dialect knows which of the two it talks to once it is connected, as it is when this is needed.
    return f"{name} CHARACTER SET utf8mb4 COLLATE {exact_collation(compiler.dialect)}"


def exact_collation(dialect: Dialect) -> str:
    """By bytes, spaces at the end included. MySQL's needs 8.0."""
    return "utf8mb4_nopad_bin" if getattr(dialect, "is_mariadb", False) else "utf8mb4_0900_bin"


class EncodedJSON(TypeDecorator[Any]):
    """JSON that is written as the text it comes as, and read decoded."""

    impl = JSON
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> None:
        return None


class UtcNow(FunctionElement[datetime]):
    """The database's own time, UTC without a zone: that of several machines differs."""

    type = Microseconds
    inherit_cache = True
    name = "utc_now"


@compiles(UtcNow)
def _utc_now(element: UtcNow, compiler: Any, **_: Any) -> str:
    return "(clock_timestamp() AT TIME ZONE 'UTC')"


@compiles(UtcNow, "sqlite")
def _utc_now_sqlite(element: UtcNow, compiler: Any, **_: Any) -> str:
    return "(strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')"  # as SQLAlchemy writes it


@compiles(UtcNow, *FAMILY)
def _utc_now_mariadb(element: UtcNow, compiler: Any, **_: Any) -> str:
    return "UTC_TIMESTAMP(6)"


class AsText(FunctionElement[str]):
    """A value of any type as our tables hold an id, and never cut short."""

    type = String()
    inherit_cache = True
    name = "as_text"


@compiles(AsText)
def _as_text(element: AsText, compiler: Any, **how: Any) -> str:
    return f"CAST({compiler.process(element.clauses, **how)} AS TEXT)"


@compiles(AsText, *FAMILY)
def _as_exact_text(element: AsText, compiler: Any, **how: Any) -> str:
    value = compiler.process(element.clauses, **how)
    return f"CAST({value} AS CHAR CHARACTER SET utf8mb4) COLLATE {exact_collation(compiler.dialect)}"
