"""One image's story: whether the file is still the one that was looked at."""

import pytest

from infer_app.ask.image_report import FileNow, is_same_file
from infer_app.base.domain import FileFacts
from infer_app.tables.queries.image_history import ModelHistory

NOW = FileNow(FileFacts(7, 1.5, "a"))


@pytest.mark.parametrize(
    ("stored", "now", "same"),
    [
        ({"sha256": "a"}, NOW, True),
        ({"sha256": "b"}, NOW, False),
        ({"sha256": None, "size": 7, "modified": 1.5}, NOW, True),
        ({"sha256": None, "size": 7, "modified": 2.5}, NOW, False),
        ({"sha256": None, "size": None, "modified": None}, NOW, None),
        ({"sha256": None}, NOW, None),  # a prediction has neither size nor time
        ({"sha256": "a"}, FileNow(FileFacts()), None),  # which nobody can see
        ({"sha256": "a"}, None, None),
        (None, FileNow(FileFacts()), None),
    ],
)
def test_whether_the_file_is_the_one_that_was_looked_at(stored, now, same):
    assert is_same_file(now, ModelHistory("cats", "id", stored, None, None)) is same
