import pytest

from infer_app.errors import ModelError
from infer_app.models.artifact.labels import format_labels, parse_labels


def test_every_line_is_a_label_whatever_it_says():
    data = "<b>kot</b>\nRobert'); DROP TABLE infer_images;--\nżółw, zwykły\n".encode()
    assert parse_labels(data, "labels.txt") == ("<b>kot</b>", "Robert'); DROP TABLE infer_images;--", "żółw, zwykły")


@pytest.mark.parametrize("data", [b"cat\ndog\n", b"cat\ndog", b"cat\r\ndog\r\n", b"\xef\xbb\xbfcat\n dog\t\n"])
def test_line_ends_and_marks_do_not_change_labels(data):
    assert format_labels(parse_labels(data, "labels.txt")) == b"cat\ndog\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"cat\n\ndog\n", "line 2 is blank"),
        (b"cat\n  \n", "line 2 is blank"),
        (b"", "line 1 is blank"),
        (b"caf\xe9\n", "not UTF-8"),
        (b"c\0a\0t\0\n", "NUL"),
    ],
)
def test_what_can_not_be_a_label_is_refused_with_its_place(data, message):
    with pytest.raises(ModelError, match=message) as caught:
        parse_labels(data, "pets/labels.txt")
    assert caught.value.message.startswith("pets/labels.txt: ")
    assert caught.value.hint
