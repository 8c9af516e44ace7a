"""The objects of a detector with what a second network predicted for them, in each format and from each database."""

import csv
import json
import random
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from sqlalchemy import text

from infer_app.ask.export.exported_images import Export
from infer_app.ask.export.exported_model import ModelVersions
from infer_app.ask.export.formats.export_formats import FORMATS, write_export
from infer_app.ask.export.image_paths import ImagePaths
from infer_app.ask.export.sampling.choose_images import choose_images
from infer_app.base.domain import CropOutput, Output
from infer_app.base.errors import UsageError
from infer_app.tables.label_groups import replace_label_groups
from infer_app.tables.queries.thresholds import change_thresholds
from infer_app.tables.results.model_versions import switch_version
from infer_app.tables.results.schema import ALL_LABELS
from tests.conftest import DAY
from tests.support.exports import made_for
from tests.support.megadetector_rules import problems
from tests.support.second_networks import DETECTOR, SECOND, StoredModel

GROUPS = {"lion": ["mammal", "cat", "lion"], "tiger": ["mammal", "cat", "tiger"], "dog": ["mammal", "dog"]}
BOTH = [("animal", 0.9, "lion", 0.75), ("animal", 0.5, "dog", 0.5)]
TABLES = ("csv", "jsonl", "parquet")
COLUMNS = ["image_id", "object", "detected_label", "detected_score", "label", "score"]


@pytest.fixture
def in_use(database, detector, species):
    for model in (DETECTOR, SECOND):
        switch_version(database, model.name, model.model_id, {})


@pytest.fixture
def filled(in_use, detector, species, register, tables):
    """Image 1 with three objects, two of them taken, 2 without; the species of 3 was rejected, and all of 4."""
    register(*(f"/{number}.jpg" for number in range(1, 6)))
    detector.detect("1", 0.9, 0.5, 0.125)
    species.classify("1", {0: [("lion", 0.75), ("tiger", 0.25)], 1: [("dog", 0.5), ("lion", 0.375)]})
    detector.detect("2")
    species.classify("2", {})
    detector.detect("3", 0.75)
    species.reject("3")
    detector.reject("4")
    species.reject("4")
    return tables


def export_of(project, wanted="species", min_score=None):
    model = ModelVersions.find(project, [DAY], wanted)
    return Export.of_days(project, [DAY], model, ImagePaths(), min_score)


def write(name, path, project, **options):
    write_export(name, path, export := made_for(name, export_of(project, **options)))
    return export.counts


def set_groups(database, groups=GROUPS, allowed=tuple(GROUPS)):
    chains = {label: chain if label in allowed else None for label, chain in groups.items()}
    replace_label_groups(database, "species", chains)


def read_table(name, path):
    if name == "parquet":
        return pq.read_table(path).to_pylist()
    with path.open(newline="") as file:
        return list(csv.DictReader(file)) if name == "csv" else [json.loads(line) for line in file]


def answers(name, path):
    """Read back both labels and scores of each object; of YOLO its class, of Label Studio what is shown of it."""
    if name in TABLES:
        rows = [row for row in read_table(name, path) if row["detected_label"]]
        scores = [(float(row["detected_score"]), float(row["score"])) for row in rows]
        return [
            (row["detected_label"], first, row["label"], second)
            for row, (first, second) in zip(rows, scores, strict=True)
        ]
    if name == "camtrap-dp":
        rows = read_table("csv", path / "observations.csv")
        return [(row["observationTags"], float(row["classificationProbability"])) for row in rows if row["bboxX"]]
    if name == "yolo":
        names = (path / "classes.txt").read_text().split()
        numbers = [int(line.split()[0]) for line in (path / "labels" / "1.txt").read_text().splitlines()]
        return [(number, names[number]) for number in numbers]
    found = json.loads(path.read_text())
    if name == "label-studio":
        assert 'value="tiger"' in path.with_name("out-config.xml").read_text()  # people correct to any label
        results = [one for task in found for one in task["predictions"][0]["result"]]
        return [(one.get("meta"), *one["value"]["rectanglelabels"], one["score"]) for one in results]
    if name == "megadetector":
        first, second = found["detection_categories"], found["classification_categories"]
        detections = found["images"][0]["detections"]
        best = [one.get("classifications", [("none", None)])[0] for one in detections]
        pairs = zip(detections, best, strict=True)
        return [(first[one["category"]], one["conf"], second.get(key), score) for one, (key, score) in pairs]
    annotations = found["annotations"] if name == "coco" else found
    assert {one["category_id"] for one in annotations} == {1}
    return [("animal", one["score"], *one["attributes"].values()) for one in annotations]


