import pytest

from infer_app.base.plurals import counted


@pytest.mark.parametrize(("number", "text"), [(0, "0 images"), (1, "1 image"), (2, "2 images"), (1204, "1,204 images")])
def test_only_one_has_no_s(number: int, text: str):
    assert counted(number, "image") == text
