import json
from dataclasses import replace

from infer_app.ask.export.formats.megadetector import write_megadetector
from infer_app.ask.export.image_paths import ImagePaths
from infer_app.ask.export.species import Species, SpeciesNames
from tests.support.exports import (
    CAT,
    CREATED_AT,
    DOG,
    HOSTILE,
    HOSTILE_PATH,
    ID,
    LOW,
    detected,
    export_of,
    rejected,
    written,
)
from tests.support.megadetector_rules import problems


def test_the_file_keeps_the_rules(tmp_path):
    images = detected("1", CAT, DOG), detected("2"), detected("3", CAT._replace(label=" ", class_index=5))
    hostile = detected("4", DOG._replace(label=HOSTILE, class_index=6, score=1.0), location=HOSTILE_PATH)
    failed = (rejected("9"), rejected("8", location="\udcff\n"))
    found = written(write_megadetector, tmp_path / "md.json", *images, hostile, rejections=failed)
    assert list(problems(found)) == []
    assert set(found) == {"info", "images", "detection_categories"}


def test_images_have_shares_and_failures_no_list(tmp_path):
    images = detected("1", CAT, DOG, LOW), detected("2", LOW)
    options = {"paths": ImagePaths("/srv/photos"), "thresholds": {"": 0.5}}
    options["rejections"] = [rejected(), rejected("8", location="/elsewhere/x.jpg")]
    found = written(write_megadetector, tmp_path / "md.json", *images, **options)
    assert found == {
        "info": {
            "format_version": "1.6",
            "detector": "animals@01234567",
            "detector_metadata": {"typical_detection_threshold": 0.5},
        },
        "images": [
            {
                "file": "1.jpg",
                "detections": [
                    {"category": "1", "conf": 0.75, "bbox": [0.25, 0.5, 0.125, 0.25]},
                    {"category": "3", "conf": 0.5, "bbox": [0.0, 0.0, 1.0, 1.0]},
                ],
            },
            {"file": "2.jpg", "detections": []},
            {"file": "9.jpg", "failure": "corrupt", "detections": None},
            {"file": "/elsewhere/x.jpg", "failure": "corrupt", "detections": None},
        ],
        "detection_categories": {"1": "cat", "3": "dog"},
    }


def test_ranks_are_those_of_the_scientific_name_that_a_label_has(tmp_path):
    names = SpeciesNames(fox=Species(label="fox", scientific_name="Vulpes vulpes"))
    boxes = export_of()
    labels = ((CREATED_AT, ID, ("fox", "Lynx lynx", "bird")),)
    export = replace(boxes, model=replace(boxes.model, recorded_labels=labels), detector=boxes, species=names)
    write_megadetector(tmp_path / "md.json", export)
    found = json.loads((tmp_path / "md.json").read_text())
    assert found["classification_category_descriptions"] == {
        "1": ";;;;vulpes;vulpes;fox",
        "2": ";;;;lynx;lynx;lynx lynx",
        "3": ";;;;;;bird",
    }
