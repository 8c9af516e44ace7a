from infer_app.predict.images.read.folder_scan import (
    FILES_AT_ONCE,
    FolderScan,
    find_images,
    folders_of,
    scan_folders,
    suffix_of,
)


def make(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"12345")
    return [folder / name for name in names]


def test_a_folder_gives_its_images_in_order_by_their_names(tmp_path):
    make(tmp_path, "b.jpg", "a/2.PNG", "a/1.jpg", "no suffix", "notes.TXT", "a/x.xmp", ".hidden.jpg", ".git/y.jpg")
    found = [str(path.relative_to(tmp_path)) for path in find_images(tmp_path)]
    assert found == ["a/1.jpg", "a/2.PNG", "b.jpg"]


def test_what_is_named_is_taken_whatever_it_or_the_folder_above_it_is_called(tmp_path):
    file, below = make(tmp_path, ".odd.txt", ".cache/photos/1.jpg")
    assert (list(find_images(file)), list(find_images(below.parent))) == ([file], [below])
    assert [suffix_of(name) for name in ("a.JPG", "a", "a.b.png", "a.")] == [".jpg", "", ".png", "."]


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


def test_files_that_links_lead_to_may_be_read_too(tmp_path):
    first, elsewhere = make(tmp_path, "photos/a/1.jpg", "elsewhere/2.jpg")
    link = tmp_path / "photos/2.jpg"
    link.symlink_to(elsewhere)
    assert folders_of(tmp_path / "photos", [first]) == (tmp_path / "photos",)
    assert folders_of(tmp_path / "photos", [first, link]) == (tmp_path / "photos", tmp_path / "elsewhere")
    assert folders_of(link, [link]) == (tmp_path / "elsewhere",)


def test_folders_are_scanned_in_parts_and_each_problem_is_told_once(tmp_path):
    make(tmp_path, *(f"a/{number}.jpg" for number in range(FILES_AT_ONCE + 1)), "b/4.jpg")
    parts = list(scan_folders([str(tmp_path / name) for name in ("a", "missing", "b")], every_s=60.0))
    assert [len(part.files) for part in parts] == [FILES_AT_ONCE, 1, 0, 1]
    assert [part.unreadable for part in parts] == [[], [], [f"{tmp_path / 'missing'}: No such file or directory"], []]


def test_a_slow_scan_tells_how_far_it_has_come_also_where_there_are_no_files(tmp_path):
    make(tmp_path, "a/1.txt", "a/b/2.jpg", "a/b/c/3.jpg")
    parts = list(scan_folders([str(tmp_path)], every_s=0.0))
    assert len(parts) == 6 + 4  # names and folders
    assert sorted(len(part.files) for part in parts) == [0] * 8 + [1, 1]
