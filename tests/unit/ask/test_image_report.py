"""One image's story: whether the file is still the one that was looked at."""

from dataclasses import replace

import pytest

from infer_app.ask.image_report import FileNow, is_same_file
from infer_app.base.domain import FileFacts
from infer_app.tables.rows.image_history import ModelHistory
from tests.support.exports import detected

NOW = FileNow(FileFacts(7, 1.5, "a"))


@pytest.mark.parametrize(
    ("stored", "now", "same"),
    [
        (FileFacts(sha256="a"), NOW, True),
        (FileFacts(sha256="b"), NOW, False),
        (FileFacts(7, 1.5), NOW, True),
        (FileFacts(7, 2.5), NOW, False),
        (FileFacts(), NOW, None),
        (FileFacts(sha256="a"), FileNow(FileFacts()), None),  # which nobody can see
        (FileFacts(sha256="a"), None, None),
        (None, FileNow(FileFacts()), None),
    ],
)
def test_whether_the_file_is_the_one_that_was_looked_at(stored, now, same):
    prediction = stored and replace(detected(), seen=stored, sha256=stored.sha256)
    assert is_same_file(now, ModelHistory("cats", "id", prediction, None)) is same
