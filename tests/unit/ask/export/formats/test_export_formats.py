import csv
import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from infer_app.ask.export.formats.export_formats import FORMATS, find_format, write_export
from infer_app.base.errors import UsageError
from tests.support.exports import (
    CAT,
    DATE,
    DOG,
    LOW,
    KnownCaptures,
    classified,
    detected,
    export_of,
    made_for,
    rejected,
    with_output,
)

IMAGES = [detected(str(number), CAT, DOG, LOW) for number in range(1, 4)]


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("name", "images", "kind"),
    [
        pytest.param(name, images, kind, id=f"{name}-{kind}-{len(images)}")
        for images, kind in (
            (IMAGES, "detection"),
            ([], "detection"),
            ([classified("1", a=0.5)], "classification"),
            ([with_output("1", vector=[1.0])], "embedding"),
        )
        for name in FORMATS
        if kind in FORMATS[name].kinds
    ],
)
def test_the_same_rows_give_the_same_bytes(tmp_path, name, images, kind):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        export = made_for(name, export_of(*images, kind=kind, rejections=[rejected()]))
        counts = write_export(name, tmp_path / folder / "out", export)
        num_objects = sum(len(image.objects) for image in images)
        assert (counts.num_images, counts.num_objects, counts.num_rejected) == (len(images), num_objects, 1)
    first = content(tmp_path / "a")
    assert first
    assert first == content(tmp_path / "b")


@pytest.mark.parametrize("name", FORMATS)
def test_a_failed_export_leaves_what_was_there(tmp_path, name):
    """The source fails after some images; the file of an earlier export stays."""
    is_folder = FORMATS[name].is_folder
    if not is_folder:
        (tmp_path / "out").write_text("earlier")

    def fail():
        yield from ((None, image) for image in IMAGES)
        raise ConnectionError("the server is gone")

    export = export_of()
    export = made_for(name, replace(export, read_predictions=fail))
    with pytest.raises((ConnectionError, UsageError), match="the server is gone"):
        write_export(name, tmp_path / "out", export)
    assert content(tmp_path) == ({} if is_folder else {"out": b"earlier"})
    assert [path.name for path in tmp_path.iterdir()] == ([] if is_folder else ["out"])


