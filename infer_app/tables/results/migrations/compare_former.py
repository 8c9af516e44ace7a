"""Whether the tables of layout 2 and the views over them have as many rows of each model as those of layout 1 had."""

import logging
import re
from collections.abc import Callable, Mapping

from sqlalchemy import Connection, inspect

from infer_app.base.errors import SchemaOutdated
from infer_app.tables.engine.connect import backend_of
from infer_app.tables.results.schema import OUR_IMAGES, OURS
from infer_app.tables.results.views import VIEWS, definitions

log = logging.getLogger(__name__)
_TABLES = ("infer_predictions", "infer_rejections", "infer_objects", "infer_object_predictions")
# The image ids of which views may answer otherwise: that of several pictures, of which views gave only the results of
# one, or with a row that no run has written and that was left out.
_ODD = """
SELECT image_id FROM infer_pictures GROUP BY image_id HAVING COUNT(*) > 1
UNION
SELECT o.image_id FROM infer_objects o
WHERE NOT EXISTS (SELECT 1 FROM infer_predictions p WHERE p.image_id = o.image_id AND p.model_id = o.model_id)
UNION
SELECT m.image_id FROM infer_object_predictions m
WHERE NOT EXISTS (
    SELECT 1 FROM infer_predictions p
    JOIN infer_objects o ON o.image_id = p.image_id AND o.model_id = p.detector_id
    WHERE p.image_id = m.image_id AND p.model_id = m.model_id AND o.object = m.object
)
"""
_REPLACED = re.compile(r"\binfer_(images|predictions|rejections|objects|object_predictions)\b")
# Of a view's definition, as databases give it: what stands before the SELECT, and where its relations are.
_UNWANTED = re.compile(
    r"""\A\s*CREATE\b.*?\bAS\s+(?=SELECT\b)|(?:`[^`]+`|"[^"]+"|\w+)\.(?=[`"]?infer_)""", re.IGNORECASE | re.DOTALL
)
_OF_PICTURE = "(SELECT c.image_id, r.model_id FROM {} r JOIN infer_pictures c ON c.id = r.picture)"
_ROWS = {name: _OF_PICTURE.format(name) for name in _TABLES} | {
    "infer_object_predictions": "(SELECT c.image_id, r.model_id FROM infer_object_predictions r"
    " JOIN infer_objects o ON o.id = r.object_id JOIN infer_pictures c ON c.id = o.picture)"
}


def read_views(connection: Connection) -> dict[str, str]:
    """Return what those of our views select that are there, each after those that it selects from."""
    inspector, schema = inspect(connection), backend_of(connection).own_schema(connection)
    found = {*inspector.get_view_names(schema)}
    texts = {name: inspector.get_view_definition(name, schema) for name in VIEWS if name in found}
    return {name: _UNWANTED.sub("", text).strip().rstrip(";") for name, text in texts.items()}


def check_same(connection: Connection, former: Mapping[str, str], aside: Callable[[str], str]) -> None:
    """Raise SchemaOutdated unless tables and views have as many rows of each model as before; log what was left out."""

    def from_aside(select: str) -> str:
        return _REPLACED.sub(lambda found: aside(found[0]), select)

    is_odd = f" WHERE image_id NOT IN ({from_aside(_ODD)})"
    if connection.exec_driver_sql(f"SELECT 1 FROM ({from_aside(_ODD)}) odd LIMIT 1").scalar() is None:
        is_odd = ""
    views = {name: from_aside(select) for name, select in former.items()}
    tables = {name: aside(name) for name in _TABLES}
    before = _count(connection, tables, views, is_odd)
    views = {name: select for name, select in definitions(connection).items() if name in former}
    after = _count(connection, _ROWS if is_odd else dict(zip(_TABLES, _TABLES, strict=True)), views, is_odd)
    before[OUR_IMAGES, ""] = _num_rows(connection, aside(OUR_IMAGES))
    after[OUR_IMAGES, ""] = _num_rows(connection, f"infer_pictures WHERE source_id = {OURS} AND added_at IS NOT NULL")
    if other := {key: f"{before.get(key, 0):,} and {after.get(key, 0):,}" for key, _ in before.items() ^ after.items()}:
        (name, model_id), counts = min(other.items())
        raise SchemaOutdated(
            f"{name} would not have as many rows of {model_id or 'images'} as before, but {counts}: all is as it was",
            "please report this, with the output of `infer verify`",
        )
    for name in _TABLES:
        if left_out := _num_rows(connection, aside(name)) - _num_rows(connection, name):
            log.warning("%s: %s rows were left out, whose prediction or object is not there", name, f"{left_out:,}")


def _count(
    connection: Connection, tables: Mapping[str, str], views: Mapping[str, str], condition: str
) -> dict[tuple[str, str], int]:
    """Return the rows of each relation and model; a view is given by its SELECT, which may select from those before."""
    counts, named = dict[tuple[str, str], int](), ""
    for name, rows in [*tables.items(), *views.items()]:
        if name in views:
            named += f"{', ' if named else 'WITH '}{name} AS ({rows})"
        relation = name if name in views else rows
        counted = f"{named} SELECT model_id, COUNT(*) FROM {relation} r{condition} GROUP BY model_id"
        counts |= {(name, model_id): count for model_id, count in connection.exec_driver_sql(counted)}
    return counts


def _num_rows(connection: Connection, rows: str) -> int:
    return int(connection.exec_driver_sql(f"SELECT COUNT(*) FROM {rows}").scalar() or 0)
