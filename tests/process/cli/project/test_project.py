"""`infer init` for photos in folders: another process opens the first ones."""

import pytest
from PIL import ExifTags, Image

from infer_app.base.errors import UsageError
from infer_app.base.settings.load import load_settings
from infer_app.cli.project import project
from infer_app.cli.project.project import init_project


def test_a_project_for_photos_watches_a_folder_that_is_made(tmp_path, capsys):
    project.init(tmp_path)
    assert load_settings(tmp_path / "infer.toml").watched == (tmp_path / "photos",)
    assert (tmp_path / "photos").is_dir()
    assert "the photos that are new in" in capsys.readouterr().out
    (tmp_path / "photos").rmdir()
    project.init(tmp_path)
    assert "exists and was not changed" in capsys.readouterr().out
    assert not (tmp_path / "photos").exists()


@pytest.mark.parametrize(("num_dated", "day"), [(0, "file"), (1, "taken")])
def test_photos_that_state_when_they_were_taken_decide_their_days(tmp_path, monkeypatch, num_dated, day):
    """The folder may lie anywhere, with a quotation mark in its name; damaged photos state nothing."""
    cards = tmp_path / 'the "cards"' / "cam01"
    cards.mkdir(parents=True)
    exif = Image.Exif()
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = "2026:11:03 06:10:00"
    for number in range(3):
        photo = Image.new("RGB", (40, 30))
        photo.save(cards / f"{number}.jpg", **({"exif": exif} if number < num_dated else {}))
    (cards / "cut.jpg").write_bytes((cards / "0.jpg").read_bytes()[:100])
    (cards / "empty.jpg").touch()
    monkeypatch.chdir(tmp_path)
    init_project(cards.parent, None, None)
    loaded = load_settings(tmp_path / "infer.toml")
    assert (loaded.watched, loaded.images.day) == ((cards.parent,), day)


def test_a_folder_to_watch_must_exist_and_is_not_for_a_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        init_project(tmp_path / "cards", None, None)
    with pytest.raises(UsageError, match="for a table"):
        init_project(tmp_path, "sqlite:///lab.db", None)
    assert list(tmp_path.iterdir()) == []
