"""A database of layout 1, and what tables and views answer.

It holds registered images, of which one was replaced, one is gone and one has no result, a table of the user's with a
view of it, and results of runs that recorded no source; two versions of a detector, second networks, rejections,
thresholds and groups of labels; and a row for an object that was never found, which no run writes.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import column, insert, table

from tests.support.statements import connected

LAST_ID = 9  # that infer_images has given, of an image that is gone
LEFT_OUT = 1  # row of infer_object_predictions
RELEASE = json.loads(Path(__file__).with_suffix(".json").read_text())
VIEWS = {  # with the columns that they had; size and modified are those of the file as it was seen last
    "infer_current_predictions": "model, image_id, model_id, run_id, variant, label, score, output, vector, sha256,"
    " created_at, width, height, num_objects, COALESCE(location, ''), detector_id",
    "infer_current_objects": "model, image_id, model_id, object, label, class_index, score, x, y, width, height",
    "infer_shown_objects": "model, image_id, model_id, object, label, class_index, score, x, y, width, height",
    "infer_shown_labels": "model, image_id, model_id, label, score",
    "infer_current_crops": "model, image_id, model_id, object, detector, detector_id, x, y, width, height,"
    " detected_label, detected_score, label, score, output, vector, location",
    "infer_shown_crops": "model, image_id, model_id, object, detector, x, y, width, height, detected_label,"
    " detected_score, label, score, location",
    "infer_images": "id, location, added_at, queued_at, missing_since",
}
TABLES = ("infer_predictions", "infer_rejections", "infer_objects", "infer_object_predictions")
UNCHANGED = dict.fromkeys(("infer_models", "infer_thresholds", "infer_label_groups", "infer_runs"), "*") | {
    "infer_sources": "id, database, relation, id_column, location_column, base, first_used_at, forgotten_before"
}
_LAST_IDS = {
    "sqlite": [f"UPDATE sqlite_sequence SET seq = {LAST_ID} WHERE name = 'infer_images'"],
    "postgres": [f"SELECT setval('infer_images_id_seq', {LAST_ID})", "SELECT setval('infer_sources_id_seq', 4)"],
    "mariadb": [f"ALTER TABLE infer_images AUTO_INCREMENT = {LAST_ID + 1}"],
}


def fill_former(url: str) -> None:
    """Make the tables and views of layout 1 in an empty database, and their rows."""
    with connected(url) as connection:
        kind = {"postgresql": "postgres"}.get(connection.dialect.name, connection.dialect.name)
        for statement in RELEASE["statements"][kind]:
            connection.exec_driver_sql(statement)
        for name, (columns, *rows) in RELEASE["rows"].items():
            values = [[bytes.fromhex(one["hex"]) if isinstance(one, dict) else one for one in row] for row in rows]
            connection.execute(
                insert(table(name, *map(column, columns))), [dict(zip(columns, row, strict=True)) for row in values]
            )
        for statement in _LAST_IDS[kind]:
            connection.exec_driver_sql(statement)


def answers(url: str) -> dict[str, list[str]]:
    """Return what views give in the columns that they had, and how many rows of each model tables have."""
    with connected(url) as connection:
        told = {view: f"SELECT {columns} FROM {view}" for view, columns in VIEWS.items()}
        told |= {name: f"SELECT model_id, COUNT(*) FROM {name} GROUP BY model_id" for name in TABLES}
        told |= {name: f"SELECT {columns} FROM {name}" for name, columns in UNCHANGED.items()}
        return {name: sorted(map(_shown, connection.exec_driver_sql(sql))) for name, sql in told.items()}


def _shown(row: Sequence[object]) -> str:
    return repr([bytes(one) if isinstance(one, memoryview) else one for one in row])
