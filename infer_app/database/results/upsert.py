"""Upserts: INSERT, or update the row that has the same key, in each database's own SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Select, Table
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.sql.dml import Insert

from infer_app.errors import UsageError

Merges = Mapping[str, Callable[[Any], Any]]


def upsert(
    dialect_name: str,
    table: Table,
    merges: Merges | None = None,
    names: Sequence[str] = (),
    rows: Select[Any] | None = None,
) -> Insert:
    """Return an insert that overwrites the row with the same primary key.

    `merges` maps a column to a function that computes its value from the new row's columns. The new rows are
    parameters, or on PostgreSQL optionally those that `rows` selects, with the columns `names`.
    """
    merges = merges or {}
    others = [column.name for column in table.columns if not column.primary_key]
    keys = [column.name for column in table.primary_key.columns]
    if dialect_name in ("mysql", "mariadb"):
        statement = mysql.insert(table)
        # An assignment sees the effect of earlier ones: merged columns, which read old values, come first.
        ordered = sorted(others, key=lambda name: name not in merges)
        return statement.on_duplicate_key_update([(name, _value(name, statement.inserted, merges)) for name in ordered])
    if dialect_name not in ("sqlite", "postgresql"):
        raise UsageError(f"no upsert is known for {dialect_name}", "SQLite, PostgreSQL, MariaDB and MySQL work")
    insert = sqlite.insert if dialect_name == "sqlite" else postgresql.insert
    conflict = insert(table) if rows is None else insert(table).from_select(names, rows)
    return conflict.on_conflict_do_update(
        index_elements=keys, set_={name: _value(name, conflict.excluded, merges) for name in others}
    )


def keep_known(dialect_name: str, table: Table) -> Insert:
    """Return an insert that leaves an existing row with the same primary or unique key unchanged."""
    if dialect_name in ("mysql", "mariadb"):
        key = next(iter(table.primary_key.columns)).name
        # Not INSERT IGNORE, which would also turn errors of rows that can't be written into warnings.
        return mysql.insert(table).on_duplicate_key_update({key: table.c[key]})
    return (sqlite.insert if dialect_name == "sqlite" else postgresql.insert)(table).on_conflict_do_nothing()


def _value(name: str, new: Any, merges: Merges) -> Any:
    return merges[name](new) if name in merges else new[name]
