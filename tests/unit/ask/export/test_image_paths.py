import pytest

from infer_app.ask.export.image_paths import ImagePaths
from infer_app.base.errors import UsageError
from infer_app.base.locations import PathMapping


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/srv/photos/a/b.jpg", "a/b.jpg"),
        ("/srv//photos/./a/../b.jpg", "b.jpg"),
        ("file:///srv/photos/a%20b.jpg", "a b.jpg"),
        ("file://localhost/srv/photos/a.jpg", "a.jpg"),
        ("cam1/a.jpg", "cam1/a.jpg"),  # below [source] base
        ("/recorded/a.jpg", "a.jpg"),  # mapped to a folder of this machine
        ("https://user:pass@host/a.jpg?sig=1", "https://***@host/a.jpg?***"),
        ("s3://bucket/a.jpg", "s3://bucket/a.jpg"),
        ("row:5", "row:5"),
    ],
)
def test_files_are_named_relative_to_the_folder(location, expected):
    mapping = PathMapping.of({"/recorded": "/srv/photos"}, "/srv/photos")
    assert ImagePaths("/srv/photos/", mapping).of(location, 7) == expected


@pytest.mark.parametrize("location", ["/srv/photos2/a.jpg", "/srv/photos/../a.jpg", "a.jpg", "", "/srv/photos"])
def test_a_file_outside_the_folder_is_an_error(location):
    with pytest.raises(UsageError, match="is not in /srv/photos/"):
        ImagePaths("/srv/photos").of(location, 7)
    assert ImagePaths("/srv/photos").find_or_shown(location, 7) == location


def test_without_a_folder_locations_stay_as_recorded():
    assert ImagePaths().of("/a/../b.jpg", 7) == "/a/../b.jpg"
    assert ImagePaths().of("https://host/a?id=1&token=1", 7) == "https://host/a?***7"
