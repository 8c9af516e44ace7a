"""A database of layout 1 answers as it did once it is upgraded: a result is of a picture, an object has a number."""

import logging

import pytest
from sqlalchemy import inspect, make_url

from infer_app.base.errors import DayHeld, SchemaOutdated
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.migrate import check_schema, upgrade
from infer_app.tables.results.migrations.estimate import Estimate, estimate_upgrade
from infer_app.tables.results.migrations.fill_pictures import Filling
from infer_app.tables.results.runs import RunStore
from infer_app.tables.results.schema import VERSION
from tests.conftest import DAY, MODEL
from tests.databases.conftest import only
from tests.support.former_database import LAST_ID, answers, fill_former
from tests.support.results import relations
from tests.support.statements import execute_at


@pytest.fixture
def former(url):
    fill_former(url)
    with Database(url) as database:
        yield database


def rows(database, sql):
    with database.read() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(sql)]


def shape_of(database):
    """What tells apart tables that were made in different ways."""

    def told(one):
        return str({key: value for key, value in one.items() if key not in ("dialect_options", "comment")})

    parts = ("get_columns", "get_indexes", "get_foreign_keys", "get_unique_constraints")
    with database.read() as connection:
        inspector = inspect(connection)
        return {
            name: [sorted(map(told, getattr(inspector, part)(name))) for part in parts]
            + [told(inspector.get_pk_constraint(name))]
            for name in inspector.get_table_names()
        }


def test_all_views_answer_as_before_and_each_model_has_as_many_rows(former, url, kind, new_url, caplog):
    before = answers(url)
    assert all(before.values())
    with caplog.at_level(logging.WARNING):
        assert upgrade(former) == "0.1.0"
    assert "infer_object_predictions: 1 rows were left out" in caplog.text
    check_schema(former)
    after = answers(url)
    before["infer_object_predictions"].remove("['5555555555555555', 9]")
    after["infer_object_predictions"].remove("['5555555555555555', 8]")
    assert after == before
    with Database(new_url(kind)) as fresh:
        upgrade(fresh)
        assert shape_of(former) == shape_of(fresh)
    assert upgrade(former) == VERSION
    assert answers(url)["infer_shown_crops"] == before["infer_shown_crops"]


def test_an_id_that_several_pictures_have_is_told_apart_by_source_and_location(former, url):
    of_view = f"model_id = '{'2' * 16}'"
    execute_at(
        url,
        f"UPDATE infer_predictions SET location = '/moved.jpg' WHERE image_id = 'cat' AND {of_view}",
        f"UPDATE infer_predictions SET image_id = '1' WHERE image_id = '12' AND {of_view}",
        f"INSERT INTO infer_objects SELECT 'cat', {'2' * 16!r}, 0, 'cat', 0, 0.5, 0, 0, 1, 1 FROM infer_database_id",
    )
    before = answers(url)
    upgrade(former)
    after = answers(url)
    before["infer_object_predictions"] = after["infer_object_predictions"]  # of which one was left out
    assert after == before
    named = "SELECT image_id, source_id, location, model_id FROM infer_predictions p JOIN infer_pictures c"
    named += (
        " ON c.id = p.picture WHERE image_id IN ('1', 'cat') AND model_id IN ({}) ORDER BY image_id, source_id, c.id"
    )
    assert [row[:3] for row in rows(former, named.format(f"'{'1' * 16}', '{'2' * 16}', '{'e' * 16}'"))] == [
        ("1", 0, "/srv/photos/1.jpg"),
        ("1", 2, "/scans/12.jpg"),
        ("cat", 2, "0/cat.jpg"),
        ("cat", 2, "/moved.jpg"),
    ]
    joined = "FROM infer_objects o JOIN infer_pictures c ON c.id = o.picture WHERE o.label = 'cat'"
    assert rows(former, f"SELECT c.location {joined}") == [("/moved.jpg",)]


