from datetime import UTC, datetime, timedelta

import pytest

from infer_app.base.errors import UsageError
from infer_app.base.packages import install
from infer_app.cli.project import project, quickstart
from infer_app.cli.project.quickstart import CUT_PHOTO, copy_photos, make_demo
from tests.support.skips import need

pytest.importorskip("skimage")
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize("package", quickstart.PACKAGES)
def test_a_quickstart_without_its_packages_writes_nothing(tmp_path, installed, package):
    installed.remove(package)
    with pytest.raises(UsageError, match=package) as caught:
        make_demo(tmp_path / "demo")
    assert caught.value.hint == install("demo")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("had_one", [False, True])
def test_a_quickstart_that_fails_leaves_no_infer_toml_behind(tmp_path, had_one):
    need(*quickstart.PACKAGES)
    (tmp_path / "photos").write_text("no folder")
    if had_one:
        project.write_config(tmp_path)
    with pytest.raises(FileExistsError):
        make_demo(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["infer.toml"] * had_one + ["photos"]


def test_photos_that_lie_there_are_not_touched_and_torn_ones_are_mended(tmp_path):
    copy_photos(tmp_path, NOON)
    before = {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    whole = (tmp_path / "camera.png").read_bytes()
    (tmp_path / "camera.png").write_bytes(whole[:100])
    copy_photos(tmp_path, NOON + timedelta(days=1))
    assert (tmp_path / "camera.png").read_bytes() == whole
    after = {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert CUT_PHOTO in after
    assert {name for name in before if after[name] != before[name]} == {"camera.png"}
