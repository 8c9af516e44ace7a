import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import column, inspect, table, update

from infer_app.base.errors import SchemaOutdated
from infer_app.tables.engine.connect import Database
from infer_app.tables.results import migrate
from infer_app.tables.results.migrate import check_schema, upgrade
from infer_app.tables.results.schema import LAYOUTS, VERSION, VERSION_TABLE, metadata
from tests.support.results import relations


@pytest.fixture
def fresh(tmp_path):
    """A database without any table, in a folder whose name a configuration parser would read as its own."""
    folder = tmp_path / "100%(s)s"
    folder.mkdir()
    with Database(f"sqlite:///{folder / 'fresh.db'}") as database:
        yield database


def set_version(database, version):
    versions = table(VERSION_TABLE, column("version_num"))
    with database.write() as connection:
        connection.execute(update(versions).values(version_num=version))


@pytest.mark.parametrize("act", [check_schema, upgrade])
@pytest.mark.parametrize(
    ("version", "message", "hint"),
    [
        ("0008", r"does not know \(0008\)", "upgrade infer_app"),
        ("0.10.0", r"does not know \(0\.10\.0\)", "upgrade infer_app"),
    ],
)
def test_tables_of_another_version_are_refused_and_left_as_they_are(database, version, act, message, hint):
    set_version(database, version)
    with pytest.raises(SchemaOutdated, match=message) as caught:
        act(database)
    assert caught.value.exit_code == 11
    assert hint in caught.value.hint
    with database.read() as connection:
        assert connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").all() == [(version,)]


def test_missing_tables_are_told_with_the_command_to_run(fresh):
    with pytest.raises(SchemaOutdated, match="has no infer_ tables yet") as caught:
        check_schema(fresh)
    assert (caught.value.exit_code, caught.value.hint) == (11, "run `infer db upgrade`")


def test_the_tables_of_the_last_state_before_the_first_release_are_taken_over(database):
    set_version(database, "0009")
    with pytest.raises(SchemaOutdated, match="have layout 1, this program needs 3") as caught:
        check_schema(database)
    assert caught.value.hint == "run `infer db upgrade`"
    assert [upgrade(database), upgrade(database)] == ["0009", VERSION]
    check_schema(database)


def test_an_upgrade_that_fails_leaves_no_half_of_it(fresh):
    """An index of the user's has the name of our last one."""
    with fresh.write() as connection:
        connection.exec_driver_sql("CREATE TABLE users (id INTEGER)")
        connection.exec_driver_sql("CREATE INDEX ix_infer_runs_day_model_id ON users (id)")
    with pytest.raises(Exception, match="ix_infer_runs_day_model_id already exists"):
        upgrade(fresh)
    assert relations(fresh) == {"users"}


def test_the_versions_are_those_of_the_migrations():
    scripts = ScriptDirectory.from_config(migrate._config()).walk_revisions()
    assert tuple(one.revision for one in scripts)[::-1] == tuple(LAYOUTS)[1:]


def test_migrated_tables_are_those_of_the_schema(database):
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, metadata) == []
        found = {name: inspect(connection).get_pk_constraint(name)["constrained_columns"] for name in metadata.tables}
        uniques = {name: inspect(connection).get_unique_constraints(name) for name in metadata.tables}
    assert found == {name: [key.name for key in table.primary_key] for name, table in metadata.tables.items()}
    assert {name: [one["column_names"] for one in own] for name, own in uniques.items() if own} == {
        "infer_pictures": [["key", "registered"]],
        "infer_objects": [["picture", "model_id", "object"]],
    }
