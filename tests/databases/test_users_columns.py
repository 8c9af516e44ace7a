"""Columns of the user's that a page could not tell apart, and PostgreSQL in other encodings than UTF-8."""

import uuid

import pytest
from sqlalchemy import create_engine, make_url

from infer_app.base.domain import Broken, ImageRef, Output, Prediction, Reason
from infer_app.base.errors import UsageError
from infer_app.base.read_limits import ReadLimits
from infer_app.base.settings.sections import SourceSettings
from infer_app.predict.images.read.read_image import read_image
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.row_images import RowReader
from infer_app.tables.listing.source_checks import check_source
from infer_app.tables.listing.user_table import UserTable
from infer_app.tables.results.migrate import upgrade
from infer_app.tables.results.schema import predictions
from tests.conftest import DAY
from tests.databases.conftest import only
from tests.support.listings import listed, select_new
from tests.support.results import commit, run_day, stored

SHOTS = SourceSettings(table="shots", time_zone="UTC")


@only("sqlite", "mariadb")  # PostgreSQL's collations tell all texts apart, unless one is made not to
def test_ids_that_a_collation_takes_for_equal_are_those_of_two_images(database, execute, kind):
    collation = {"sqlite": "COLLATE NOCASE", "mariadb": "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"}[kind]
    execute(f"CREATE TABLE shots (id VARCHAR(20) {collation}, location TEXT, added_at DATE)")
    execute("INSERT INTO shots VALUES ('a', '/a.jpg', '2026-11-20'), ('A', '/a.jpg', '2026-11-20')")
    source = listed(database, SHOTS)
    assert sorted(ref.image_id for ref in run_day(database, source, DAY)) == ["A", "a"]
    assert stored(database, predictions, "label") == {"A": ("cat",), "a": ("cat",)}
    assert source.find_by_id("A", DAY) == [("/a.jpg", DAY.start)]


@only("postgres", "mariadb")  # all numbers of SQLite are double
@pytest.mark.parametrize("key", ["id", "added_at"])
def test_numbers_that_are_not_read_as_they_are_stored_are_refused(database, execute, kind, key):
    single = "REAL" if kind == "postgres" else "FLOAT"
    columns = {"id": "INTEGER", "location": "TEXT", "added_at": "DATE"} | {key: single}
    execute(f"CREATE TABLE shots ({', '.join(f'{name} {type_}' for name, type_ in columns.items())})")
    with pytest.raises(UsageError, match="single precision"):
        check_source(UserTable(database, SHOTS))


@only("mariadb")  # PostgreSQL writes them as text, SQLite hands them on
def test_ids_of_bytes_that_are_no_text_are_refused_before_the_run(database, execute):
    execute("CREATE TABLE shots (id BINARY(16), location TEXT, added_at DATE)")
    table = UserTable(database, SHOTS)
    execute("INSERT INTO shots VALUES ('sixteen letters.', '/a.jpg', '2026-11-20')")
    check_source(table)
    execute("DELETE FROM shots")
    row = {"id": uuid.UUID("f47ac10b-58cc-4372-a567-0e02b2c3d479").bytes}
    execute(("INSERT INTO shots VALUES (:id, '/a.jpg', '2026-11-20')", [row]))
    with pytest.raises(UsageError, match="bytes that are not text"):
        check_source(table)


def test_an_image_in_a_column_is_found_by_its_own_id_only(url, execute, kind):
    bytes_, is_uuid = {"sqlite": "BLOB", "postgres": "BYTEA", "mariadb": "BLOB"}[kind], kind == "postgres"
    execute(
        f"CREATE TABLE shots (id INTEGER PRIMARY KEY, tag {'UUID' if is_uuid else 'VARCHAR(80)'}, picture {bytes_},"
        " at INTEGER)"
    )
    tag = "f47ac10b-58cc-4372-a567-0e02b2c3d479"
    execute((f"INSERT INTO shots VALUES (17, '{tag}', :picture, 5)", [{"picture": b"data"}]))
    for column, own, others in (
        ("id", "17", ["scan-7", "017", "9" * 19, "9" * 30, ""]),
        ("tag", tag, [tag.upper(), "17", ""]),
    ):
        reader = RowReader(url, SourceSettings(table="shots", id=column, bytes="picture", time="at"))
        assert reader.read(f"{own}@5", 100) == (4, b"data")
        assert [reader.read(f"{other}@5", 100) for other in others] == [None] * len(others)
        assert reader.read(f"{own}@6", 100) is None
        reader._open[0].close()


