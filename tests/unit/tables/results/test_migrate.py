import shutil

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import column, inspect, table, text, update

from infer_app.base.errors import SchemaOutdated
from infer_app.tables.engine.connect import Database
from infer_app.tables.results import migrate
from infer_app.tables.results.migrate import check_schema, upgrade
from infer_app.tables.results.schema import VERSION, VERSION_TABLE, metadata, project_table
from tests.support.results import relations

# The versions that commits before the first release have written.
FORMER = (*(f"{number:04}" for number in range(1, 10)), "0.1.0", "0.2.0", "0.3.0")
NEXT = str(int(VERSION) + 1)
ADDS_A_COLUMN = f"""
from alembic import op
from sqlalchemy import Column, Text

revision = "{NEXT}"
down_revision = "{VERSION}"


def upgrade():
    op.add_column("infer_models", Column("note", Text))
"""


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
        ("10", r"does not know \(10\)", "upgrade infer_app"),
        ("theirs", r"does not know \(theirs\)", "upgrade infer_app"),
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


@pytest.mark.parametrize("version", FORMER)
def test_a_database_of_before_the_first_release_is_refused_and_stays_as_it_is(fresh, version):
    """Registered images were a table then, and later a view."""
    images = ["CREATE TABLE infer_images (id INTEGER PRIMARY KEY, location TEXT)"]
    if version > "0.1.0":
        images = [images[0].replace("images", "pictures"), "CREATE VIEW infer_images AS SELECT * FROM infer_pictures"]
    made = [*images, f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL)"]
    with fresh.write() as connection:
        for statement in (*made, f"INSERT INTO {VERSION_TABLE} VALUES ('{version}')"):
            connection.exec_driver_sql(statement)
    for act in (check_schema, upgrade):
        with pytest.raises(SchemaOutdated, match=r"by a version of infer_app before 0\.1\.0") as caught:
            act(fresh)
        assert caught.value.exit_code == 11
    with fresh.read() as connection:
        assert connection.scalars(text("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")).all() == made
        assert connection.scalars(text(f"SELECT version_num FROM {VERSION_TABLE}")).all() == [version]


def test_a_further_layout_is_reached_by_its_migration(database, tmp_path, monkeypatch):
    shutil.copytree(migrate.MIGRATIONS, tmp_path / "migrations")
    (tmp_path / f"migrations/versions/layout_{NEXT}.py").write_text(ADDS_A_COLUMN)
    monkeypatch.setattr(migrate, "MIGRATIONS", tmp_path / "migrations")
    monkeypatch.setattr(migrate, "VERSION", NEXT)
    with pytest.raises(SchemaOutdated, match=f"have layout {VERSION}, this program needs {NEXT}") as caught:
        check_schema(database)
    assert caught.value.hint == "run `infer db upgrade`"
    assert [upgrade(database), upgrade(database)] == [VERSION, NEXT]
    check_schema(database)
    with database.read() as connection:
        assert connection.scalars(text("SELECT note FROM infer_models")).all() == []


def test_a_lost_id_is_not_given_anew(database):
    with database.write() as connection:
        connection.execute(project_table.delete())
    for act in (check_schema, upgrade):
        with pytest.raises(SchemaOutdated, match="infer_project has no row") as caught:
            act(database)
        assert caught.value.hint == "restore it from a backup"


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
    assert [int(one.revision) for one in scripts] == [*range(int(VERSION), 0, -1)]


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
