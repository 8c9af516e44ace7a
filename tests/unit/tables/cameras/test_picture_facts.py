import pytest

from infer_app.base.settings.load import load_settings
from infer_app.tables.cameras.picture_facts import FactRules


@pytest.mark.parametrize(
    ("settings", "camera"),
    [
        ('[source]\ncamera = "folder:1"\n[images]\nwatch = ["cards"]\nroots = ["cards/cam1"]', "cam1"),
        ('[source]\ncamera = "folder:1"\n[images]\nwatch = ["cards", "cards/cam1"]', "cam1"),
        ('[source]\ncamera = "folder:1"\n[images]\nroots = ["cards"]', "cam1"),
        ('[source]\ncamera = "folder:1"\n[images]\nroots = ["cards/cam1", "cards"]', "cam1"),
    ],
)
def test_folders_are_counted_below_what_is_watched_whatever_else_may_be_read(tmp_path, database, settings, camera):
    (tmp_path / "cards/cam1/100").mkdir(parents=True)
    (tmp_path / "infer.toml").write_text(settings)
    loaded = load_settings(tmp_path / "infer.toml")
    rules = FactRules.of(loaded)
    assert rules.camera(None, f"{tmp_path}/cards/cam1/100/1.jpg") == camera
