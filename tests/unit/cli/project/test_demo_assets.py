import pytest

from infer_app.cli.project.demo_assets import CUT_PHOTO, copy_photos

pytest.importorskip("skimage")


def test_photos_that_lie_there_are_not_touched_and_torn_ones_are_mended(tmp_path):
    copy_photos(tmp_path)
    before = {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    whole = (tmp_path / "camera.png").read_bytes()
    (tmp_path / "camera.png").write_bytes(whole[:100])
    copy_photos(tmp_path)
    assert (tmp_path / "camera.png").read_bytes() == whole
    after = {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert CUT_PHOTO in after
    assert {name for name in before if after[name] != before[name]} == {"camera.png"}
