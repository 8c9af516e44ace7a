"""Thresholds of a model's labels: which objects and labels are shown. All are stored, so nothing runs again."""

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, column, delete, select, table

from infer_app.base.day import Day
from infer_app.base.domain import OutputKind
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.source import Source
from infer_app.tables.results.conditions import count_rows, join_results
from infer_app.tables.results.model_versions import kind_of, min_score_of, read_manifests
from infer_app.tables.results.schema import ALL_LABELS, thresholds

SHOWN_OBJECTS, SHOWN_LABELS, SHOWN_CROPS = (
    table(name, *(column(one) for one in ("model", "model_id", "picture", "object", "label", "score")))
    for name in ("infer_shown_objects", "infer_shown_labels", "infer_shown_crops")
)


def read_thresholds(database: Database, model: str) -> dict[str, float]:
    """Return the thresholds of a model's name by label, ALL_LABELS first."""
    wanted = select(thresholds.c.label, thresholds.c.threshold).where(thresholds.c.model == model)
    with database.read() as connection:
        return {row[0]: row[1] for row in connection.execute(wanted.order_by(thresholds.c.label))}


def describe_unset(database: Database, names: Iterable[str]) -> list[str]:
    """Return a sentence on each of these models whose objects are all shown, since it has no threshold."""
    has_some = select(thresholds.c.model).distinct()
    with database.read() as connection:
        unset = sorted(set(names).difference(connection.scalars(has_some)))
        manifests = [(name, one) for name in unset for one in [*read_manifests(connection, name).values()][-1:]]
    return [
        f"no threshold is set for {name}: all objects from {min_score_of(manifest['output']):g} on are shown; see"
        f" `infer threshold set {name} --default 0.5`"
        for name, manifest in manifests
        if kind_of(manifest) == OutputKind.DETECTION
    ]


def change_thresholds(database: Database, model: str, changes: Mapping[str, float | None]) -> None:
    """Set the thresholds of labels, and remove those that are None, in one transaction."""
    removed = [label for label, value in changes.items() if value is None]
    rows = [{"model": model, "label": label, "threshold": changes[label]} for label in changes.keys() - set(removed)]

    def change(connection: Connection) -> None:
        connection.execute(delete(thresholds).where(thresholds.c.model == model, thresholds.c.label.in_(removed)))
        if rows:
            connection.execute(database.backend.upsert(thresholds), rows)

    database.transact(change)


def find_threshold(thresholds: Mapping[str, float], label: str, default: float = 0.0) -> float:
    """Return the threshold of a label: its own, else that of the model, else `default`."""
    return thresholds.get(label, thresholds.get(ALL_LABELS, default))


def count_shown(database: Database, source: Source, days: Day, model: str) -> int:
    """Count the objects and labels that are shown of an interval of days.

    The labels are those of a multi-label classification, and those of objects by a second network.
    """
    views = (SHOWN_OBJECTS, SHOWN_LABELS, SHOWN_CROPS)
    images = source.images_of(days)
    with database.read() as connection:
        its = ((join_results(images, view), view.c.model == model, view.c.label.is_not(None)) for view in views)
        return sum(count_rows(connection, *one) for one in its)