def test_a_name_that_has_been_a_classifiers_is_its_detectors_too(filled, database):
    manifest = {"output": {"kind": "classification"}, "labels": ["other"]}
    StoredModel(database, replace(DETECTOR, model_id="c" * 16, manifest=manifest))
    for model_id in ("c" * 16, DETECTOR.model_id):
        switch_version(database, "animals", model_id, manifest)
    detector = export_of(filled).detector
    assert (detector.model.model_ids, detector.model.labels_by_version) == ((DETECTOR.model_id,), [("animal",)])


@pytest.mark.parametrize("name", FORMATS)
def test_each_box_carries_both_answers(filled, tmp_path, name):
    counts = write(name, tmp_path / "out", filled)
    meta = [{"text": ["animal 0.90"]}, {"text": ["animal 0.50"]}]
    with_all_objects = {
        "camtrap-dp": [("label:lion", 0.75), ("label:dog", 0.5), ("", 0.125)],  # an animal
        "yolo": [(1, "lion"), (3, "dog"), (0, "animal")],
        "label-studio": [(meta[0], "lion", 0.75), (meta[1], "dog", 0.5), (None, "animal", 0.125)],
        "megadetector": [*BOTH, ("animal", 0.125, None, None)],
    }
    assert answers(name, tmp_path / "out") == with_all_objects.get(name, BOTH)
    num_objects = 4 if name == "megadetector" else len(with_all_objects.get(name, BOTH))  # with the one of image 3
    assert (counts.num_images, counts.num_objects, counts.num_rejected) == (2, num_objects, 2)


def test_a_file_for_megadetector_has_the_best_allowed_labels_and_what_was_detected_where_the_second_network_failed(
    filled, database, tmp_path
):
    set_groups(database, allowed=("tiger", "dog"))
    change_thresholds(database, "animals", {ALL_LABELS: 0.25})
    change_thresholds(database, "species", {ALL_LABELS: 0.6})
    counts = write("megadetector", tmp_path / "out", filled)
    found = json.loads((tmp_path / "out").read_text())
    assert list(problems(found)) == []
    box = {"category": "1", "bbox": [0.25, 0.5, 0.125, 0.0625]}
    assert found == {
        "info": {
            "format_version": "1.6",
            "detector": "animals@dddddddd",
            "detector_metadata": {"typical_detection_threshold": 0.25},
            "classifier": "species@55555555",
            "classifier_metadata": {"typical_classification_threshold": 0.6},
        },
        "images": [
            {
                "file": "/1.jpg",
                "detections": [
                    box | {"conf": 0.9, "classifications": [["2", 0.25]]},
                    box | {"conf": 0.5, "classifications": [["3", 0.5]]},
                ],
            },
            {"file": "/2.jpg", "detections": []},
            {"file": "/3.jpg", "detections": [box | {"conf": 0.75}]},
            {"file": "/4.jpg", "failure": "corrupt", "detections": None},
        ],
        "detection_categories": {"1": "animal"},
        "classification_categories": {"1": "lion", "2": "tiger", "3": "dog"},
    }
    assert (counts.num_rejected, counts.num_detected) == (2, 1)


def test_a_taxonomy_of_five_ranks_and_scientific_names_are_what_readers_of_megadetectors_file_know(
    filled, detector, species, database, tmp_path
):
    detector.detect("5", 0.75)
    species.classify("5", {0: [("Vulpes vulpes", 0.75)]})
    set_groups(database, {"lion": ["Mammalia", "Carnivora", "Felidae", "Panthera", "leo", "lion"]}, ("lion",))
    write("megadetector", tmp_path / "out", filled)
    found = json.loads((tmp_path / "out").read_text())
    described = found["classification_category_descriptions"]
    assert {found["classification_categories"][key]: chain for key, chain in described.items()} == {
        "lion": ";mammalia;carnivora;felidae;panthera;leo;lion",
        "tiger": ";;;;;;tiger",
        "dog": ";;;;;;dog",
        "Vulpes vulpes": ";;;;vulpes;vulpes;vulpes vulpes",
    }


