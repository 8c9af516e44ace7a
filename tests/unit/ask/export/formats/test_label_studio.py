import xml.etree.ElementTree as ElementTree
from urllib.parse import parse_qs, urlsplit

import pytest

from infer_app.ask.export.formats.label_studio import write_tasks
from infer_app.ask.export.image_paths import ImagePaths
from infer_app.base.errors import UsageError
from tests.support.exports import CAT, HOSTILE, HOSTILE_PATH, LOW, classified, detected, export_of, tagged, written


@pytest.fixture
def file(tmp_path):
    return tmp_path / "tasks.json"


BOX_OF_CAT = {"x": 25.0, "y": 50.0, "width": 12.5, "height": 25.0}  # percent


def config_of(file):
    return ElementTree.parse(file.with_name("tasks-config.xml")).getroot()


def test_boxes_are_in_percent(file):
    paths = ImagePaths("/srv/photos")
    assert written(write_tasks, file, detected("1", CAT), detected("2"), paths=paths) == [
        {
            "data": {"image": "/data/local-files/?d=1.jpg", "image_id": "1"},
            "predictions": [
                {
                    "model_version": "animals@01234567",
                    "score": 0.75,
                    "result": [
                        {
                            "id": "0",
                            "from_name": "label",
                            "to_name": "image",
                            "type": "rectanglelabels",
                            "original_width": 640,
                            "original_height": 480,
                            "image_rotation": 0,
                            "value": BOX_OF_CAT | {"rotation": 0, "rectanglelabels": ["cat"]},
                            "score": 0.75,
                        }
                    ],
                }
            ],
        },
        {
            "data": {"image": "/data/local-files/?d=2.jpg", "image_id": "2"},
            "predictions": [{"model_version": "animals@01234567", "score": 0.0, "result": []}],
        },
    ]


def test_the_configuration_has_all_labels_and_the_names_of_the_tasks(file):
    [task] = written(
        write_tasks, file, detected("1", CAT, LOW._replace(label="low & <lower>", score=0.1)), thresholds={"": 0.5}
    )
    [result] = task["predictions"][0]["result"]
    config = config_of(file)
    control, image = config.find("RectangleLabels"), config.find("Image")
    assert (control.get("name"), control.get("toName")) == (result["from_name"], result["to_name"])
    assert (image.get("name"), image.get("value")) == (result["to_name"], "$image")
    # Label Studio numbers classes of its own exports by these, and by the alphabet without.
    assert [(one.get("value"), one.get("category")) for one in control] == [("cat", "0"), ("low & <lower>", "1")]


def test_a_classification_is_a_choice(file):
    images = classified("1", cat=0.75, dog=0.25), classified("2", fox=0.375, cat=0.25)
    tasks = written(write_tasks, file, *images, kind="classification", thresholds={"": 0.5})
    found = [[(one["type"], one["value"], one["score"]) for one in task["predictions"][0]["result"]] for task in tasks]
    assert found == [[("choices", {"choices": ["cat"]}, 0.75)], []]
    assert [one.get("value") for one in config_of(file).find("Choices")] == ["cat"]


def test_labels_of_a_multi_label_classification_are_all_chosen(file):
    [task] = written(
        write_tasks, file, tagged("1", cat=0.75, dog=0.5, fox=0.25), kind="classification", thresholds={"fox": 0.3}
    )
    [result] = task["predictions"][0]["result"]
    assert (result["from_name"], result["value"]["choices"], result["score"]) == ("choice", ["cat", "dog"], 0.75)


def test_a_path_is_quoted_and_a_url_stays(file):
    locations = HOSTILE_PATH, "https://host/a%20b.jpg?token=secret", "file:///srv/a%20b.jpg"
    tasks = written(write_tasks, file, *(detected(str(n), location=location) for n, location in enumerate(locations)))
    odd, remote, uri = (task["data"]["image"] for task in tasks)
    assert odd.isascii()
    assert parse_qs(urlsplit(odd).query, errors="surrogateescape")["d"] == [HOSTILE_PATH.lstrip("/")]
    assert (remote, uri) == ("https://host/a%20b.jpg?***", "/data/local-files/?d=srv/a%20b.jpg")


@pytest.mark.parametrize("odd", ["\x07", "\ufffe", "\uffff", "\udcff"])
def test_hostile_labels_are_text(file, odd):
    [task] = written(write_tasks, file, detected("1", CAT._replace(label=HOSTILE + odd)))
    assert task["predictions"][0]["result"][0]["value"]["rectanglelabels"] == [HOSTILE + odd]
    [label] = config_of(file).find("RectangleLabels")
    assert label.get("value") == f"{HOSTILE}\ufffd".replace("\x07", "\ufffd")


def test_images_in_a_column_have_no_path_that_label_studio_could_read(file):
    with pytest.raises(UsageError, match="in a column"):
        write_tasks(file, export_of(detected("1", location="row:1")))
    assert list(file.parent.iterdir()) == []
