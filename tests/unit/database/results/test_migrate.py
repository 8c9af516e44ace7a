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
from infer_app.database.results.schema import VERSION, VERSION_TABLE, VIEWS, images, metadata, models, predictions, runs
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


def test_a_fresh_database_gets_our_tables(fresh):
    assert upgrade(fresh) is None
    check_schema(fresh)
    assert relations(fresh) == {*metadata.tables, VERSION_TABLE, *VIEWS}
    assert all(name.startswith("infer_") for name in relations(fresh))


def test_a_repeated_upgrade_changes_nothing(database, tmp_path):
    before = relations(database)
    assert upgrade(database) == VERSION
    assert relations(database) == before


def test_tables_of_the_users_own_are_left_alone(fresh):
    with fresh.write() as connection:
        connection.exec_driver_sql("CREATE TABLE images (id INTEGER)")
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num TEXT)")
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('theirs')")
    upgrade(fresh)
    with fresh.read() as connection:
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").all() == [("theirs",)]
    assert relations(fresh) > {"images", "alembic_version", "infer_images"}


def test_missing_tables_are_told_with_the_command_to_run(fresh):
    with pytest.raises(SchemaOutdated, match="has no infer_ tables yet") as caught:
        check_schema(fresh)
    assert (caught.value.exit_code, caught.value.hint) == (11, "run `infer db upgrade`")


def test_older_tables_are_refused_with_the_command_to_run(database):
    set_version(database, "0000")
    with pytest.raises(SchemaOutdated, match=f"of version 0000, this program needs {VERSION}") as caught:
        check_schema(database)
    assert (caught.value.exit_code, caught.value.hint) == (11, "run `infer db upgrade`")


@pytest.mark.parametrize("act", [check_schema, upgrade])
def test_newer_tables_are_refused_and_left_as_they_are(database, act):
    set_version(database, "9999")
    with pytest.raises(SchemaOutdated, match="newer than this program") as caught:
        act(database)
    assert (caught.value.exit_code, caught.value.hint) == (11, "upgrade infer_app")
    with database.read() as connection:
        assert connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").all() == [("9999",)]


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


def test_the_version_that_ran_last_is_in_use_after_the_upgrade(fresh):
    """And the view shows what it showed before; a version that never ran is not in use."""
    to_revision(fresh, command.upgrade, "0003")
    times = {"old": "2026-01-01", "new": "2026-01-03", "mid": "2026-01-02", "never": "1970-01-02"}
    row = "INSERT INTO infer_models (id, name, manifest, created_at) VALUES (:id, :name, '{}', :at)"
    made = "INSERT INTO infer_predictions (image_id, model_id, run_id, variant, output, created_at)"
    made += " VALUES (:image, :model, 'r', 'v', '{}', '2026-01-01 00:00:00.000000')"
    with fresh.write() as connection:
        for id_, at in times.items():
            connection.execute(text(row), {"id": id_, "name": "m", "at": f"{at} 00:00:00.000000"})
        connection.execute(text(row), {"id": "other", "name": "o", "at": "2025-01-01 00:00:00.000000"})
        for image, model in (("1", "old"), ("1", "new"), ("2", "old"), ("2", "mid"), ("1", "other")):
            connection.execute(text(made), {"image": image, "model": model})

    def shown():
        with fresh.read() as connection:
            view = text("SELECT model, image_id, model_id, variant FROM infer_current_predictions ORDER BY 1, 2")
            return connection.execute(view).all()

    before = shown()
    upgrade(fresh)
    assert shown() == before
    with fresh.read() as connection:
        found = {row.id: row for row in connection.execute(select(models))}
    assert {id_ for id_, row in found.items() if row.in_use_since} == {"new", "other"}
    assert {id_ for id_, row in found.items() if row.used_until} == {"old", "mid"}
    assert found["new"].in_use_since == datetime(2026, 1, 3)
    to_revision(fresh, command.downgrade, "0003")
    assert shown() == before


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


def test_all_the_way_down_and_up_again(database):
    before = relations(database)
    to_revision(database, command.downgrade, "base")
    assert relations(database) == {VERSION_TABLE}
    upgrade(database)
    assert relations(database) == before


def test_current_predictions_are_those_of_the_version_in_use_and_of_those_before_it(database):
    """Of each image and model name one row: image 2 was never seen by the version in use."""
    days = {"old": 1, "new": 2, "newest": 3}
    made = [{"id": f"m-{age}", "name": "m", "used_until": datetime(2026, 1, days[age])} for age in days]
    made[-1] |= {"used_until": datetime(2025, 1, 1), "in_use_since": datetime(2026, 1, 9)}
    made.append({"id": "other", "name": "other", "in_use_since": datetime(2025, 1, 1)})
    made += [{"id": "m-tried", "name": "m"}, {"id": "tried", "name": "only tried"}]
    rows = [("1", "m-old"), ("1", "m-new"), ("1", "m-newest"), ("2", "m-old"), ("2", "m-new"), ("1", "other")]
    rows += [("1", "m-tried"), ("3", "m-tried"), ("1", "tried")]
    rest = {"run_id": "r", "variant": "v", "score": 0.5, "output": "{}", "created_at": datetime(2026, 1, 4)}
    with database.write() as connection:
        for row in made:
            connection.execute(insert(models), row | {"manifest": {}, "created_at": datetime(2026, 2, 1)})
        connection.execute(
            insert(predictions),
            [{"image_id": image, "model_id": model, "label": model} | rest for image, model in rows],
        )
        view = text("SELECT model, image_id, model_id, label FROM infer_current_predictions ORDER BY 1, 2")
        found = connection.execute(view).all()
    assert [tuple(row) for row in found] == [
        ("m", "1", "m-newest", "m-newest"),
        ("m", "2", "m-new", "m-new"),
        ("other", "1", "other", "other"),
    ]


def test_two_models_of_one_moment_give_one_row(database):
    moment = datetime(2026, 1, 1)
    rest = {"run_id": "r", "variant": "v", "output": "{}", "created_at": moment}
    with database.write() as connection:
        connection.execute(
            insert(models),
            [
                {"id": id_, "name": "m", "manifest": {}, "created_at": moment, "used_until": moment}
                for id_ in ("a", "b")
            ],
        )
        connection.execute(insert(predictions), [{"image_id": "1", "model_id": id_} | rest for id_ in ("a", "b")])
        view = table("infer_current_predictions", column("model_id"))
        assert connection.scalars(select(view.c.model_id)).all() == ["b"]