def test_the_files_show_what_the_view_shows(database, in_use, detector, species, register, tables, tmp_path):
    """Chosen at random: labels, groups that hold some of them, which are allowed, and thresholds of all of these."""
    chance, labels = random.Random(5), ["a", "A", "a ", "b", "c", "d"]
    register(*(f"/{number}.jpg" for number in range(1, 21)))
    for number in range(1, 21):
        detector.detect(str(number), 0.75, 0.5, 0.25)
        scores = [[part / 64 for part in sorted(chance.choices(range(1, 16), k=5), reverse=True)] for _ in range(3)]
        best = [zip(chance.sample(labels, 5), own, strict=True) for own in scores]
        species.classify(str(number), dict(enumerate(map(list, best))))
    chains = {label: ["root", *chance.choices(["x", "y", "X"], k=1), label] for label in labels[:5]}
    set_groups(database, chains, allowed=labels[:4])
    for thresholds in ({}, {ALL_LABELS: 0.25}, {ALL_LABELS: 0.3, "x": 0.5, "a": 0.125}, {ALL_LABELS: 0.9}):
        change_thresholds(database, "species", thresholds)
        change_thresholds(database, "animals", {ALL_LABELS: 0.5})
        write("jsonl", tmp_path / "out", tables)
        rows = [[row[name] for name in COLUMNS] for row in read_table("jsonl", tmp_path / "out")]
        with database.read() as connection:
            view = connection.execute(text(f"SELECT {', '.join(COLUMNS)} FROM infer_shown_crops")).all()
        assert sorted(rows, key=str) == sorted(map(list, view), key=str)
        assert len(rows) == 40


@pytest.mark.parametrize("name", TABLES)
def test_vectors_and_numbers_of_objects_are_in_the_tables_alone(
    database, in_use, detector, register, tables, tmp_path, name
):
    vector = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    outputs = {
        "embedding": Output(vector=vector.tobytes(), vector_dtype="float32", vector_dim=1000),
        "regression": Output(score=12.5),
    }
    register("/1.jpg", "/2.jpg")
    detector.detect("1")
    detector.detect("2", 0.9, 0.125)
    for kind, output in outputs.items():
        manifest = {"output": {"kind": kind}, "crop": SECOND.manifest["crop"]}
        model = replace(SECOND, name=kind, model_id=kind, manifest=manifest)
        stored = StoredModel(database, model, DETECTOR.model_id)
        stored.predict("1", Output(crops=()))
        stored.predict("2", Output(crops=(CropOutput(0, output),)))
        switch_version(database, kind, kind, manifest)
        write(name, tmp_path / kind, tables, wanted=kind)
        with pytest.raises(UsageError, match=f"COCO can't hold {kind} outputs of objects") as refused:
            write("coco", tmp_path / "coco", tables, wanted=kind)
        assert refused.value.hint == "formats that can: csv, jsonl, parquet"
    (_, row), (_, number) = (read_table(name, tmp_path / kind) for kind in outputs)
    if name == "parquet":
        assert pq.read_schema(tmp_path / "embedding").field("vector").type.list_size == 1000
    numbers = json.loads(row["vector"]) if name == "csv" else row["vector"]
    assert np.array_equal(np.array(numbers, np.float32), vector)
    assert (float(number["score"]), float(number["detected_score"]), number["label"] or None) == (12.5, 0.9, None)


def test_a_lowest_score_is_that_of_the_detectors_objects(filled, database):
    change_thresholds(database, "species", {ALL_LABELS: 0.6})
    (first, _) = export_of(filled, min_score=0.4).read_images()
    assert [(one.score, crop.label) for one, crop in zip(first.objects, first.crops, strict=True)] == [
        (0.9, "lion"),
        (0.5, None),
    ]
    (first, _) = export_of(filled, min_score=0.6).read_images()
    assert [one.score for one in first.objects] == [0.9]


def test_images_are_chosen_by_the_labels_of_their_objects(in_use, detector, species, register, tables):
    best = {"1": [("lion", 0.75), ("dog", 0.25)], "2": [("lion", 0.5), ("dog", 0.4375)], "3": [("dog", 0.875)]}
    register(*(f"/{number}.jpg" for number in range(1, 5)))
    for image_id, labels in best.items():
        detector.detect(image_id, 0.9)
        species.classify(image_id, {0: labels})
    detector.detect("4")
    species.classify("4", {})
    export = export_of(tables)

    def choose(by, count):
        return [image.image_id for _, image in choose_images(export.read_predictions(), by, count, export, 0)]

    assert choose("uncertain", 4) == ["2", "1", "3", "4"]
    assert {"3", "4"} < set(choose("label", 3))
