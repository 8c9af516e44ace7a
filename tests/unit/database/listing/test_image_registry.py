from datetime import datetime

from sqlalchemy import select

from infer_app.database.listing import image_registry
from infer_app.database.listing.image_registry import (
    DatedImage,
    RegisteredBatch,
    add_images,
    count_images,
    register,
)
from infer_app.database.results.schema import images
from infer_app.domain import ImageFile

NOON = datetime(2026, 11, 20, 12)


def registered(database):
    with database.read() as connection:
        return connection.execute(select(images.c.location, images.c.added_at, images.c.size).order_by("id")).all()


def make(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"12345")
    return [folder / name for name in names]


def test_files_are_registered_once_and_keep_their_day(database, tmp_path):
    first, second = make(tmp_path, "1.jpg", "2.jpg")
    assert add_images(database, [first], NOON) == 1
    assert add_images(database, [first, second, second], datetime(2026, 11, 21)) == 1
    assert add_images(database, [first, second], NOON) == 0
    assert registered(database) == [(str(first), NOON, 5), (str(second), datetime(2026, 11, 21), 5)]
    assert count_images(database) == 2


def test_more_files_than_one_statement_takes(database, tmp_path, monkeypatch):
    monkeypatch.setattr(image_registry, "ROWS_PER_INSERT", 3)
    paths = make(tmp_path, *[f"{i}.jpg" for i in range(8)])
    assert add_images(database, [*paths, paths[0], paths[7]], NOON) == 8
    assert [row.location for row in registered(database)] == [str(path) for path in paths]


def test_a_file_that_is_gone_already_is_registered_without_a_size(database, tmp_path):
    add_images(database, [tmp_path / "gone.jpg"], NOON)
    assert registered(database) == [(str(tmp_path / "gone.jpg"), NOON, None)]


def test_names_are_stored_as_the_text_they_are(database, tmp_path):
    (path,) = make(tmp_path, "'; DROP TABLE infer_images; --\"é\n.jpg")
    add_images(database, [path], NOON)
    assert [row.location for row in registered(database)] == [str(path)]


def at_noon(new):
    return [DatedImage(file, NOON) for file in new]


def test_looking_at_known_files_writes_nothing(database, monkeypatch):
    assert sum(len(one.new) for one in register(database, [], at_noon)) == 0
    photos = [ImageFile(f"/photos/{number}.jpg", 5, 1.0) for number in range(2)]
    assert sum(len(one.new) for one in register(database, photos, at_noon)) == 2
    monkeypatch.setattr(database, "write", None)
    (known,) = register(database, photos, at_noon)
    assert known == RegisteredBatch(2, [], [1, 2], 0, [])
