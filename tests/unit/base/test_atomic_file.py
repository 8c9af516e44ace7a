import errno
import os
from contextlib import nullcontext

import pytest

from infer_app.base.atomic_file import new_content, replace_file


def test_the_content_is_replaced_and_the_permissions_stay(tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text("old")
    path.chmod(0o640)
    replace_file(path, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o640)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("has_nameless", [True, False])
@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path, monkeypatch, umask, mask, has_nameless):
    if not has_nameless:
        refuse_nameless_files(monkeypatch)
    umask(mask)
    path = tmp_path / "manifest.json"
    replace_file(path, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o666 & ~mask)


def test_a_folder_of_that_name_is_left_alone(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path / "folder", b"new")
    assert [found.name for found in tmp_path.iterdir()] == ["folder"]


def test_a_full_disk_leaves_the_old_content_and_nothing_else(tmp_path, no_space):
    path = tmp_path / "manifest.json"
    path.write_text("old")
    with pytest.raises(OSError, match="File too large"), no_space():
        replace_file(path, b"new")
    assert [(found, found.read_text()) for found in tmp_path.iterdir()] == [(path, "old")]


def test_a_file_has_no_name_until_it_is_complete(tmp_path):
    with new_content(tmp_path / "a.json") as file:
        file.write(b"new")
        file.flush()
        assert list(tmp_path.iterdir()) == []
    assert [(found.name, found.read_bytes()) for found in tmp_path.iterdir()] == [("a.json", b"new")]


def refuse_nameless_files(monkeypatch):
    def refuse(path, flags, *rest, open_file=os.open):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return open_file(path, flags, *rest)

    monkeypatch.setattr(os, "open", refuse)


@pytest.mark.parametrize("fails", [False, True])
def test_a_file_system_without_nameless_files_has_a_hidden_one_meanwhile(tmp_path, monkeypatch, fails):
    refuse_nameless_files(monkeypatch)
    path = tmp_path / "a.json"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt) if fails else nullcontext(), new_content(path) as file:
        file.write(b"new")
        [hidden] = {found.name for found in tmp_path.iterdir()} - {"a.json"}
        assert hidden.startswith(".new-")
        if fails:
            raise KeyboardInterrupt
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [("a.json", "old" if fails else "new")]


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    replace_file(link, b"new")
    assert (link.is_symlink(), target.read_bytes()) == (True, b"new")


def test_a_pipe_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="a device or a pipe"):
        replace_file(pipe, b"new")
    assert pipe.is_fifo()
