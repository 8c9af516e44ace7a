"""Thresholds of a model's labels: which objects and labels are shown. All are stored, so nothing runs again."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import ColumnElement, delete, func, insert, literal, select

from infer_app.database.engine.connect import Database
from infer_app.database.results.schema import thresholds

ALL_LABELS = ""  # in place of a label: all that have no threshold of their own


def read_thresholds(database: Database, model: str) -> dict[str, float]:
    """Return the thresholds of a model's name by label, ALL_LABELS first."""
    wanted = select(thresholds.c.label, thresholds.c.threshold).where(thresholds.c.model == model)
    with database.read() as connection:
        return {row[0]: row[1] for row in connection.execute(wanted.order_by(thresholds.c.label))}


def change_thresholds(database: Database, model: str, changes: Mapping[str, float | None]) -> None:
    """Set the thresholds of labels, and remove those that are None, in one transaction."""
    with database.write() as connection:
        of_model = thresholds.c.model == model
        connection.execute(delete(thresholds).where(of_model, thresholds.c.label.in_(list(changes))))
        kept = {label: value for label, value in changes.items() if value is not None}
        rows = [{"model": model, "label": label, "threshold": value} for label, value in kept.items()]
        if rows:
            connection.execute(insert(thresholds), rows)


def threshold_of(model: str, label: ColumnElement[str]) -> ColumnElement[float]:
    """Return the SQL of a label's threshold: its own, else that of the model, else 0; as in the views."""
    own = select(thresholds.c.threshold).where(thresholds.c.model == model, thresholds.c.label == label)
    of_model = select(thresholds.c.threshold).where(thresholds.c.model == model, thresholds.c.label == ALL_LABELS)
    shown: ColumnElement[float] = func.coalesce(own.scalar_subquery(), of_model.scalar_subquery(), literal(0.0))
    return shown
