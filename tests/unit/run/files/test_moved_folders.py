"""Which watched folders are taken for folders whose images are registered elsewhere."""

import hashlib
import os
import shutil
from datetime import datetime
from functools import partial

import pytest
from sqlalchemy import func, select, update

from infer_app.base.settings.load import load_settings
from infer_app.cli.project.project import watching, write_config
from infer_app.predict.images.read.folder_scan import FolderScan
from infer_app.run.files.moved_folders import find_moved
from infer_app.tables.listing.image_registry import register
from infer_app.tables.results.schema import pictures
from tests.support.listings import at

NUM_PHOTOS = 10


def known_folder(database, folder, hashed=True):
    """A folder of photos of one size, which are registered."""
    folder.mkdir(parents=True)
    for number in range(NUM_PHOTOS):
        (folder / f"{number}.bmp").write_bytes(b"%09d" % number)
        os.utime(folder / f"{number}.bmp", (1.5e9 + number, 1.5e9 + number))
    files = sorted(FolderScan(str(folder)))
    list(register(database, files, at(datetime(2026, 11, 20))))
    for number in range(NUM_PHOTOS) if hashed else ():
        sha256 = hashlib.sha256(b"%09d" % number).hexdigest()
        with database.write() as connection:
            named = update(pictures).where(pictures.c.location == f"{folder}/{number}.bmp")
            connection.execute(named.values(sha256=sha256))
    return folder


def find_all(database, project, *watched):
    project.mkdir(exist_ok=True)
    (project / "infer.toml").unlink(missing_ok=True)
    write_config(project, watching('", "'.join(watched)))
    loaded = load_settings(project / "infer.toml")
    recorded = [f"{folder}/" for folder in loaded.watched]
    return list(find_moved(database, loaded, recorded, lambda function, *args: iter(function(*args))))


def moved(*args):
    return [said for said, _ in find_all(*args)]


def moved_from(old, new):
    return [f"known below {old}/ are now below {new}/"]


COPY_WITHOUT_TIMES = partial(shutil.copytree, copy_function=shutil.copyfile)


def keep(*numbers):
    return lambda folder: [file.unlink() for file in folder.iterdir() if int(file.stem) not in numbers]


def take_others(folder):
    """As a camera that begins with the same names each time."""
    for file in folder.iterdir():
        file.write_bytes(file.read_bytes()[::-1].replace(b"0", b"x"))


@pytest.mark.parametrize(
    ("copy", "hashed", "change", "is_moved"),
    [
        pytest.param(shutil.copytree, False, None, True, id="the same times"),
        pytest.param(COPY_WITHOUT_TIMES, True, None, True, id="the same content"),
        pytest.param(COPY_WITHOUT_TIMES, False, None, False, id="nothing shows that they are the same"),
        pytest.param(shutil.move, True, keep(*range(4, 10)), True, id="the first were deleted before"),
        pytest.param(shutil.move, True, keep(*range(6)), True, id="the last were deleted before"),
        pytest.param(shutil.move, True, keep(7, 8, 9), False, id="only the last are there"),
        pytest.param(shutil.copytree, True, keep(3), False, id="a copy of one"),
        pytest.param(shutil.copytree, True, keep(7, 8, 9), False, id="copies of the last"),
        pytest.param(shutil.copytree, True, keep(*range(1, 10)), False, id="copies of nearly all"),
        pytest.param(COPY_WITHOUT_TIMES, True, take_others, False, id="other photos"),
    ],
)
def test_a_folder_was_moved_if_what_is_left_of_it_is_the_same(database, tmp_path, copy, hashed, change, is_moved):
    old = known_folder(database, tmp_path / "old", hashed)
    new = tmp_path / "project/photos"
    copy(old, new)
    if change:
        change(new)
    assert moved(database, tmp_path / "project", "photos") == (moved_from(old, new) if is_moved else [])


def test_a_part_of_a_known_folder_was_moved_though_most_older_photos_are_gone_and_most_of_the_others_are_new(
    database, tmp_path
):
    old = known_folder(database, tmp_path / "old/2026")
    new = shutil.move(tmp_path / "old", tmp_path / "project/photos")
    keep(*range(4, NUM_PHOTOS))(new / "2026")
    for number in range(100):
        (new / f"new{number}.bmp").write_bytes(b"%09d" % number)
    assert moved(database, tmp_path / "project", "photos") == moved_from(old.parent, new)


@pytest.mark.parametrize("watched", [["photos", "backup"], ["backup", "photos"]])
def test_a_copy_of_a_folder_that_is_watched_too_is_another_folder(database, tmp_path, watched):
    old = known_folder(database, tmp_path / "project/photos")
    shutil.copytree(old, tmp_path / "project/backup")
    assert moved(database, tmp_path / "project", *watched) == []


@pytest.mark.parametrize(
    ("left", "num_moved"),
    [(None, 6), ("note.txt", 6), ("new.bmp", NUM_PHOTOS)],
    ids=["unplugged", "an empty mount point", "the rest was deleted"],
)
def test_of_a_folder_that_may_be_away_only_what_was_found_elsewhere_is_moved(database, tmp_path, left, num_moved):
    old, new = known_folder(database, tmp_path / "old"), tmp_path / "project/photos"
    keep(*range(6))(shutil.copytree(old, new))
    shutil.rmtree(old)
    if left:
        old.mkdir()
        (old / left).touch()
    [(_, store)] = find_all(database, tmp_path / "project", "photos")
    assert store() == num_moved
    below = select(func.count()).where(pictures.c.location.startswith(f"{new}/"))
    with database.read() as connection:
        assert connection.scalar(below) == num_moved
