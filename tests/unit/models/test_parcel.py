"""A model that travels: what is sent, what is kept where it arrives, what is refused."""

import os
import time
from dataclasses import replace

import pytest
from small_models import built

from infer_app.errors import ModelError
from infer_app.models.artifact import open_artifact, record_variant
from infer_app.models.parcel import KEPT_S, pack, unpack


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
    folder = unpack(parcel)
    assert folder == cache / parcel.sha256
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert there == {*artifact.manifest.files, "manifest.json"} - {"variants/other/b.bin"}
    assert open_artifact(folder).read("variants/wanted/a.bin") == b"a"
    assert pack(artifact, "wanted") == parcel


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


def test_a_changed_file_does_not_leave(artifact):
    file = artifact.folder / artifact.manifest.model_file
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ModelError, match="changed since it was built"):
        pack(artifact, "x")


def test_a_parcel_that_was_changed_on_its_way_is_refused(artifact):
    parcel = pack(artifact, "x")
    with pytest.raises(ModelError, match="changed on its way"):
        unpack(replace(parcel, files=parcel.files | {"labels.txt": b"others"}))


def test_without_a_home_to_write_to_it_lies_in_the_temporary_folder(artifact, tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("no folder")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    assert unpack(pack(artifact, "x")).is_relative_to(tmp_path / "tmp")


def test_where_nothing_can_be_written_it_says_where_it_tried(artifact, tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("no folder")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "cache"))
    with pytest.raises(ModelError, match="can't be kept on this machine"):
        unpack(pack(artifact, "x"))
