import fcntl
import glob
import os
from pathlib import Path

import pytest
import yaml

from infer_app.ask.export.formats.export_formats import write_export
from infer_app.ask.export.formats.yolo import label_file, write_yolo
from infer_app.ask.export.image_paths import ImagePaths
from infer_app.base.errors import UsageError
from tests.support.exports import CAT, DOG, HOSTILE, HOSTILE_PATH, LOW, detected, export_of


def files(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_boxes_are_centres_and_an_image_without_an_object_has_an_empty_file(tmp_path):
    images = detected("1", CAT, DOG, LOW), detected("2")
    write_yolo(tmp_path / "set", export_of(*images, paths=ImagePaths("/srv/photos"), thresholds={"": 0.5}))
    assert files(tmp_path / "set") == {
        "labels/1.txt": "0 0.3125 0.625 0.125 0.25\n2 0.5 0.5 1.0 1.0\n",
        "labels/2.txt": "",
        "classes.txt": "cat\n1\ndog\n",
        "data.yaml": 'train: images\nval: images\nnames:\n  0: cat\n  1: "1"\n  2: dog\n',
    }
    assert list(tmp_path.iterdir()) == [tmp_path / "set"]


@pytest.mark.parametrize(
    ("locations", "said"),
    [
        (("/a/x.jpg", "/a/x.png"), "two images would have the labels a/x.txt, one of them is /a/x.png"),
        (("/x.jpg", "/x.txt/y.jpg"), "two images would have the labels x.txt/y.txt"),
    ],
)
def test_two_images_that_would_have_one_file_of_labels_are_refused(tmp_path, locations, said):
    images = [detected(str(n), CAT, location=location) for n, location in enumerate(locations)]
    with pytest.raises(UsageError, match=said):
        write_yolo(tmp_path / "set", export_of(*images))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/srv/a.jpg", "srv/a.txt"),
        ("../../etc/passwd", "%2E%2E/%2E%2E/etc/passwd.txt"),
        ("/a/./b//c.tar.gz", "a/b/c.tar.txt"),
        ("https://host/p/a.jpg?***", "host/p/a.txt"),
        ("https://host/p/img.php?***7", "host/p/img-7.txt"),
        ("s3://bucket/a.jpg", "bucket/a.txt"),
        ("row:5", "row:5.txt"),
        ("/a/..", "a/%2E%2E.txt"),
        ("", "image.txt"),
    ],
)
def test_labels_stay_in_the_folder(path, expected):
    assert str(label_file(path)) == expected


def test_a_name_is_a_plain_scalar_unless_yaml_would_take_it_for_something_else(tmp_path):
    labels = ["red fox", "wild-boar", "Ñandú", "no", "12", "a: b", "null", "x "]
    objects = [CAT._replace(label=label, class_index=index) for index, label in enumerate(labels)]
    write_yolo(tmp_path / "set", export_of(detected("1", *objects)))
    text = (tmp_path / "set" / "data.yaml").read_text()
    names = [line.partition(": ")[2] for line in text.splitlines()[3:]]
    assert names == ["red fox", "wild-boar", "Ñandú", '"no"', '"12"', '"a: b"', '"null"', '"x "']
    assert yaml.safe_load(text)["names"] == dict(enumerate(labels))


def test_a_trainer_finds_the_labels_of_photos_that_are_linked_as_the_page_says(tmp_path):
    """Trainers resolve the folder `train`, list what is in it, and replace the last /images/ of each path."""
    photos = tmp_path / "photos" / "cam1"
    photos.mkdir(parents=True)
    (photos / "a b.jpg").touch()
    paths = ImagePaths(str(tmp_path / "photos"))
    write_yolo(tmp_path / "week", export_of(detected("1", CAT, location=str(photos / "a b.jpg")), paths=paths))
    page = (Path(__file__).parents[5] / "docs" / "how-to" / "export.md").read_text()
    assert "mkdir week/images\nln -s /srv/photos/* week/images/\n" in page
    (tmp_path / "week" / "images").mkdir()
    (tmp_path / "week" / "images" / "cam1").symlink_to(photos)
    train = (tmp_path / "week" / yaml.safe_load((tmp_path / "week" / "data.yaml").read_text())["train"]).resolve()
    [photo] = glob.glob(f"{train}/**/*.jpg", recursive=True)  # noqa: PTH207  (rglob follows no links)
    assert Path("/labels/".join(photo.rsplit("/images/", 1))).with_suffix(".txt").read_text() != ""


def test_hostile_labels_and_paths_are_read_back(tmp_path):
    labels = [HOSTILE, "yes", "\u2028\x85", "émoji 🐈", "\udcff"]
    objects = [CAT._replace(label=label, class_index=index) for index, label in enumerate(labels)]
    write_yolo(tmp_path / "set", export_of(detected("1", *objects, location=HOSTILE_PATH)))
    data = yaml.safe_load((tmp_path / "set" / "data.yaml").read_text())
    assert data["names"] == dict(enumerate(labels))
    assert len((tmp_path / "set" / "classes.txt").read_text().splitlines()) == len(labels)


def test_what_a_killed_export_left_is_removed_by_the_next_one(tmp_path):
    left = tmp_path / ".set.new" / "labels"
    left.mkdir(parents=True)
    (left / "old.txt").touch()
    (tmp_path / ".set.new" / "link").symlink_to(tmp_path)
    write_yolo(tmp_path / "set", export_of(detected("1", CAT), paths=ImagePaths("/srv/photos")))
    assert sorted(files(tmp_path)) == ["set/classes.txt", "set/data.yaml", "set/labels/1.txt"]


def test_two_exports_into_one_folder_do_not_mix(tmp_path):
    (tmp_path / ".set.new").mkdir()
    other = os.open(tmp_path / ".set.new", os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    with pytest.raises(UsageError, match="another export writes"):
        write_export("yolo", tmp_path / "set", export_of(detected("1", CAT)))
    os.close(other)
    assert (tmp_path / ".set.new").exists()
