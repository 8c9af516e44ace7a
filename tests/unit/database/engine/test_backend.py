"""Upserts: a row of the same key is overwritten, in each database's own SQL."""

import pytest
from sqlalchemy.dialects import mysql, postgresql, sqlite

from infer_app.database.engine.connect import Database
from infer_app.database.engine.mysql import MySQL
from infer_app.database.engine.postgresql import PostgreSQL
from infer_app.database.engine.sqlite import SQLite
from infer_app.database.results.schema import rejections
from infer_app.errors import UsageError


def count(new):
    return rejections.c.attempts + new.size


def sql_of(backend, dialect):
    return str(backend.upsert(rejections, {"attempts": count}).compile(dialect=dialect))


@pytest.mark.parametrize(("backend", "dialect"), [(SQLite(), sqlite.dialect()), (PostgreSQL(), postgresql.dialect())])
def test_a_row_of_the_same_key_is_overwritten_but_for_its_key(backend, dialect):
    sql = sql_of(backend, dialect).replace("\n", " ")
    _, conflict, update = sql.partition(" ON CONFLICT (image_id, model_id) DO UPDATE SET ")
    assert conflict
    others = [column.name for column in rejections.columns if not column.primary_key]
    expected = {f"{name} = excluded.{name}" for name in others if name != "attempts"}
    assert set(update.split(", ")) == expected | {"attempts = (infer_rejections.attempts + excluded.size)"}


def test_mysql_assigns_what_reads_old_columns_first():
    """Its assignments see those before them: run_id must still be the old one when the attempt is counted."""
    update = sql_of(MySQL(), mysql.dialect()).partition("ON DUPLICATE KEY UPDATE ")[2]
    assert update.startswith("attempts = ")
    assert "image_id = " not in update


def test_another_database_is_refused():
    with pytest.raises(UsageError, match="no driver for 'oracle' databases"):
        Database("oracle://host/name")
