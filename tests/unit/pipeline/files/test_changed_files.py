"""Which watched folders are taken for folders whose images are registered elsewhere, and which files have changed."""

import hashlib
import os
import shutil
from datetime import datetime
from functools import partial

import pytest
from sqlalchemy import insert, update

from infer_app.cli.project.project import watching, write_config
from infer_app.database.engine.connect import Database
from infer_app.database.listing.image_registry import DatedImage, register
from infer_app.database.listing.source import Source
from infer_app.database.project_database import ProjectDatabase
from infer_app.database.queries.day_queries import DayQueries
from infer_app.database.results.migrate import upgrade
from infer_app.database.results.runs import RunStore
from infer_app.database.results.schema import images
from infer_app.database.results.sink import Sink
from infer_app.domain import Broken, ChunkResult, FileFacts, ImageRef, Reason
from infer_app.errors import ModelError
from infer_app.images.read.folder_scan import FolderScan
from infer_app.locations import NO_MAPPING
from infer_app.pipeline.files import changed_files
from infer_app.pipeline.files.changed_files import find_moved
from infer_app.settings.load import load_settings
from infer_app.settings.sections import SourceSettings
from tests.conftest import DAY, MODEL, make_users_file

NUM_PHOTOS = 10


def known_folder(database, folder, hashed=True):
    """A folder of photos of one size, which are registered."""
    folder.mkdir(parents=True)
    for number in range(NUM_PHOTOS):
        (folder / f"{number}.bmp").write_bytes(b"%09d" % number)
        os.utime(folder / f"{number}.bmp", (1.5e9 + number, 1.5e9 + number))
    files = sorted(FolderScan(str(folder)))
    list(register(database, files, lambda new: [DatedImage(file, datetime(2026, 11, 20)) for file in new]))
    for number in range(NUM_PHOTOS) if hashed else ():
        sha256 = hashlib.sha256(b"%09d" % number).hexdigest()
        with database.write() as connection:
            named = update(images).where(images.c.location == f"{folder}/{number}.bmp")
            connection.execute(named.values(sha256=sha256))
    return folder


def moved(database, project, *watched):
    project.mkdir(exist_ok=True)
    (project / "infer.toml").unlink(missing_ok=True)
    write_config(project, watching('", "'.join(watched)))
    loaded = load_settings(project / "infer.toml")
    recorded = [f"{folder}/" for folder in loaded.watched]
    found = find_moved(database, loaded, recorded, lambda function, *args: iter(function(*args)))
    return [(one.old, one.new) for one in found]


def moved_from(old, new):
    return [(f"{old}/", f"{new}/")]


COPY_WITHOUT_TIMES = partial(shutil.copytree, copy_function=shutil.copyfile)


@pytest.mark.parametrize(
    ("copy", "hashed", "is_moved"),
    [
        (shutil.copytree, False, True),
        (COPY_WITHOUT_TIMES, True, True),
        (COPY_WITHOUT_TIMES, False, False),  # nothing shows that they are the same pictures
    ],
)
def test_photos_are_the_same_by_their_times_or_their_content(database, tmp_path, copy, hashed, is_moved):
    old = known_folder(database, tmp_path / "old", hashed)
    new = copy(old, tmp_path / "project/photos")
    assert moved(database, tmp_path / "project", "photos") == (moved_from(old, new) if is_moved else [])


def test_a_part_of_a_known_folder_was_moved_though_most_older_photos_are_gone_and_most_of_the_others_are_new(
    database, tmp_path
):
    old = known_folder(database, tmp_path / "old/2026")
    new = shutil.copytree(tmp_path / "old", tmp_path / "project/photos")
    for number in range(4):
        (new / f"2026/{number}.bmp").unlink()
    for number in range(100):
        (new / f"new{number}.bmp").write_bytes(b"%09d" % number)
    assert moved(database, tmp_path / "project", "photos") == moved_from(old.parent, new)


@pytest.mark.parametrize("deleted", [range(7), range(6, 10)], ids=["the first", "the last"])
def test_a_folder_was_moved_though_many_of_its_photos_were_deleted_before(database, tmp_path, deleted, monkeypatch):
    monkeypatch.setattr(changed_files, "NUM_COMPARED", 4)
    old = known_folder(database, tmp_path / "old")
    new = shutil.copytree(old, tmp_path / "project/photos")
    for number in deleted:
        (new / f"{number}.bmp").unlink()
    assert moved(database, tmp_path / "project", "photos") == moved_from(old, new)


def test_a_camera_that_begins_with_the_same_names_each_time_has_not_moved_its_folder(database, tmp_path):
    old = known_folder(database, tmp_path / "session1")
    new = COPY_WITHOUT_TIMES(old, tmp_path / "project/session2")
    for file in new.iterdir():
        file.write_bytes(file.read_bytes()[::-1].replace(b"0", b"x"))
    assert moved(database, tmp_path / "project", "session2") == []


def test_a_folder_is_not_moved_with_one_photo_that_was_copied_from_it(database, tmp_path):
    old = known_folder(database, tmp_path / "old")
    new = tmp_path / "project/photos"
    new.mkdir(parents=True)
    shutil.copy2(old / "3.bmp", new)
    assert moved(database, tmp_path / "project", "photos") == []


@pytest.mark.parametrize("watched", [["photos", "backup"], ["backup", "photos"]])
def test_a_copy_of_a_folder_that_is_watched_too_is_another_folder(database, tmp_path, watched):
    old = known_folder(database, tmp_path / "project/photos")
    shutil.copytree(old, tmp_path / "project/backup")
    assert moved(database, tmp_path / "project", *watched) == []


def test_what_had_changed_is_pending_again_though_the_storage_then_stopped_answering(tmp_path, monkeypatch):
    """The read that lists the rejected ones has ended by then: it would keep writes out of the file."""
    make_users_file(tmp_path / "lab.db")
    looks = iter([[FileFacts(2, 2.0, None)], [FileFacts(1, 1.0, None)]])

    def look(*_, **__):
        try:
            return next(looks)
        except StopIteration:
            raise ModelError("no answer within 30 s") from None

    monkeypatch.setattr(changed_files, "FILES_AT_ONCE", 1)
    monkeypatch.setattr(changed_files, "_ask", look)
    with Database(f"sqlite:///{tmp_path / 'lab.db'}") as database:
        upgrade(database)
        refs = [ImageRef(str(number), str(tmp_path / f"{number}.jpg")) for number in (1, 2, 3)]
        with database.write() as connection:
            rows = [{"location": ref.location, "added_at": datetime(2026, 11, 20, 12)} for ref in refs]
            connection.execute(insert(images), rows)
        broken = tuple(Broken(ref, Reason.CORRUPT, "", "decode", FileFacts(1, 1.0, "ab" * 32)) for ref in refs)
        Sink(database, MODEL.model_id, MODEL.variant, "a run").commit_chunk(ChunkResult(0, (), broken))
        source = Source(database, SourceSettings())
        project = ProjectDatabase(database, source, DayQueries(database, source), RunStore(database))
        assert changed_files.reset_changed_rejections(project, NO_MAPPING, DAY, MODEL.model_id) == 1
        assert [one.image_id for one in project.day_queries.final_rejections(DAY, MODEL.model_id)] == ["2", "3"]
