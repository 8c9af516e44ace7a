"""The views: what they select is said here alone, and each `infer db upgrade` makes them anew."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, literal_column

from infer_app.base.domain import MULTI_LABEL
from infer_app.tables.engine.connect import backend_of
from infer_app.tables.results.conditions import are_shown, threshold_of
from infer_app.tables.results.schema import OUR_IMAGES, objects, predictions

# That a result counts, as in conditions.is_up_to_date.
_COUNTS = """(
    {row}.detector_id IS NULL
    OR {row}.detector_id IN (SELECT used.id FROM infer_models used WHERE used.in_use_since IS NOT NULL)
)"""
# The rows of the version in use or, where none of its results counts, of the one that was in use before.
_CURRENT = """
SELECT m.name AS model, c.image_id, {columns}, p.picture
FROM {table} p
JOIN infer_models m ON m.id = p.model_id
JOIN infer_pictures c ON c.id = p.picture
{join}
WHERE COALESCE(m.in_use_since, m.used_until) IS NOT NULL AND {counts} AND {is_preferred}
"""
_IS_PREFERRED = """NOT EXISTS (
    SELECT 1
    FROM {results} preferred
    JOIN infer_models n ON n.id = preferred.model_id
    WHERE preferred.picture = p.picture AND n.name = m.name AND {counts}
      AND (COALESCE(n.in_use_since, n.used_until) > COALESCE(m.in_use_since, m.used_until)
        OR (COALESCE(n.in_use_since, n.used_until) = COALESCE(m.in_use_since, m.used_until) AND n.id > m.id))
)"""
_BOX = "d.x, d.y, d.width, d.height, d.label AS detected_label, d.score AS detected_score"
_OUTPUT = "o.label, o.score, o.output, o.vector, o.vector_dtype, o.vector_dim"
_WITH_OBJECTS = """
{join} infer_objects d ON d.picture = p.picture AND d.model_id = p.detector_id
{join} infer_object_predictions o ON o.object_id = d.id AND o.model_id = p.model_id
"""
# What is shown of an object, as ShownLabels has it: the network's best label, if it is listed and allowed and
# reaches its threshold, else what is found among all that are listed.
_SHOWN = """CASE
    WHEN c.label IS NULL THEN {without}
    WHEN c.score >= {threshold} AND EXISTS (SELECT 1 FROM {entries} WHERE {label} = c.label) AND NOT EXISTS (
        SELECT 1 FROM infer_label_groups g WHERE g.model = c.model AND g.label = c.label AND g.depth = -1
    ) THEN c.{column}
    ELSE COALESCE(({best}), ({group}))
END"""
# The best of the labels that are allowed, if it reaches its threshold.
_BEST = """
    SELECT CASE WHEN {score} >= {threshold} THEN {found} END
    FROM {entries}
    WHERE NOT EXISTS (
        SELECT 1 FROM infer_label_groups g WHERE g.model = c.model AND g.label = {label} AND g.depth = -1
    )
    ORDER BY {score} DESC, {ordered} LIMIT 1
"""
# The deepest group whose allowed labels suffice together; a label without groups stands for itself.
_GROUP = """
    SELECT {found}
    FROM {entries}
    {join_groups}
    LEFT JOIN infer_thresholds t ON t.model = c.model AND t.label = {group}
    WHERE COALESCE(g.depth, 0) >= 0
    GROUP BY {group}
    HAVING SUM({score}) >= COALESCE(
        MAX(t.threshold), (SELECT u.threshold FROM infer_thresholds u WHERE u.model = c.model AND u.label = ''), 0
    )
    ORDER BY MAX(COALESCE(g.depth, 0)) DESC, SUM({score}) DESC, {ordered} LIMIT 1
"""

# What is shown of pictures: objects, those of second networks, labels of multi-label classifiers and of others.
_SHOWN_RESULTS = """
SELECT model, picture, {label}, score FROM infer_shown_objects
UNION ALL SELECT model, picture, {label}, score FROM infer_shown_crops WHERE label IS NOT NULL
UNION ALL SELECT model, picture, {label}, score FROM infer_shown_labels
UNION ALL SELECT c.model, c.picture, {label}, c.score FROM infer_current_predictions c
JOIN infer_models m ON m.id = c.model_id AND m.name = c.model
WHERE c.label IS NOT NULL AND c.num_objects IS NULL AND {activation} NOT IN {multi_label}
"""
# An event has the number of its first picture.
_EVENTS = """
SELECT f.id, f.camera, f.id AS first_picture, f.captured_at AS started_at, l.captured_at AS ended_at
FROM infer_pictures f JOIN infer_pictures l ON l.id = f.event_last
WHERE f.event = f.id
"""
# Of each event and label: the most objects in one picture, and the picture with the best one.
_SHOWN_EVENTS = """
SELECT f.model, f.event, f.label, f.most AS count, f.num_images AS images, c.image_id AS best_image, f.score,
    e.camera, e.started_at, e.ended_at, f.picture AS best_picture
FROM (
    SELECT g.model, g.event, g.label, g.picture, g.score,
        MAX(g.num) OVER (PARTITION BY g.model, g.event, g.label) AS most,
        COUNT(*) OVER (PARTITION BY g.model, g.event, g.label) AS num_images,
        ROW_NUMBER() OVER (PARTITION BY g.model, g.event, g.label ORDER BY g.score DESC, g.picture) AS place
    FROM (
        SELECT s.model, p.event, s.label, s.picture, COUNT(*) AS num, MAX(s.score) AS score
        FROM infer_shown_results s JOIN infer_pictures p ON p.id = s.picture
        WHERE p.event > 0
        GROUP BY s.model, p.event, s.label, s.picture
    ) g
) f
JOIN infer_events e ON e.id = f.event
JOIN infer_pictures c ON c.id = f.picture
WHERE f.place = 1
"""


def make_views(connection: Connection) -> None:
    """Make our views as they are defined here; their grants stay, and views of the user's that select from them."""
    backend_of(connection).replace_views(connection, definitions(connection))


