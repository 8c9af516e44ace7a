"""megadetector-utils: its validator, its table of a results file, and its smoothing of species."""

import csv

from tests.readers.reader import same

PACKAGES = ("megadetector-utils==10.0.28",)
# Of five animals of a picture one is a fox: four of a kind are enough for its smoothing. Of the event it would take the
# badger for a lion too, but leaves labels without ranks alone.
SMOOTHED = {"cam1/a b.jpg": ["lion"] * 5, "cam1/next.jpg": ["lion", "lion", "badger"]}


def read(exports):
    from megadetector.postprocessing import classification_postprocessing as smoothing
    from megadetector.postprocessing.generate_csv_report import generate_csv_report
    from megadetector.postprocessing.validate_batch_results import ValidateBatchResultsOptions, validate_batch_results

    options = ValidateBatchResultsOptions()
    options.check_image_existence, options.relative_path_base = True, str(exports.photos)
    for model in ("detector", "species"):
        path = str(exports.folder / model / "megadetector.json")
        found = validate_batch_results(path, options)["validation_results"]
        same((found["errors"], found["warnings"]), ([], []))
        table = exports.scratch(model) / "table.csv"
        generate_csv_report(path, str(table), classification_confidence_threshold=0)
        with table.open(newline="") as file:
            same(sorted(map(row_of, csv.DictReader(file))), sorted(expected(exports, model)))
    by_event = [{"file_name": one["path"], "seq_id": str(one["event"])} for one in exports.images]
    same(best_labels(smoothing.smooth_classification_results_image_level(path)), smoothed(exports))
    same(best_labels(smoothing.smooth_classification_results_sequence_level(path, by_event)), smoothed(exports))
    return exports.figure


def row_of(row):
    names = ("filename", "detection_category", "classification_category", "max_detection_confidence", "count")
    return tuple(row[name] for name in names)


def expected(exports, model):
    """Yield its rows: the highest score of each pair of labels in a picture, and how many objects have them."""
    for image in exports.images:
        if image["rejected"]:
            yield image["path"], "error", image["rejected"], "", ""
            continue
        scores = {}
        for one in image["objects"]:
            scores.setdefault((one["label"], species_of(one) if model == "species" else ""), []).append(one["score"])
        if not scores:
            yield image["path"], "empty", "", "0.0", ""
        for labels, found in scores.items():
            yield image["path"], *labels, str(max(found)), str(len(found))


def species_of(one):
    return one["labels"][0]["label"] if one["labels"] else ""


def smoothed(exports):
    best = {one["path"]: [species_of(found) for found in one["objects"] if found["labels"]] for one in exports.images}
    return best | SMOOTHED


def best_labels(results):
    names, found = results["classification_categories"], {}
    for image in results["images"]:
        classified = (one["classifications"] for one in image["detections"] or () if "classifications" in one)
        found[image["file"]] = [names[best[0][0]] for best in classified]
    return found
