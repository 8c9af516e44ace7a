"""duckdb: the tables."""

from datetime import datetime

from tests.readers.reader import refusal, same

PACKAGES = ("duckdb==2.0.0", "pytz==2026.6")
TABLES = {"rows.parquet": "read_parquet", "rows.csv": "read_csv", "rows.jsonl": "read_json"}
IMAGE = "image_id::INTEGER, location, image_width, image_height, camera, taken_at::TIMESTAMP, event"
BOX = "score, x, y, width, height, xmin, ymin, xmax, ymax"


def read(exports):
    import sys

    import duckdb

    for file, function in TABLES.items():
        for model in ("detector", "species", "colors"):
            table = f"{function}('{exports.folder / model / file}')"
            same(duckdb.sql(SELECT[model].format(image=IMAGE, box=BOX, table=table)).fetchall(), ROWS[model](exports))
    sys.modules["pytz"] = None  # which duckdb needs for a column of times with a zone, and does not require
    same(refusal(duckdb.sql(f"SELECT created_at FROM {table}").fetchall), duckdb.InvalidInputException)
    assert duckdb.sql(f"SELECT created_at::TIMESTAMP FROM {table}").fetchall()
    return exports.figure


SELECT = {
    "detector": "SELECT {image}, label, class_index, {box} FROM {table}",
    "species": "SELECT {image}, detected_label, detected_class_index, detected_{box}, label, score FROM {table}",
    "colors": "SELECT {image}, label, score FROM {table}",
}


def best(image):
    return image["labels"][0]["label"], image["labels"][0]["score"]


def of_image(image):
    at = datetime.fromisoformat(image["taken_at"])
    return (image["id"], image["path"], *image["size"], image["camera"], at, image["event"])


def of_objects(exports, is_wanted=lambda one: True, more=lambda one: ()):
    """Return a row for each object, or one for a picture without."""
    rows = []
    for image in exports.predicted:
        wanted = [one for one in image["objects"] if is_wanted(one)]
        width, height = image["size"]
        for one in wanted:
            x, y, w, h = one["box"]
            pixels = (x * width, y * height, (x + w) * width, (y + h) * height)
            rows.append((*of_image(image), one["label"], one["class"], one["score"], *one["box"], *pixels, *more(one)))
        if not wanted:
            rows.append((*of_image(image), *[None] * 11, *[None for _ in more(NOTHING)]))
    return rows


def shown(one):
    return one["shown"], one["shown_score"]


NOTHING = {"shown": None, "shown_score": None}


ROWS = {
    "detector": of_objects,
    "species": lambda exports: of_objects(exports, lambda one: one["labels"], shown),
    "colors": lambda exports: [(*of_image(one), *best(one)) for one in exports.predicted],
}
