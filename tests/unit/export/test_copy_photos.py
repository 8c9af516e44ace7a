import hashlib
from dataclasses import replace
from types import SimpleNamespace

import pytest

from infer_app.errors import UsageError
from infer_app.export.copy_photos import copy_photos
from infer_app.images.read.read_image import ReadLimits
from tests.support.exports import DATE, detected

SHA256_OF_A = hashlib.sha256(b"a").hexdigest()


@pytest.fixture
def photos(tmp_path):
    root = tmp_path / "photos"
    for name in ("a/x.jpg", "b/x.jpg", "c/x.jpg"):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_bytes(name[:1].replace("c", "a").encode())
    return root


def copied(root, folder, *locations, limits=None):
    chosen = [(DATE, detected(str(number), location=str(location))) for number, location in enumerate(locations)]
    found, not_copied = copy_photos(chosen, folder, limits or ReadLimits((root,), 1000))
    return [image.location.removeprefix(f"{folder}/") for _, image in found], not_copied


def test_other_photos_of_one_name_get_a_checksum_and_copies_are_not_made_twice(photos, tmp_path):
    folder = tmp_path / "new" / "copies"
    expected = ["x.jpg", "x-3e23e816.jpg", "x.jpg"]
    for _ in range(2):
        assert copied(photos, folder, *(photos / name / "x.jpg" for name in "abc")) == (expected, {})
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"x.jpg": b"a", "x-3e23e816.jpg": b"b"}


def test_what_may_not_be_read_is_not_copied(photos, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    names, not_copied = copied(photos, tmp_path / "copies", secret, photos / "gone.jpg", photos / "a" / "x.jpg")
    assert names == ["x.jpg"]
    assert {location.rpartition("/")[2]: why.split()[0] for location, why in not_copied.items()} == {
        "secret.txt": "location_not_allowed",
        "gone.jpg": "not_found",
    }


def test_a_photo_that_has_changed_since_it_was_predicted_is_not_copied(photos, tmp_path):
    """Its objects are those of the former photo."""
    predicted = [replace(detected(name, location=str(photos / name / "x.jpg")), sha256=SHA256_OF_A) for name in "ab"]
    found, not_copied = copy_photos(
        [(DATE, one) for one in predicted], tmp_path / "copies", ReadLimits((photos,), 1000)
    )
    assert [image.image_id for _, image in found] == ["a"]
    assert list(not_copied.values()) == ["the file has changed since it was predicted"]
    assert [path.name for path in (tmp_path / "copies").iterdir()] == ["x.jpg"]


def test_a_picture_in_a_column_gets_the_suffix_of_its_format(tmp_path):
    rows = SimpleNamespace(read=lambda *_: (3, b"\xff\xd8\xff"))
    names, _ = copied(tmp_path, tmp_path / "copies", "row:a/7.5", limits=ReadLimits((), 1000, rows=rows))
    assert names == ["row_a_7.5.jpeg"]


def test_odd_names_become_names_of_files(photos, tmp_path):
    odd = photos / "a" / (".\n\\" + "猫" * 60 + ".jpg")
    odd.write_bytes(b"odd")
    [name], _ = copied(photos, tmp_path / "copies", odd)
    assert name == "__" + "猫" * 48 + ".jpg"


def test_a_folder_that_cannot_be_written_is_named(photos, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="--copy-to .*file can't be written"):
        copied(photos, tmp_path / "file", photos / "a" / "x.jpg")
