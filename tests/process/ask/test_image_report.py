"""One image's story: what a second scoring is held against, and a file that can't be looked at."""

import time
from pathlib import Path

from infer_app.ask import image_report
from infer_app.base.domain import ROW, FileFacts
from infer_app.base.read_limits import ReadLimits
from infer_app.base.settings.load import LoadedSettings
from infer_app.base.settings.sections import ImagesSettings


class Hanging:
    """A database that never answers."""

    def read(self, image_id, max_bytes):
        time.sleep(600)


def test_a_read_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(image_report, "read_limits", lambda loaded: ReadLimits((), 100, rows=Hanging()))
    monkeypatch.setattr(image_report, "START_UP_S", 0.0)
    loaded = LoadedSettings.model_construct(path=Path("/srv/infer.toml"), images=ImagesSettings(timeout_s=0.5))
    found = image_report._look(loaded, f"{ROW}1")
    assert (found.reason, found.facts) == ("read_timeout", FileFacts())
    assert "no answer within 0.5 s" in found.detail