def test_images_in_some_rows_and_paths_in_others_are_both_read(url, database, execute, kind, tmp_path):
    bytes_ = "BYTEA" if kind == "postgres" else "BLOB"
    execute(f"CREATE TABLE shots (id INTEGER PRIMARY KEY, picture {bytes_}, path TEXT, added_at DATE)")
    file = tmp_path / "2.jpg"
    file.write_bytes(b"in a file")
    rows = [(1, b"in the row", None), (2, None, str(file)), (3, b"both", "/elsewhere.jpg"), (4, None, None)]
    insert = "INSERT INTO shots VALUES (:id, :picture, :path, '2026-11-20')"
    execute((insert, [dict(zip(("id", "picture", "path"), row, strict=True)) for row in rows]))
    settings = {"table": "shots", "bytes": "picture", "time_zone": "UTC"}
    for query in (None, "SELECT id, picture, path, added_at FROM shots"):
        both = SourceSettings(**settings, location="path", query=query)
        check_source(UserTable(database, both))
        refs = select_new(database, both)
        assert [ref.location for ref in refs] == ["row:1@2026-11-20", str(file), "row:3@2026-11-20", ""]
        limits = ReadLimits((tmp_path,), 100, rows=RowReader(url, both))
        assert [read_image(ref.location, limits).data for ref in refs[:3]] == [b"in the row", b"in a file", b"both"]
        limits.rows._open[0].close()
    refs = select_new(database, SourceSettings(**settings))
    assert sorted(ref.location for ref in refs) == [f"row:{number}@2026-11-20" for number in range(1, 5)]
    for key in ("location", "bytes"):
        with pytest.raises(UsageError, match=f"{key} = 'paths' is not a column of shots"):
            check_source(UserTable(database, SourceSettings(**settings | {key: "paths"})))


@only("postgres")  # the others have our tables in UTF-8
@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII", "UTF8"])
def test_text_is_the_same_in_a_database_of_any_encoding(server_url, encoding, monkeypatch):
    """The client's own setting, by the environment, is another one."""
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    admin = create_engine(make_url(server_url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    name = f"infer_test_{encoding.lower()}"
    with admin.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    try:
        with Database(make_url(server_url).set(database=name).render_as_string(False)) as database:
            upgrade(database)
            with database.write() as connection:
                connection.exec_driver_sql(
                    "CREATE TABLE shots (id text, location text, added_at date);"
                    "INSERT INTO shots VALUES ('é', '/é.jpg', '2026-11-20'), ('ü', '/ü.jpg', '2026-11-20')"
                )
            refs = [ImageRef("é", "/é.jpg"), ImageRef("ü", "/ü.jpg")]
            assert select_new(database, SHOTS, model_id="model") == refs
            written = {"model_id": "model", "registered": False}
            commit(database, bad=[Broken(ref, Reason.CORRUPT, "", "decode") for ref in refs], **written)
            commit(database, [Prediction(ref, Output(label="Möwe")) for ref in refs], **written)
            assert select_new(database, SHOTS, model_id="model") == []
            with database.read() as connection:
                assert connection.exec_driver_sql("SELECT * FROM infer_rejections").all() == []
            assert stored(database, predictions, "label") == {"é": ("Möwe",), "ü": ("Möwe",)}
    finally:
        with admin.connect() as connection:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
        admin.dispose()
