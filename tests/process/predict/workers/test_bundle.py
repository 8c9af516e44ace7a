import os
import pickle
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from infer_app.artifact.artifact import open_artifact, record_variant
from infer_app.base.errors import ModelError
from infer_app.predict.workers.bundle import KEPT_S, pack, unpack
from infer_app.predict.workers.fork_server import run_folder
from tests.support.networks import built


@pytest.fixture
def artifact(tmp_path):
    return built(tmp_path)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "infer_app" / "parcels"


def test_what_arrives_is_the_model_without_variants_that_do_not_run(artifact, cache):
    artifact = record_variant(artifact, "wanted", {}, {"a.bin": b"a"})
    artifact = record_variant(artifact, "other", {}, {"b.bin": b"b"})
    parcel = pack(artifact, "wanted")
    before = os.umask(0)  # the folder is the user's own whatever the umask
    try:
        folder = unpack(parcel)
    finally:
        os.umask(before)
    assert folder == cache / parcel.sha256
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert there == {*artifact.manifest.files, "manifest.json"} - {"variants/other/b.bin"}
    assert open_artifact(folder).read("variants/wanted/a.bin") == b"a"
    assert (pack(artifact, "wanted"), unpack(parcel)) == (parcel, folder)


def test_a_file_that_was_changed_where_it_is_kept_is_written_again(artifact):
    parcel = pack(artifact, "x")
    file = unpack(parcel) / artifact.manifest.model_file
    before = file.read_bytes()
    file.write_bytes(before[:-1])
    unpack(parcel)
    assert file.read_bytes() == before


def test_one_that_was_not_needed_for_a_month_is_forgotten(artifact, cache):
    other = unpack(pack(artifact, "x"))
    recent = unpack(pack(record_variant(artifact, "y", {}, {"y.bin": b"y"}), "y"))
    os.utime(other, (time.time() - KEPT_S - 60,) * 2)
    os.utime(recent, (time.time() - KEPT_S + 60,) * 2)
    needed = unpack(pack(record_variant(artifact, "z", {}, {"z.bin": b"z"}), "z"))
    assert {*cache.iterdir()} == {recent, needed}


def test_a_parcel_that_was_changed_or_can_not_be_kept_is_refused(artifact, tmp_path):
    parcel = pack(artifact, "x")
    with pytest.raises(ModelError, match="changed on its way"):
        unpack(replace(parcel, files=parcel.files | {"labels.txt": b"others"}))
    for no_folder in (tmp_path / "cache", run_folder() / "parcels"):
        no_folder.touch()
    with pytest.raises(ModelError, match="can't be kept on this machine"):
        unpack(parcel)
    no_folder.unlink()


def unpack_elsewhere(parcel, **environ):
    """The folder that a process of its own unpacks it to, and the modes of that and its parents."""
    code = (
        "import pickle, sys; from infer_app.predict.workers.bundle import unpack\n"
        "folder = unpack(pickle.load(sys.stdin.buffer))\n"
        "print(folder, *(oct(one.stat().st_mode)[-4:] for one in (folder, *folder.parents)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(parcel), capture_output=True, env=os.environ | environ
    )
    assert ended.returncode == 0, ended.stderr.decode()
    folder, *modes = ended.stdout.decode().split()
    return Path(folder), modes


def test_without_a_home_each_run_has_a_folder_that_only_its_user_may_enter(artifact, tmp_path):
    """A name that can be guessed might be another user's, who would exchange the model before it is loaded."""
    (tmp_path / "cache").write_text("no folder")
    parcel = pack(artifact, "x")
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # a longer path is not used: sockets lie in it
        guessed = Path(short) / f"infer_app-{os.getuid()}"
        (guessed / "parcels").mkdir(parents=True)
        folders = [unpack_elsewhere(parcel, TMPDIR=short) for _ in range(2)]
        assert folders[0][0] != folders[1][0]
        for folder, modes in folders:
            assert folder.is_relative_to(short)
            assert not folder.is_relative_to(guessed)
            assert set(modes[: len(folder.relative_to(short).parts)]) == {"0700"}
            assert not folder.exists()  # gone with its run


@pytest.mark.parametrize("place", [".", "infer_app", "infer_app/parcels"])
def test_a_folder_of_the_users_in_which_others_may_write_is_not_used(artifact, cache, place):
    open_to_all = cache.parents[1] / place
    open_to_all.mkdir(parents=True)
    open_to_all.chmod(0o777)
    assert not unpack(pack(artifact, "x")).is_relative_to(cache)
