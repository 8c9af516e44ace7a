from datetime import datetime

from sqlalchemy import select

from infer_app.database.listing import image_registry
from infer_app.database.listing.image_registry import (
    FolderScan,
    add_images,
    count_images,
    find_images,
    register,
    suffix_of,
)
from infer_app.database.results.schema import images

NOON = datetime(2026, 11, 20, 12)


def registered(database):
    with database.read() as connection:
        return connection.execute(select(images.c.location, images.c.added_at, images.c.size).order_by("id")).all()


def make(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"12345")
    return [folder / name for name in names]


def test_a_folder_gives_its_files_in_order_hidden_and_sidecar_files_left_out(tmp_path):
    make(tmp_path, "b.jpg", "a/2.PNG", "a/1.jpg", "no suffix", "notes.TXT", "a/x.xmp", ".hidden.jpg", ".git/y.jpg")
    found = [str(path.relative_to(tmp_path)) for path in find_images(tmp_path)]
    assert found == ["a/1.jpg", "a/2.PNG", "b.jpg", "no suffix"]


def test_a_folder_below_a_hidden_one_is_searched_when_it_is_named(tmp_path):
    (path,) = make(tmp_path, ".cache/photos/1.jpg")
    assert list(find_images(tmp_path / ".cache/photos")) == [path]


def test_a_file_that_is_named_is_taken_whatever_it_is_called(tmp_path):
    (path,) = make(tmp_path, ".odd.txt")
    assert list(find_images(path)) == [path]


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


def test_a_scan_yields_size_and_time_and_keeps_what_it_can_not_read(tmp_path):
    make(tmp_path, "a.jpg", "b/c.JPG", "b/.hidden/d.jpg")
    (tmp_path / "loop").symlink_to(tmp_path)  # a link to a folder is not followed
    (tmp_path / "gone.jpg").symlink_to(tmp_path / "nowhere")
    (tmp_path / "circle.jpg").symlink_to(tmp_path / "circle.jpg")
    scan = FolderScan(str(tmp_path))
    facts = {name: (tmp_path / name).stat() for name in ("a.jpg", "b/c.JPG")}
    assert sorted(scan) == [(str(tmp_path / name), 5, one.st_mtime) for name, one in facts.items()]
    missing = FolderScan(str(tmp_path / "missing"))
    assert list(missing) == []
    assert missing.unreadable == [f"{tmp_path / 'missing'}: No such file or directory"]


def test_suffixes_are_those_of_the_name():
    assert [suffix_of(name) for name in ("a.JPG", "a", "a.b.png", "a.")] == [".jpg", "", ".png", "."]


def test_looking_at_known_files_writes_nothing(database, tmp_path, monkeypatch):
    make(tmp_path, "1.jpg", "2.jpg")
    assert sum(len(one.new) for one in register(database, FolderScan(str(tmp_path / "x")), None)) == 0
    scan = FolderScan(str(tmp_path))
    photos = [file for file in scan if file.location.endswith(".jpg")]
    assert sum(len(one.new) for one in register(database, photos, None)) == 2
    monkeypatch.setattr(database, "write", None)
    assert [(one.num_images, one.new, one.changed) for one in register(database, photos, None)] == [(2, [], [])]
