import hashlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from infer_app.ask.export.sampling.copy_photos import MAX_CHOICES, copy_photos
from infer_app.base.errors import UsageError
from infer_app.base.read_limits import ReadLimits
from tests.support.exports import DATE, detected

SHA256_OF_A = hashlib.sha256(b"a").hexdigest()


@pytest.fixture
def photos(tmp_path):
    root = tmp_path / "photos"
    for name in ("a/x.jpg", "b/x.jpg", "c/x.jpg"):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_bytes(name[:1].replace("c", "a").encode())
    return root


def among(dated, count=None):
    """Choose the first images that are wanted."""
    return lambda is_wanted: [one for one in dated if is_wanted(one[1])][:count]


def copy(root, choose):
    return copy_photos(choose, root.parent / "copies", ReadLimits((root,), 1000))


def copied(root, folder, *locations, limits=None):
    chosen = [(DATE, detected(str(number), location=str(location))) for number, location in enumerate(locations)]
    found, not_copied = copy_photos(among(chosen), folder, limits or ReadLimits((root,), 1000))
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


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_a_copy_is_as_private_as_the_photo(photos, tmp_path, mode):
    (photos / "a" / "x.jpg").chmod(mode)
    copied(photos, tmp_path / "copies", photos / "a" / "x.jpg")
    assert (tmp_path / "copies" / "x.jpg").stat().st_mode & 0o777 & ~mode == 0


def test_a_photo_that_has_changed_since_it_was_predicted_is_not_copied(photos, tmp_path):
    """Its objects are those of the former photo."""
    predicted = [replace(detected(name, location=f"{photos}/{name}/x.jpg"), sha256=SHA256_OF_A) for name in "ab"]
    found, not_copied = copy(photos, among([(DATE, one) for one in predicted]))
    assert [image.image_id for _, image in found] == ["a"]
    assert list(not_copied.values()) == ["the file has changed since it was predicted"]
    assert [path.name for path in (tmp_path / "copies").iterdir()] == ["x.jpg"]


def test_others_are_chosen_for_what_is_gone(photos, tmp_path):
    locations = [*(photos / f"gone-{number}.jpg" for number in range(20)), *(photos / name / "x.jpg" for name in "abc")]
    dated = [(DATE, detected(str(location), location=str(location))) for location in locations]
    choices = []

    def choose(is_wanted):
        choices.append(among(dated, 2)(is_wanted))
        return choices[-1]

    found, not_copied = copy(photos, choose)
    assert [image.image_id for _, image in found] == [f"{photos}/a/x.jpg", f"{photos}/b/x.jpg"]
    assert [location.rpartition("/")[2] for location in not_copied] == ["gone-0.jpg", "gone-1.jpg"]
    assert len(choices) == 2  # however many are gone


def test_a_copy_of_an_earlier_choice_is_removed_unless_it_was_there_before(photos, tmp_path):
    copied(photos, tmp_path / "copies", photos / "b" / "x.jpg")
    (photos / "a" / "y.jpg").write_bytes(b"y")
    (photos / "a" / "z.jpg").write_bytes(b"z")
    names = iter([("b/x.jpg", "a/y.jpg", "gone.jpg"), ("a/z.jpg",)])
    found, _ = copy(photos, lambda _: [(DATE, detected(name, location=f"{photos}/{name}")) for name in next(names)])
    assert [image.image_id for _, image in found] == ["a/z.jpg"]
    assert sorted(path.name for path in (tmp_path / "copies").iterdir()) == ["x.jpg", "z.jpg"]


def test_a_choice_is_repeated_some_times_only(photos, tmp_path):
    """Each one reads the predictions of all days."""
    locations = [f"{photos}/a/{number}.jpg" for number in range(20)]
    changed = [(DATE, replace(detected(one, location=one), sha256="")) for one in locations]
    for location in locations:
        Path(location).write_bytes(b"new")
    found, not_copied = copy(photos, among(changed, 1))
    assert (found, len(not_copied)) == ([], MAX_CHOICES)


def test_odd_names_and_ids_of_rows_become_names_of_files(photos, tmp_path):
    odd = photos / "a" / (".\n\\" + "猫" * 60 + ".jpg")
    odd.write_bytes(b"odd")
    rows = SimpleNamespace(read=lambda *_: (3, b"\xff\xd8\xff"))  # pictures in a column: a JPEG
    limits = ReadLimits((photos,), 1000, rows=rows)
    names, _ = copied(photos, tmp_path / "copies", odd, "row:a/7.5", limits=limits)
    assert names == ["__" + "猫" * 48 + ".jpg", "row_a_7.5.jpeg"]


def test_a_folder_that_cannot_be_written_is_named(photos, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="--copy-to .*file can't be written"):
        copied(photos, tmp_path / "file", photos / "a" / "x.jpg")
