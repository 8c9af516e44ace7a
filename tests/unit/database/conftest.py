"""A migrated database for each test: a copy of one that was migrated once."""

import shutil

import pytest

from infer_app.database.engine.connect import Database
from infer_app.database.results.migrate import upgrade


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("migrated") / "infer.db"
    with Database(f"sqlite:///{file}") as database:
        upgrade(database)
    return file


@pytest.fixture
def database(tmp_path, migrated_file):
    shutil.copy(migrated_file, tmp_path)
    with Database(f"sqlite:///{tmp_path / 'infer.db'}") as database:
        yield database