def definitions(connection: Connection) -> dict[str, str]:
    """Return what each view selects, in an order in which none selects from a later one."""
    return {name: select(connection) for name, select in VIEWS.items()}


def _current(table: str, columns: Sequence[str], join: str = "") -> str:
    """Return the SQL of rows of a table that are, or belong to, the result of the version that is preferred."""
    preferred = (
        _IS_PREFERRED.format(results=results, counts=_COUNTS.format(row="preferred"))
        for results in ("infer_predictions", "infer_rejections")
    )
    counts = "1 = 1" if table == "infer_objects" else _COUNTS.format(row="p")
    return _CURRENT.format(
        table=table, columns=", ".join(columns), join=join, counts=counts, is_preferred=" AND ".join(preferred)
    )


def _threshold(connection: Connection, model: str, label: str) -> str:
    """Return the SQL of the threshold of a label, both given as SQL."""
    return _sql(connection, threshold_of(literal_column(model), literal_column(label)))


def _sql(connection: Connection, element: ColumnElement[Any]) -> str:
    return str(element.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True}))


def _shown_labels(connection: Connection) -> str:
    entries, label, score = backend_of(connection).json_labels(connection.dialect, "p.output", "labels")
    columns = ("p.model_id", f"{label} AS label", f"{score} AS score")
    current = _current("infer_predictions", columns, f"CROSS JOIN {entries}")
    return f"{current} AND {score} >= {_threshold(connection, 'm.name', label)}"


def _current_crops(connection: Connection) -> str:
    detector = backend_of(connection).json_member("m.manifest", "crop", "of")
    columns = ("p.model_id", "d.object", f"{detector} AS detector", "p.detector_id", _BOX, _OUTPUT, "c.location")
    with_objects = _WITH_OBJECTS.format(join=backend_of(connection).join_in_order)
    return _current("infer_predictions", (*columns, "d.id AS object_id"), with_objects)


def _shown_crops(connection: Connection) -> str:
    """Show of each object that is shown its best allowed label, else the deepest group whose labels suffice together.

    MariaDB correlates neither subqueries in FROM nor several levels, so label and score are looked up one by one.
    """
    named = {"label": "detected_label", "score": "detected_score"}
    columns = "c.model, c.image_id, c.model_id, c.object, c.detector, c.x, c.y, c.width, c.height"
    return (
        f"SELECT {columns}, c.detected_label, c.detected_score, {_shown(connection, 'label')} AS label,"
        f" {_shown(connection, 'score')} AS score, c.location, c.object_id, c.picture"
        " FROM infer_current_crops c"
        f" WHERE {_sql(connection, are_shown(literal_column('c.detector'), 'c', **named))}"
    )


def _shown(connection: Connection, column: str) -> str:
    """Return the SQL of what is shown of an object: its label or its score, also that of a regression."""
    backend = backend_of(connection)
    entries, label, score = backend.json_labels(connection.dialect, "c.output", "top", "labels")
    group = f"COALESCE(g.ancestor, {label})"
    best_found, group_found = (label, group) if column == "label" else (score, f"SUM({score})")
    shared = {"entries": entries, "label": label, "score": score}
    join_groups = backend.look_up("infer_label_groups g", f"g.model = c.model AND g.label = {label}")
    return _SHOWN.format(
        column=column,
        without="NULL" if column == "label" else "c.score",
        threshold=_threshold(connection, "c.model", "c.label"),
        best=_BEST.format(
            found=best_found,
            threshold=_threshold(connection, "c.model", label),
            ordered=backend.ordered(label),
            **shared,
        ),
        group=_GROUP.format(
            found=group_found, join_groups=join_groups, group=group, ordered=backend.ordered(group), **shared
        ),
        **shared,
    )


def _whole_rows(table: Table, _: Connection) -> str:
    """Select all columns; what a picture has of its own comes last, as views of the user's may expect."""
    columns = [f"p.{column.name}" for column in table.columns if column.name not in ("id", "picture", "detector_id")]
    of_picture = ["c.location", "c.size", "c.modified", "p.detector_id"]
    return _current(table.name, [*columns, *(of_picture if table is predictions else ["p.id AS object_id"])])


def _our_images(_: Connection) -> str:
    columns = "id, location, added_at, size, sha256, modified, queued_at, missing_since"
    return f"SELECT {columns} FROM infer_pictures WHERE registered = 1"


def _shown_objects(connection: Connection) -> str:
    shown = _sql(connection, are_shown(literal_column("o.model"), "o"))
    return f"SELECT * FROM infer_current_objects o WHERE {shown}"


def _shown_results(connection: Connection) -> str:
    backend = backend_of(connection)
    activation = backend.json_member("m.manifest", "output", "activation")
    label = f"{backend.ordered('label')} AS label"  # of one collation
    return _SHOWN_RESULTS.format(label=label, activation=f"COALESCE({activation}, '')", multi_label=MULTI_LABEL)


VIEWS: dict[str, Callable[[Connection], str]] = {
    OUR_IMAGES: _our_images,
    "infer_events": lambda _: _EVENTS,
    "infer_current_predictions": partial(_whole_rows, predictions),
    "infer_current_objects": partial(_whole_rows, objects),
    "infer_shown_objects": _shown_objects,
    "infer_shown_labels": _shown_labels,
    "infer_current_crops": _current_crops,
    "infer_shown_crops": _shown_crops,
    "infer_shown_results": _shown_results,
    "infer_shown_events": lambda _: _SHOWN_EVENTS,
}
