#!/bin/sh
# megadetector-utils 10.0.28 smooths species of a picture: of four lions and a fox it makes five lions. Where the results
# describe these labels as SpeciesNet does (class;order;family;genus;species;label) and all ranks are empty, it changes
# nothing and says "changed 0 detections", though the same file without descriptions is smoothed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q megadetector-utils==10.0.28
"$folder/venv/bin/python" - <<'P'
import contextlib, io, sys
from importlib.metadata import version
from megadetector.postprocessing.classification_postprocessing import smooth_classification_results_image_level
from megadetector.postprocessing.validate_batch_results import validate_batch_results

NAMES = {"1": "lion", "2": "fox"}


def results(**more):
    box = {"category": "1", "conf": 0.9, "bbox": [0.1, 0.1, 0.2, 0.2]}
    found = [box | {"classifications": [[label, 0.9]]} for label in "11112"]
    info = {"format_version": "1.6", "detector": "some detector", "classifier": "some classifier"}
    categories = {"detection_categories": {"1": "animal"}, "classification_categories": NAMES}
    return {"info": info, "images": [{"file": "a.jpg", "detections": found}], **categories, **more}


def smoothed(given):
    with contextlib.redirect_stdout(io.StringIO()):
        assert validate_batch_results(given)["validation_results"]["errors"] == []
        image = smooth_classification_results_image_level(given)["images"][0]
    return [NAMES[one["classifications"][0][0]] for one in image["detections"]]


without = smoothed(results())
described = smoothed(results(classification_category_descriptions={"1": ";;;;;;lion", "2": ";;;;;;fox"}))
print(f"megadetector-utils {version('megadetector-utils')}")
print(f"without descriptions: {without}")
print(f"with descriptions that have no ranks: {described}")
sys.exit(0 if without == ["lion"] * 5 and described == ["lion"] * 4 + ["fox"] else 1)
P
