"""The folder of all images, looked at once one of them is not found."""

import pytest

from infer_app.base.errors import StorageUnavailable
from infer_app.base.locations import NOTHING_REMOTE, PathMapping
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.read.read_image import read_image
from infer_app.predict.images.read.roots import check_missing, check_root, is_other_there
from tests.support.stalled_folder import stalled

pytestmark = pytest.mark.usefixtures("image")  # in the root


@pytest.mark.parametrize("name", ["gone.jpg", "gone/a.jpg"])
def test_a_root_with_files_in_it_is_there_and_others_do_not_count(root, tmp_path, name):
    check_root(f"{root}/{name}", ReadLimits((tmp_path / "unmounted", root), 1))


@pytest.mark.parametrize("gone", ["missing", "empty"])
def test_a_root_that_is_missing_or_empty_is_gone_also_where_a_map_leads_to_it(root, tmp_path, gone):
    (root / "image.jpg").unlink()
    if gone == "missing":
        root.rmdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/image.jpg").touch()
    roots, mapping = (tmp_path / "other", root), PathMapping.of({"/srv/photos": str(root)})
    limits = ReadLimits(roots, 1, NOTHING_REMOTE, mapping)
    for location in (f"{root}/gone.jpg", "/srv/photos/gone.jpg"):
        with pytest.raises(StorageUnavailable, match="data is gone or empty"):
            check_root(location, limits)
    with pytest.raises(StorageUnavailable, match="data is gone"):
        check_missing([f"{tmp_path}/other/a.jpg", f"{root}/a.jpg"], limits)


def test_a_link_that_leads_elsewhere_by_now_is_a_root_that_is_gone(tmp_path):
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jpg").write_bytes(b"x")
    link = tmp_path / "photos"
    link.symlink_to(tmp_path / "before")
    limits = ReadLimits((link,), 100)
    read_image(str(link / "a.jpg"), limits)
    check_root(str(link / "a.jpg"), limits)
    link.unlink()
    with pytest.raises(StorageUnavailable, match="was replaced"):
        check_root(str(link / "a.jpg"), limits)
    link.symlink_to(tmp_path / "after")
    with pytest.raises(StorageUnavailable, match="was replaced"):
        check_root(str(link / "a.jpg"), limits)


def test_a_folder_below_the_root_whose_server_is_gone_is_no_failure_of_its_images(root):
    (root / "mount").mkdir()
    gone = pytest.raises(StorageUnavailable, match="mount: Transport endpoint is not connected")
    with stalled(root / "mount", is_dead=True), gone:
        check_root(str(root / "mount" / "a.jpg"), ReadLimits((root,), 1))


def test_an_empty_folder_may_be_a_file_system_that_is_not_mounted_and_a_removed_one_was_removed(root):
    missing = [f"{root}/gone.jpg", f"{root}/day/gone.jpg", f"{root}/camera/day/gone.jpg"]
    check_missing(missing, ReadLimits((root,), 1))
    (root / "camera").mkdir()
    with pytest.raises(StorageUnavailable, match="camera holds no image"):
        check_missing(missing, ReadLimits((root,), 1))


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], None),
        (["data/camera/gone.jpg"], None),  # itself
        (["data/gone too.jpg"], False),
        (["data/gone too.jpg", "data/image.jpg"], True),  # it is empty, which is read from it
        (["elsewhere/image.jpg", "https://host/1.jpg", "row:1"], None),  # they say nothing of this root
    ],
)
def test_where_no_image_is_near_another_one_is_looked_for_below_the_same_root(root, tmp_path, others, expected):
    for folder in (root / "camera", tmp_path / "elsewhere"):
        folder.mkdir()
    (tmp_path / "elsewhere" / "image.jpg").write_bytes(b"x")
    limits = ReadLimits((root, tmp_path / "elsewhere"), 100)
    locations = [other if ":" in other else str(tmp_path / other) for other in others]
    assert is_other_there(str(root / "camera" / "gone.jpg"), locations, limits) is expected
    assert is_other_there(str(root / "gone.jpg"), locations, limits) is True
