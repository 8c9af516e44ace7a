"""`infer doctor` on a database that fails: what it says, and the exit code that a run would end with."""

import json
from types import SimpleNamespace

import pytest

from infer_app.cli.project.doctor import examine
from infer_app.cli.project.project import upgrade, write_config
from infer_app.tables.engine import sqlite_file as sqlite


@pytest.fixture
def failures(shared_folder, capsys):
    """The findings about the database that would end a run."""
    config = write_config(shared_folder)
    upgrade(config)
    (shared_folder / "infer.db").chmod(0o666)

    def find():
        capsys.readouterr()
        examine(None, True, config)
        found = json.loads(capsys.readouterr().out)["findings"]
        return [(one["check"], one["found"], one["fix"]) for one in found if one["exit_code"] in (10, 74)]

    return find


def test_a_database_that_can_not_be_written_is_a_failure(failures, shared_folder):
    assert failures() == []
    file = shared_folder / "infer.db"
    file.chmod(0o444)
    ((check, found, fix),) = failures()
    assert (check, found) == ("database", f"{file} is read-only")
    assert f"chmod u+w {file}" in fix


def test_a_damaged_file_is_a_failure(failures, shared_folder):
    with (shared_folder / "infer.db").open("r+b") as file:
        file.seek(2 * 4096)
        file.write(bytes(4096))
    assert ("database", sqlite.HINT_DAMAGED) in [(check, fix) for check, _, fix in failures()]


def test_a_full_disk_is_a_failure(failures, monkeypatch):
    monkeypatch.setattr(sqlite.shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    fix = "free some space: a full disk ends a run"
    assert ("disk", "0.0 GiB free beside the database", fix) in failures()
