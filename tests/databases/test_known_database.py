"""A project knows its database: one that is gone, empty or another's is refused, and nothing is written."""

from datetime import datetime

import pytest
from sqlalchemy import select

from infer_app.base.errors import DatabaseUnavailable
from infer_app.base.settings.load import load_settings
from infer_app.cli.project.project import upgrade, write_config
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.image_registry import add_images
from infer_app.tables.project_database import open_results_database, read_in_use
from infer_app.tables.results.schema import VERSION_TABLE, metadata, pictures, project_table
from infer_app.tables.results.views import VIEWS
from tests.databases.conftest import only

ID_FILE = "infer.database-id"


@pytest.fixture
def loaded(tmp_path, url, monkeypatch):
    """A project whose database was made by `infer db upgrade`."""
    monkeypatch.setenv("INFER_DATABASE__URL", url)
    config = write_config(tmp_path)
    upgrade(config)
    return load_settings(config)


def open_to_read(loaded):
    with open_results_database(loaded, read_only=True):
        pass


def open_to_write(loaded):
    with open_results_database(loaded):
        pass


def upgrade_tables(loaded):
    upgrade(loaded.path)


EVERY_WAY = (open_to_read, open_to_write, upgrade_tables, read_in_use)


def refusals(loaded):
    """The messages and hints of every way in which a command uses the database."""
    found = set()
    for use in EVERY_WAY:
        with pytest.raises(DatabaseUnavailable) as caught:
            use(loaded)
        assert caught.value.exit_code == 10
        assert f"delete {ID_FILE} if this change is meant" in caught.value.hint
        found.add(caught.value.message)
    (message,) = found
    return message


def test_its_own_database_is_used_in_every_way(loaded):
    before = (loaded.folder / ID_FILE).read_text()
    for use in EVERY_WAY:
        use(loaded)
    with Database(loaded.database_url) as database, database.read() as connection:
        assert connection.execute(project_table.select()).all() == [(before.split()[0], 0, 0, 0)]
    assert (loaded.folder / ID_FILE).read_text() == before


def test_the_file_is_written_by_the_first_command_that_writes(loaded):
    file = loaded.folder / ID_FILE
    before = file.read_text()
    file.unlink()
    open_to_read(loaded)
    assert not file.exists()
    open_to_write(loaded)
    assert file.read_text() == before


def test_another_projects_database_is_refused_until_the_change_is_meant(loaded):
    file = loaded.folder / ID_FILE
    own = file.read_text()
    file.write_text("another\n")
    assert refusals(loaded).endswith(f" is not this project's database, whose id {ID_FILE} has")
    file.unlink()
    open_to_write(loaded)
    assert file.read_text() == own


def test_an_empty_database_is_refused_and_stays_empty(loaded):
    with Database(loaded.database_url) as database, database.write() as connection:
        for view in reversed(VIEWS):
            connection.exec_driver_sql(f"DROP VIEW {view}")
        for table in (*map(str, reversed(metadata.sorted_tables)), VERSION_TABLE):
            connection.exec_driver_sql(f"DROP TABLE {table}")
    assert refusals(loaded).endswith(" has no infer_ tables, this project's database has some")
    (loaded.folder / ID_FILE).unlink()
    upgrade_tables(loaded)
    open_to_read(loaded)


@only("sqlite")
def test_a_file_that_is_gone_is_refused_and_not_made_again(loaded):
    with Database(loaded.database_url) as database:
        file = database.file
    assert file is not None
    file.unlink()
    assert refusals(loaded) == f"{loaded.shown_url}, this project's database, does not exist"
    assert not file.exists()


def test_a_number_that_was_given_before_a_restore_is_not_given_again(loaded):
    """What a backup is restored to is a database with lower counters, and without the later images."""

    def add(name):
        with open_results_database(loaded) as database:
            add_images(database, [loaded.folder / name], datetime(2026, 11, 20))
            with database.read() as connection:
                return dict(connection.execute(select(pictures.c.location, pictures.c.id)).all())

    add("1.jpg"), add("2.jpg")
    with Database(loaded.database_url) as database, database.write() as connection:
        connection.execute(pictures.delete().where(pictures.c.id > 1))
        connection.execute(project_table.update().values(last_picture=1))
    assert add("3.jpg") == {str(loaded.folder / "1.jpg"): 1, str(loaded.folder / "3.jpg"): 3}
