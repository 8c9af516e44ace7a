"""frictionless: types, required values and keys of a Camtrap DP package."""

import json
import shutil
from collections import Counter
from pathlib import Path

from tests.readers.reader import same, taken

PACKAGES = ("frictionless==5.21.0",)
# What Camtrap DP 1.0.2 says of the columns that are filled, since its schemas are read from the web. "!": required.
TIME, SHARE = "datetime!", "share"
COLUMNS = {
    "deployments": {
        "deploymentID": "string!",
        "latitude": "number!",
        "longitude": "number!",
        "deploymentStart": TIME,
        "deploymentEnd": TIME,
    },
    "media": {
        "mediaID": "string!",
        "deploymentID": "string!",
        "timestamp": TIME,
        "filePath": "string!",
        "filePublic": "boolean!",
        "fileMediatype": "string!",
    },
    "observations": {
        "observationID": "string!",
        "deploymentID": "string!",
        "eventStart": TIME,
        "eventEnd": TIME,
        "observationLevel": "string!",
        "observationType": "string!",
        "count": "integer",
        **dict.fromkeys(("bboxX", "bboxY", "bboxWidth", "bboxHeight", "classificationProbability"), SHARE),
        "classificationTimestamp": "datetime",
    },
}
KEYS = {"media": ("deployments",), "observations": ("deployments", "media")}


def read(exports):
    from frictionless import Package, validate

    for model in ("detector", "species", "colors"):
        package = exports.scratch(model) / "package"
        shutil.copytree(exports.folder / model / "camtrap-dp", package)
        describe(package)
        report = validate(str(package / "datapackage.json"))
        same((report.valid, report.flatten(["title", "message"])), (True, []))
        rows = {one.name: one.read_rows() for one in Package(str(package / "datapackage.json")).resources}
        times = {row["filePath"]: row["timestamp"].isoformat() for row in rows["media"]}
        same(times, {image["path"]: taken(image) for image in exports.images})
        if model == "colors":
            same(tags(rows), [f"label:{image['labels'][0]['label']}" for image in exports.predicted])
        else:
            same(boxes(rows), expected(exports))
            same(counts(rows), expected_counts(exports, model))
    return exports.figure


def describe(package):
    """Replace the addresses of the standard's schemas."""
    file = Path(package) / "datapackage.json"
    found = json.loads(file.read_text())
    del found["profile"]
    for table in found["resources"]:
        name = table["name"]
        header = (package / f"{name}.csv").read_text().partition("\n")[0].split(",")
        key = header[0]
        table["schema"] = {
            "fields": [field(column, COLUMNS[name].get(column, "string")) for column in header],
            "primaryKey": key,
            "foreignKeys": [foreign(other) for other in KEYS.get(name, ())],
        }
    file.write_text(json.dumps(found))


def field(name, kind):
    described = {"name": name, "type": kind.rstrip("!"), "constraints": {"required": kind.endswith("!")}}
    if kind == SHARE:
        described |= {"type": "number", "constraints": {"minimum": 0, "maximum": 1}}
    if described["type"] == "datetime":
        described["format"] = "%Y-%m-%dT%H:%M:%S%z"
    return described


def foreign(table):
    key = {"deployments": "deploymentID", "media": "mediaID"}[table]
    return {"fields": [key], "reference": {"resource": table, "fields": [key]}}


def tags(rows):
    media = [row for row in rows["observations"] if row["observationLevel"] == "media"]
    return [row["observationTags"] for row in media if row["observationType"] != "unclassified"]


def boxes(rows):
    paths = {row["mediaID"]: row["filePath"] for row in rows["media"]}
    found = [row for row in rows["observations"] if row["observationLevel"] == "media" and row["bboxX"] is not None]
    sides = ("bboxX", "bboxY", "bboxWidth", "bboxHeight")
    return sorted((paths[row["mediaID"]], *(float(row[side]) for side in sides)) for row in found)


def expected(exports):
    return sorted((image["path"], *one["box"]) for image in exports.predicted for one in image["objects"])


def counts(rows):
    """Return of each event how many of each kind are seen at most in one picture."""
    events = [row for row in rows["observations"] if row["observationLevel"] == "event" and row["count"]]
    return sorted((row["eventStart"].isoformat(), name_of(row), row["count"]) for row in events)


def name_of(row):
    return row["scientificName"] or row["observationTags"] or row["observationType"]


def expected_counts(exports, model):
    for_event = []
    for images in exports.by_event().values():
        most = Counter()
        for image in images:
            most |= Counter(label_of(one, model) for one in image["objects"])
        for_event += [(taken(images[0]), label, number) for label, number in most.items()]
    return sorted(for_event)


def label_of(one, model):
    """Return what it is called: a scientific name, a tag of another, or the type alone."""
    if one["label"] == "truck":
        return "vehicle"
    if model == "detector" or one["shown"] is None:
        return "animal"
    return one["shown"] if one["shown"][0].isupper() else f"label:{one['shown']}"
