import time

from infer_app.ask.image_report import look_at
from infer_app.base.domain import ROW, FileFacts
from infer_app.base.read_limits import ReadLimits


class Hanging:
    """A database that never answers."""

    def read(self, image_id, max_bytes):
        time.sleep(600)


def test_a_read_that_hangs_is_ended():
    found = look_at(f"{ROW}1", ReadLimits((), 100, rows=Hanging()), timeout_s=0.5)
    assert (found.reason, found.facts) == ("read_timeout", FileFacts())
    assert "no answer within 0.5 s" in found.detail
