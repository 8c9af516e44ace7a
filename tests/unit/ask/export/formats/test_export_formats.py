import json
from dataclasses import replace
from pathlib import Path

import pytest

from infer_app.ask.export.formats.export_formats import FORMATS, find_format, write_export
from infer_app.ask.export.image_paths import ImagePaths
from infer_app.base.errors import UsageError
from tests.support.exports import CAT, DATE, DOG, LOW, classified, detected, export_of, made_for, rejected, with_output

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
    export = made_for(name, type(export)(export.model, {}, ImagePaths(), fail, tuple))
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