def test_tables_of_the_last_version_before_it_are_taken_over_too(former, url):
    before = answers(url)["infer_shown_crops"]
    execute_at(url, "UPDATE infer_migrations SET version_num = '0009'")
    assert upgrade(former) == "0009"
    check_schema(former)
    assert answers(url)["infer_shown_crops"] == before


def test_pictures_have_the_ids_of_registered_images_or_numbers_after_all_that_were_given(former):
    upgrade(former)
    pictures = rows(former, "SELECT id, source_id, image_id, location, size, sha256 FROM infer_pictures ORDER BY id")
    ours = [row[:3] for row in pictures if row[1] == 0]
    assert ours == [(number, 0, str(number)) for number in range(1, 9)]  # the last one is gone
    assert rows(former, "SELECT COUNT(*) FROM infer_pictures WHERE added_at IS NULL AND source_id = 0") == [(1,)]
    others = [row for row in pictures if row[1] != 0]
    assert [row[0] for row in others] == [*range(LAST_ID + 1, LAST_ID + 1 + len(others))]
    assert {row[1] for row in others} == {2, 4}  # those of the view are those of its table
    assert len({row[1:4] for row in others}) == len(others)
    # Of a file as it was seen last: one that was replaced and predicted again, and a remote one that has not been.
    assert [pictures[2][4:], pictures[3][4:]] == [(777, "ee" * 32), (888, "")]
    assert rows(former, "SELECT id FROM infer_database_id") == [("a" * 32,)]
    counters = rows(former, "SELECT last_picture, last_object FROM infer_database_id")
    assert counters == [(others[-1][0], rows(former, "SELECT COUNT(*) FROM infer_objects")[0][0])]
    assert rows(former, "SELECT id FROM infer_objects ORDER BY picture, model_id, object") == [
        (number,) for number in range(1, counters[0][1] + 1)
    ]


def test_while_a_run_holds_a_day_it_is_refused(former, url):
    before = answers(url)
    run_id = RunStore(former).open_run(DAY, MODEL)
    with pytest.raises(DayHeld, match=run_id):
        upgrade(former)
    RunStore(former).fail_run(run_id, 1, "")
    after = answers(url)
    assert {name: rows for name, rows in after.items() if "run" not in name and "models" not in name} == {
        name: rows for name, rows in before.items() if "run" not in name and "models" not in name
    }
    upgrade(former)


def test_if_an_answer_would_differ_nothing_is_changed(former, url, monkeypatch):
    before, shape = answers(url), shape_of(former)
    monkeypatch.setattr(Filling, "_copy_objects", lambda *_: None)
    with pytest.raises(SchemaOutdated, match="infer_.* would not have as many rows of .* all is as it was"):
        upgrade(former)
    assert (answers(url), shape_of(former)) == (before, shape)


HUNG_ON = {
    "sqlite": ["CREATE TRIGGER theirs AFTER INSERT ON infer_predictions BEGIN SELECT 1; END",
               "CREATE TABLE their_own (x INTEGER REFERENCES infer_images (id))"],
    "postgres": ["CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'",
                 "CREATE TRIGGER theirs AFTER INSERT ON infer_predictions FOR EACH ROW EXECUTE FUNCTION f()",
                 "CREATE TABLE their_own (x INTEGER REFERENCES infer_images (id))",
                 "CREATE VIEW their_view AS SELECT image_id FROM infer_rejections"],
    "mariadb": ["CREATE TRIGGER theirs AFTER INSERT ON infer_predictions FOR EACH ROW SET @x = 1",
                "CREATE TABLE their_own (x INTEGER REFERENCES infer_images (id))"],
}  # fmt: skip


