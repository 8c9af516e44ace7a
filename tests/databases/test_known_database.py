"""A project knows its database: one that is gone or empty is refused, and another project's is only read."""

import errno
import os
import shutil
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import make_url, select

from infer_app.base.errors import DatabaseUnavailable, OtherProject, UsageError
from infer_app.base.settings.load import load_settings
from infer_app.cli.project.project import join_project, upgrade, write_config
from infer_app.tables import known_database
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
        assert connection.execute(select(project_table.c.id, project_table.c.last_picture)).all() == [
            (before.split()[0], 0)
        ]
    assert (loaded.folder / ID_FILE).read_text() == before


def elsewhere(loaded, name="elsewhere"):
    """Return the settings of another folder over the same database."""
    folder = loaded.folder / name
    folder.mkdir()
    return load_settings(write_config(folder, settings=loaded.path.read_text()))


@pytest.fixture
def owned(loaded, monkeypatch):
    """A project that has written, in a SQLite file that lies in no folder of settings."""
    if loaded.database_url.startswith("sqlite"):
        apart = loaded.folder / "databases"
        apart.mkdir()
        url = f"sqlite:///{shutil.move(make_url(loaded.database_url).database, apart / 'infer.db')}"
        monkeypatch.setenv("INFER_DATABASE__URL", url)
        loaded = load_settings(loaded.path)
    open_to_write(loaded)
    return loaded


def refused(loaded, owner):
    """Assert that the settings may read and not write; those of the last command that wrote are told the ids."""
    told = (
        "is the database .*, and .* names"
        if owner.path == loaded.path
        else f"belongs to the project in {owner.folder} on "
    )
    for use in (open_to_write, upgrade_tables):
        with pytest.raises(OtherProject, match=told) as caught:
            use(loaded)
        assert "if this is the same project, run `infer db join` once" in caught.value.hint
    for use in (open_to_read, read_in_use):
        use(loaded)


def test_another_projects_database_is_only_read_until_the_project_is_joined(owned, capsys):
    other = elsewhere(owned)
    refused(other, owned)
    assert not (other.folder / ID_FILE).exists()
    join_project(other.path)
    open_to_write(other)
    other.path.with_suffix(".database-id").write_text("another\n")
    refused(other, other)
    open_to_write(owned)
    refused(other, owned)
    join_project(other.path)
    open_to_write(other)


def by_rename(owned):
    return load_settings(owned.folder.rename(owned.folder.with_name(f"{owned.folder.name}-renamed")) / owned.path.name)


def by_copy(owned):
    return load_settings(
        Path(shutil.copytree(owned.folder, owned.folder.with_name(f"{owned.folder.name}-copied"))) / owned.path.name
    )


def by_link(owned):
    link = owned.folder.with_name(f"{owned.folder.name}-linked")
    link.symlink_to(owned.folder)
    return load_settings(link / owned.path.name)


def by_restore_of_the_folder(owned):
    (owned.folder / ID_FILE).write_text((owned.folder / ID_FILE).read_text().split()[0])
    return owned


@pytest.mark.parametrize("change", [by_rename, by_copy, by_link, by_restore_of_the_folder])
def test_a_project_is_the_same_without_a_word(loaded, change, monkeypatch):
    if loaded.database_url.startswith("sqlite"):
        monkeypatch.setenv("INFER_DATABASE__URL", "sqlite:///infer.db")
    changed = change(loaded)
    for use in EVERY_WAY:
        use(changed)


def test_other_settings_of_the_folder_are_of_the_same_project(owned):
    beside = owned.path.rename(owned.folder / "gpu.toml")
    for use in EVERY_WAY:
        use(load_settings(beside))
    assert beside.with_suffix(".database-id").read_text().split()[0] == (owned.folder / ID_FILE).read_text().split()[0]


def test_in_a_folder_that_cannot_be_written_the_settings_say_whose_they_are(owned, monkeypatch):
    other, own = elsewhere(owned), (owned.folder / ID_FILE).read_text().split()[0]

    def cannot_be_written(file, content):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as read_only:
        read_only.setattr(known_database, "replace_file", cannot_be_written)
        with pytest.raises(UsageError, match="can't write") as caught:
            join_project(other.path)
        assert f'write project = "{own}" below [database]' in caught.value.hint
        monkeypatch.setenv("INFER_DATABASE__PROJECT", own)
        for use in EVERY_WAY:
            use(load_settings(other.path))
    monkeypatch.setenv("INFER_DATABASE__PROJECT", "another")
    refused(load_settings(other.path), other)
    with pytest.raises(UsageError, match="\\[database\\] project is 'another'"):
        join_project(other.path)


@only("sqlite")
def test_a_file_in_the_folder_is_its_own_and_a_link_to_one_elsewhere_is_not(loaded, monkeypatch):
    monkeypatch.setenv("INFER_DATABASE__URL", "sqlite:///infer.db")
    loaded = load_settings(loaded.path)
    open_to_write(loaded)
    (loaded.folder / ID_FILE).unlink()  # as in a backup without it
    open_to_write(loaded)
    other = elsewhere(loaded)
    (other.folder / "infer.db").symlink_to(loaded.folder / "infer.db")
    refused(other, loaded)


def test_a_name_for_the_project_may_be_chosen_before_there_are_tables(tmp_path, url, monkeypatch):
    monkeypatch.setenv("INFER_DATABASE__URL", url)
    monkeypatch.setenv("INFER_DATABASE__PROJECT", "lab.cameras-1")
    config = write_config(tmp_path)
    upgrade(config)
    assert (tmp_path / ID_FILE).read_text().split()[0] == "lab.cameras-1"


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


@only("sqlite")
def test_a_run_makes_no_tables_for_a_project_that_is_named(loaded, monkeypatch):
    """No file tells in a folder that can't be written that they were there."""
    monkeypatch.setenv("INFER_DATABASE__URL", "sqlite:///new.db")
    monkeypatch.setenv("INFER_DATABASE__PROJECT", "cameras")
    (loaded.folder / ID_FILE).unlink()
    loaded = load_settings(loaded.path)
    with pytest.raises(DatabaseUnavailable, match="does not exist"):
        open_to_write(loaded)
    upgrade_tables(loaded)
    open_to_write(loaded)


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
