from datetime import datetime

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import column, insert, inspect, select, table, text, update

from infer_app.database.engine.connect import Database
from infer_app.database.results import migrate
from infer_app.database.results.migrate import check_schema, upgrade
from infer_app.database.results.schema import VERSION, VERSION_TABLE, images, metadata, runs
from infer_app.errors import SchemaOutdated


@pytest.fixture
def fresh(tmp_path):
    """A database without any table, in a folder whose name a configuration parser would read as its own."""
    folder = tmp_path / "100%(s)s"
    folder.mkdir()
    with Database(f"sqlite:///{folder / 'fresh.db'}") as database:
        yield database


def relations(database):
    with database.read() as connection:
        inspector = inspect(connection)
        return {*inspector.get_table_names(), *inspector.get_view_names()}


def set_version(database, version):
    versions = table(VERSION_TABLE, column("version_num"))
    with database.write() as connection:
        connection.execute(update(versions).values(version_num=version))


def to_revision(database, verb, revision):
    config = migrate._config()
    with database.write() as connection:
        config.attributes["connection"] = connection
        verb(config, revision)


@pytest.mark.parametrize(
    ("version", "act", "message", "hint"),
    [
        ("0000", check_schema, f"of version 0000, this program needs {VERSION}", "run `infer db upgrade`"),
        ("9999", check_schema, "newer than this program", "upgrade infer_app"),
        ("9999", upgrade, "newer than this program", "upgrade infer_app"),
    ],
)
def test_tables_of_another_version_are_refused_and_left_as_they_are(database, version, act, message, hint):
    set_version(database, version)
    with pytest.raises(SchemaOutdated, match=message) as caught:
        act(database)
    assert (caught.value.exit_code, caught.value.hint) == (11, hint)
    with database.read() as connection:
        assert connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").all() == [(version,)]


def test_missing_tables_are_told_with_the_command_to_run(fresh):
    with pytest.raises(SchemaOutdated, match="has no infer_ tables yet") as caught:
        check_schema(fresh)
    assert (caught.value.exit_code, caught.value.hint) == (11, "run `infer db upgrade`")


def test_tables_of_the_first_version_keep_their_rows(fresh):
    """A file as the first version left it, with a run that had ended."""
    to_revision(fresh, command.upgrade, "0001")
    with pytest.raises(SchemaOutdated, match=f"of version 0001, this program needs {VERSION}"):
        check_schema(fresh)
    run = dict.fromkeys(("id", "time_zone", "model", "model_id", "variant", "executor", "device", "host"), "1")
    run |= {"process": "1@2", "versions": "{}", "state": "done", "day": "2026-11-20", "stages": '{"model": 14.1}'}
    run |= dict.fromkeys(("interval_start", "interval_end", "started_at", "heartbeat_at"), "2026-11-20 00:00:00.000000")
    run |= dict.fromkeys(("selected", "predicted", "rejected"), 3)
    with fresh.write() as connection:
        connection.execute(text(f"INSERT INTO infer_runs ({', '.join(run)}) VALUES (:{', :'.join(run)})"), run)
    assert upgrade(fresh) == "0001"
    check_schema(fresh)
    with fresh.read() as connection:
        row = connection.execute(select(runs)).one()
    assert (row.id, row.selected, row.stages, row.throughput) == ("1", 3, {"model": 14.1}, None)


def test_an_upgrade_that_fails_leaves_no_half_of_it(fresh):
    """An index of the user's has the name of our last one."""
    with fresh.write() as connection:
        connection.exec_driver_sql("CREATE TABLE users (id INTEGER)")
        connection.exec_driver_sql("CREATE INDEX ix_infer_images_queued_at ON users (id)")
    with pytest.raises(Exception, match="ix_infer_images_queued_at already exists"):
        upgrade(fresh)
    assert relations(fresh) == {"users"}


def test_what_a_user_has_made_over_our_tables_is_there_after_the_upgrade(fresh):
    """A view that selects from our table, one whose table is gone, triggers, an index of an expression."""
    to_revision(fresh, command.upgrade, "0007")
    made = [
        "CREATE TABLE audit (location TEXT)",
        "CREATE TABLE albums (image INTEGER REFERENCES infer_images (id))",
        "CREATE VIEW their_labels AS SELECT i.location, p.label FROM infer_images i JOIN infer_predictions p"
        " ON p.image_id = i.id",
        "CREATE VIEW stale AS SELECT * FROM gone",
        'CREATE INDEX "their ""own""" ON infer_images (lower(location) DESC)',
        "CREATE TRIGGER audited AFTER INSERT ON INFER_IMAGES BEGIN INSERT INTO audit VALUES (new.location); END",
        "CREATE TRIGGER listed AFTER DELETE ON albums BEGIN DELETE FROM infer_images WHERE id = old.image; END",
    ]
    image = "INSERT INTO infer_images (location, added_at) VALUES ('{}', '2026-11-20 10:00:00.000000')"
    with fresh.write() as connection:
        for statement in (*made, image.format("/a.jpg")):
            connection.exec_driver_sql(statement)
    upgrade(fresh)
    with fresh.write() as connection:
        connection.exec_driver_sql(image.format("/b.jpg"))
        stated = set(connection.exec_driver_sql("SELECT sql FROM sqlite_master").scalars())
        assert connection.exec_driver_sql("SELECT location FROM audit").scalars().all() == ["/a.jpg", "/b.jpg"]
        assert connection.exec_driver_sql("SELECT * FROM their_labels").all() == []
        assert connection.exec_driver_sql("PRAGMA legacy_alter_table").scalar() == 0
        with pytest.raises(Exception, match="UNIQUE constraint failed"):
            connection.exec_driver_sql(image.format("/b.jpg"))
    assert stated >= set(made)


@pytest.mark.parametrize(("image_id", "next_id"), [("41", 42), ("1732080000", 1), ("IMG_9", 1)])
def test_no_id_is_given_again_that_a_result_may_have_of_our_own_table(fresh, image_id, next_id):
    """A time is no such id: it is of a user's table."""
    to_revision(fresh, command.upgrade, "0007")
    made = "INSERT INTO infer_predictions (image_id, model_id, run_id, variant, output, created_at)"
    with fresh.write() as connection:
        connection.exec_driver_sql(f"{made} VALUES ('{image_id}', 'm', 'r', 'v', '{{}}', '2026-01-01 00:00:00.000000')")
    upgrade(fresh)
    with fresh.write() as connection:
        connection.execute(insert(images), {"location": "/a.jpg", "added_at": datetime(2026, 11, 20)})
        assert connection.scalar(select(images.c.id)) == next_id


def test_the_version_is_that_of_the_newest_migration():
    assert ScriptDirectory.from_config(migrate._config()).get_current_head() == VERSION


def test_migrated_tables_are_those_of_the_schema(database):
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, metadata) == []
        found = {name: inspect(connection).get_pk_constraint(name)["constrained_columns"] for name in metadata.tables}
        uniques = inspect(connection).get_unique_constraints("infer_images")
    assert found == {name: [key.name for key in table.primary_key] for name, table in metadata.tables.items()}
    assert [unique["column_names"] for unique in uniques] == [["location"]]