def test_what_the_user_has_hung_on_the_tables_is_named_and_stays(former, url, kind):
    execute_at(url, *HUNG_ON[kind], "ALTER TABLE infer_rejections ADD COLUMN note TEXT")
    before = answers(url)
    with pytest.raises(SchemaOutdated, match="would be lost") as caught:
        upgrade(former)
    named = ("trigger theirs", "their_own", "column note of infer_rejections", *(["their_view"] * (kind == "postgres")))
    assert [name for name in named if name not in str(caught.value)] == []
    assert answers(url) == before


@only("sqlite", "mariadb")
def test_views_of_the_users_go_on_naming_ours(former, url):
    execute_at(url, "CREATE VIEW their_view AS SELECT id, location FROM infer_images")
    before = rows(former, "SELECT * FROM their_view ORDER BY id")
    upgrade(former)
    assert rows(former, "SELECT * FROM their_view ORDER BY id") == before


@only("postgres")
def test_owners_and_grants_stay(former, url, add_role):
    """Those on images are of the table of pictures and of the view in its place."""
    owner = add_role("GRANT USAGE, CREATE ON SCHEMA {schema} TO {role}")
    reader = add_role(
        "GRANT SELECT, INSERT ON infer_images TO {role} WITH GRANT OPTION",
        "GRANT SELECT (model_id), SELECT (image_id), UPDATE ON infer_predictions TO {role}",
    )
    by_owner, owner, reader = owner, *(make_url(one).username for one in (owner, reader))
    quoted = former.dialect.identifier_preparer.quote(owner)
    execute_at(url, *(f"ALTER TABLE {name} OWNER TO {quoted}" for name in relations(former)))
    with Database(by_owner) as database:
        upgrade(database)
    tables = "('infer_images', 'infer_pictures', 'infer_predictions')"
    owners = rows(former, f"SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname IN {tables}")
    assert owners == [(owner,)] * 3
    given = "privilege_type, is_grantable FROM information_schema"
    assert rows(former, f"""
        SELECT table_name, {given}.table_privileges WHERE grantee = '{reader}' AND table_name IN {tables}
        UNION SELECT column_name, {given}.column_privileges
        WHERE grantee = '{reader}' AND table_name = 'infer_predictions' AND privilege_type = 'SELECT' ORDER BY 1, 2
    """) == [
        ("infer_images", "INSERT", "YES"), ("infer_images", "SELECT", "YES"),
        ("infer_pictures", "INSERT", "YES"), ("infer_pictures", "SELECT", "YES"),
        ("infer_predictions", "UPDATE", "NO"), ("model_id", "SELECT", "NO"),
    ]  # fmt: skip
    execute_at(url, f"REASSIGN OWNED BY {quoted} TO CURRENT_USER")


@only("sqlite")
def test_a_file_is_copied_first_and_only_once(former, url, tmp_path, caplog):
    before = answers(url)
    upgrade(former)
    copy = tmp_path / "infer.before-layout-2.db"
    assert f"{copy} is a copy" in caplog.text
    assert answers(f"sqlite:///{copy}") == before
    assert sorted(path.name for path in tmp_path.iterdir() if "before" in path.name) == [copy.name]
    restored = tmp_path / "again.db"
    fill_former(f"sqlite:///{restored}")
    kept = tmp_path / "again.before-layout-2.db"
    kept.write_bytes(b"complete")
    with Database(f"sqlite:///{restored}") as database:
        upgrade(database)
    assert kept.read_bytes() == b"complete"


def test_a_dry_run_tells_what_would_be_done_and_changes_nothing(former, url):
    before, shape = answers(url), shape_of(former)
    told = estimate_upgrade(former)
    assert (told.before, told.num_measured, told.rows["infer_images"]) == ("0.1.0", 73, 7)
    assert told.rows["infer_predictions"] + told.rows["infer_rejections"] == 73
    assert 0 < told.seconds < 60
    assert told.num_bytes > 100_000
    assert (answers(url), shape_of(former)) == (before, shape)
    upgrade(former)
    assert estimate_upgrade(former) == Estimate(VERSION, {})
