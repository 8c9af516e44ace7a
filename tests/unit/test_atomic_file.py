import errno
import os

import pytest

from infer_app.atomic_file import replace_file


def test_the_content_is_replaced_and_the_permissions_stay(tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text("old")
    path.chmod(0o640)
    replace_file(path, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o640)
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_can_be_read_by_others(tmp_path):
    path = tmp_path / "manifest.json"
    replace_file(path, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o644)


def test_a_full_disk_leaves_the_old_content_and_nothing_else(tmp_path, monkeypatch):
    def fails(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "manifest.json"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new")
    assert [(found, found.read_text()) for found in tmp_path.iterdir()] == [(path, "old")]