@pytest.mark.parametrize("name", FORMATS)
def test_what_can_not_be_written_is_named_and_leaves_nothing(tmp_path, name, no_space):
    with pytest.raises(UsageError, match="can't be written: No such file"):
        write_export(name, tmp_path / "missing" / "out", made_for(name, export_of(*IMAGES)))
    with pytest.raises(UsageError, match="out can't be written: File too large"), no_space():
        write_export(name, tmp_path / "out", made_for(name, export_of(*IMAGES)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FORMATS)
def test_an_image_that_is_predicted_meanwhile_is_in_the_file(tmp_path, name):
    """A run predicts the rejected image 9 after whatever is read first; no format may take it for neither."""
    images, failed = [(DATE, IMAGES[0])], [rejected("9")]

    def read(wanted):
        found = list(wanted)
        if failed:
            failed.clear()
            images.append((DATE, detected("9", CAT)))
        return found

    export = replace(
        made_for(name, export_of()), read_predictions=lambda: read(images), read_rejected=lambda: read(failed)
    )
    counts = write_export(name, tmp_path / "out", export)
    assert (counts.num_images, counts.num_rejected) == (2, 0 if FORMATS[name].rejected_as else 1)
    if name == "megadetector":
        assert [Path(one["file"]).stem for one in json.loads((tmp_path / "out").read_text())["images"]] == ["1", "9"]


def test_a_folder_is_no_file_and_is_kept(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(UsageError, match="is a folder"):
        write_export("coco", tmp_path, export_of(*IMAGES))
    with pytest.raises(UsageError, match="is not empty"):
        write_export("yolo", tmp_path, export_of(*IMAGES))
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("kind", "formats"),
    [
        ("detection", [*FORMATS]),
        ("classification", ["camtrap-dp", "label-studio", "csv", "jsonl", "parquet"]),
        ("embedding", ["csv", "jsonl", "parquet"]),
        ("regression", ["csv", "jsonl", "parquet"]),
        ("raw", ["csv", "jsonl", "parquet"]),
    ],
)
def test_a_format_that_cannot_hold_an_output_names_those_that_can(kind, formats):
    model = export_of(kind=kind).model
    for name in FORMATS:
        if name in formats:
            assert find_format(name, model)
            continue
        with pytest.raises(UsageError, match=f"can't hold {kind} outputs") as refused:
            find_format(name, model)
        assert refused.value.hint == f"formats that can: {', '.join(formats)}"
    with pytest.raises(UsageError, match="unknown format 'xml'"):
        find_format("xml", model)


def test_tasks_name_the_camera_and_the_time_by_its_clock_put_right(tmp_path):
    write_export("label-studio", tmp_path / "out", replace(export_of(detected("1")), captures=KnownCaptures()))
    [task] = json.loads((tmp_path / "out").read_text())
    assert (task["data"]["camera"], task["data"]["taken_at"]) == ("north", "2026-11-20T06:30:00")


@pytest.mark.parametrize("name", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    ("image", "kind"),
    [(detected("1", CAT, DOG), "detection"), (detected("1"), "detection"), (classified("1", a=0.5), "classification")],
    ids=["objects", "none", "labels"],
)
def test_tables_name_the_camera_of_each_row(tmp_path, name, image, kind):
    write_export(name, tmp_path / "out", replace(export_of(image, kind=kind), captures=KnownCaptures()))
    if name == "parquet":
        rows = pq.read_table(tmp_path / "out").to_pylist()
    else:
        text = (tmp_path / "out").read_text()
        rows = list(csv.DictReader(text.splitlines())) if name == "csv" else [*map(json.loads, text.splitlines())]
    assert {(row["camera"], str(row["taken_at"]).replace(" ", "T")) for row in rows} == {
        ("north", "2026-11-20T06:30:00")
    }
    assert len(rows) == max(len(image.objects), 1)


def test_an_event_has_the_most_of_each_label_in_one_picture_with_its_best_score(tmp_path):
    """By hand: two animals and a person, then one animal alone; another event is blank."""
    person, two = (
        CAT._replace(label="person", score=0.9),
        [CAT._replace(label="animal", score=score) for score in (0.5, 0.8)],
    )
    images = [detected("1", *two, person), detected("2", two[0]), detected("3")]
    captures = KnownCaptures(events=zip([image.picture for image in images], (7, 7, 8), strict=True))
    write_export("camtrap-dp", tmp_path / "out", replace(made_for("camtrap-dp", export_of(*images)), captures=captures))
    rows = list(csv.DictReader((tmp_path / "out/observations.csv").read_text().splitlines()))
    of_event = [one for one in rows if one["observationLevel"] == "event"]
    assert [(one["observationType"], one["count"], one["classificationProbability"]) for one in of_event] == [
        ("animal", "2", "0.8"), ("human", "1", "0.9"), ("blank", "", "")
    ]  # fmt: skip
    assert len(rows) == 5 + 3


def test_an_event_is_not_blank_if_one_of_its_pictures_is_not(tmp_path):
    images = [classified("1", blank=0.9), classified("2", fox=0.8), classified("3", Motorbike=0.7)]
    captures = KnownCaptures(events=zip([image.picture for image in images], (7, 7, 8), strict=True))
    export = made_for("camtrap-dp", export_of(*images, kind="classification"))
    write_export("camtrap-dp", tmp_path / "out", replace(export, captures=captures))
    rows = list(csv.DictReader((tmp_path / "out/observations.csv").read_text().splitlines()))
    found = [(one["eventID"], one["observationType"]) for one in rows if one["observationLevel"] == "event"]
    assert found == [("7", "animal"), ("8", "vehicle")]


def test_camtrap_dp_takes_no_path_without_a_name(tmp_path):
    images = [detected("1", CAT, location="https://h/a.PNG?sig=x")]
    failed = [rejected("9", location=" ")]
    export = made_for("camtrap-dp", export_of(*images, rejections=[replace(failed[0], location="")]))
    counts = write_export("camtrap-dp", tmp_path / "out", export)
    (medium,) = csv.DictReader((tmp_path / "out/media.csv").read_text().splitlines())
    assert (medium["fileName"], medium["fileMediatype"]) == ("a.PNG", "image/png")
    assert counts.left_out == {"path of this format": 1}
