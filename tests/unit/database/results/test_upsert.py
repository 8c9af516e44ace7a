import pytest
from sqlalchemy.dialects import mysql, postgresql, sqlite

from infer_app.database.results.schema import rejections
from infer_app.database.results.upsert import upsert
from infer_app.errors import UsageError


def count(new):
    return rejections.c.attempts + new.size


@pytest.mark.parametrize("dialect", [sqlite.dialect(), postgresql.dialect()], ids=["sqlite", "postgresql"])
def test_a_row_of_the_same_key_is_overwritten_but_for_its_key(dialect):
    sql = str(upsert(dialect.name, rejections, {"attempts": count}).compile(dialect=dialect))
    _, conflict, update = sql.replace("\n", " ").partition(" ON CONFLICT (image_id, model_id) DO UPDATE SET ")
    assert conflict
    others = [column.name for column in rejections.columns if not column.primary_key]
    expected = {f"{name} = excluded.{name}" for name in others if name != "attempts"}
    assert set(update.split(", ")) == expected | {"attempts = (infer_rejections.attempts + excluded.size)"}


def test_mysql_assigns_what_reads_old_columns_first():
    """Its assignments see those before them: run_id must still be the old one when the attempt is counted."""
    dialect = mysql.dialect()
    sql = str(upsert("mysql", rejections, {"attempts": count}).compile(dialect=dialect))
    update = sql.partition("ON DUPLICATE KEY UPDATE ")[2]
    assert update.startswith("attempts = ")
    assert "image_id = " not in update


def test_another_database_is_refused_instead_of_quietly_inserting():
    with pytest.raises(UsageError, match="no upsert is known for oracle"):
        upsert("oracle", rejections)
