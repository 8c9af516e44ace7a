"""INSERT … or update the row that has the same key, in each database's own words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Executable, Table
from sqlalchemy.dialects import mysql, postgresql, sqlite

from infer_app.errors import UsageError


def upsert(dialect_name: str, table: Table, merges: Mapping[str, Callable[[Any], Any]] | None = None) -> Executable:
    """An insert that overwrites the row with the same primary key.

    `merges` maps a column to a function of the new row's columns that gives its value instead of the new one.
    """
    merges = merges or {}
    others = [column.name for column in table.columns if not column.primary_key]
    keys = [column.name for column in table.primary_key.columns]
    if dialect_name in ("mysql", "mariadb"):
        statement = mysql.insert(table)
        # An assignment sees those before it: a merged column that reads old ones comes first.
        ordered = sorted(others, key=lambda name: name not in merges)
        return statement.on_duplicate_key_update([(name, _value(name, statement.inserted, merges)) for name in ordered])
    if dialect_name not in ("sqlite", "postgresql"):
        raise UsageError(f"no upsert is known for {dialect_name}", "SQLite, PostgreSQL, MariaDB and MySQL work")
    insert = sqlite.insert if dialect_name == "sqlite" else postgresql.insert
    conflict = insert(table)
    return conflict.on_conflict_do_update(
        index_elements=keys, set_={name: _value(name, conflict.excluded, merges) for name in others}
    )


def _value(name: str, new: Any, merges: Mapping[str, Callable[[Any], Any]]) -> Any:
    return merges[name](new) if name in merges else new[name]
