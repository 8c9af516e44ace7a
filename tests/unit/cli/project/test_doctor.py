import os
from types import SimpleNamespace

import pytest

from infer_app.cli.project import doctor
from infer_app.cli.project.project import upgrade, write_config
from infer_app.database.engine import sqlite
from infer_app.errors import ModelError
from infer_app.settings.load import load_settings
from infer_app.versions import Mismatch


def findings(monkeypatch, *mismatches, torchvision=None):
    def require_library(name):
        if torchvision:
            raise torchvision

    monkeypatch.setattr(doctor, "require_library", require_library)
    monkeypatch.setattr(doctor, "find_mismatches", lambda: iter(mismatches))
    return [(one.check, one.found, one.fix, one.exit_code) for one in doctor._versions(None)]


def test_versions_that_are_not_supported_are_named_with_the_command_that_installs_others(monkeypatch):
    torch = Mismatch("torch", "2.15.0", "torch<2.14,>=2.11")
    found = "torch 2.15.0 is untested: torch<2.14,>=2.11 is required"
    assert findings(monkeypatch, torch) == [("versions", found, torch.fix, 0)]
    missing = Mismatch("openvino", None, "openvino>=2026.0")
    found = "openvino is not installed: openvino>=2026.0 is required"
    assert findings(monkeypatch, missing) == [("versions", found, missing.fix, 0)]


def test_versions_that_fit_are_one_line(monkeypatch):
    ((check, found, fix, exit_code),) = findings(monkeypatch)
    assert (check, fix, exit_code) == ("versions", "", 0)
    assert found.startswith("torch ")
    assert found.endswith(": as required")


def test_a_torchvision_of_another_torch_is_noted(monkeypatch):
    monkeypatch.setattr(doctor, "find_spec", str)
    _, found = findings(monkeypatch, torchvision=ModelError("torchvision can't be imported", "install the other"))
    assert found == ("versions", "torchvision can't be imported", "install the other", 0)
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    assert len(findings(monkeypatch, torchvision=ModelError("not installed"))) == 1


@pytest.fixture
def loaded(tmp_path):
    write_config(tmp_path)
    upgrade(None, tmp_path / "infer.toml")
    return load_settings(tmp_path / "infer.toml")


def failures(loaded):
    found = list(doctor._run_check(doctor._database, loaded))
    return [(one.check, one.found, one.fix) for one in found if one.exit_code == 10]


def test_a_database_that_can_not_be_written_is_a_failure(loaded, tmp_path, monkeypatch):
    assert failures(loaded) == []
    file = tmp_path / "infer.db"
    monkeypatch.setattr(os, "access", lambda path, _: path != file)
    ((check, found, fix),) = failures(loaded)
    assert (check, found) == ("database", f"{file} is read-only")
    assert f"chmod u+w {file}" in fix


def test_a_damaged_file_is_a_failure(loaded, tmp_path):
    with (tmp_path / "infer.db").open("r+b") as file:
        file.seek(2 * 4096)
        file.write(bytes(4096))
    (found,) = failures(loaded)
    assert found[0] == "database"
    assert found[2] == sqlite.HINT_DAMAGED


def test_a_full_disk_is_a_failure(loaded, monkeypatch):
    monkeypatch.setattr(sqlite.shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    fix = "free some space: a full disk ends a run"
    assert failures(loaded) == [("disk", "0.0 GiB free beside the database", fix)]
