"""The history of one image: each model's prediction or rejection, and the run it came from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table, select

from infer_app.database.engine.connect import Database
from infer_app.database.results.schema import predictions, rejections, runs


@dataclass(frozen=True, slots=True)
class ModelHistory:
    """The stored rows of one version of a model for one image, each None if there is none."""

    model: str
    model_id: str
    prediction: dict[str, Any] | None
    rejection: dict[str, Any] | None
    run: dict[str, Any] | None  # that of the prediction, else that of the rejection

    @property
    def state(self) -> str:
        """Return the image's state; with both rows it is predicted, as in DayCounts."""
        return "predicted" if self.prediction else "rejected" if self.rejection else "pending"


def read_history(database: Database, versions: Iterable[tuple[str, str]], image_id: str) -> list[ModelHistory]:
    """Read the history of every version that has a result, and of the current version of every name.

    `versions`: (name, id) of models, the most recent first; the result has the same order.
    """
    predicted = _by_model(database, predictions, image_id)
    rejected = _by_model(database, rejections, image_id)
    found, names = [], set()
    for name, model_id in versions:
        prediction, rejection = predicted.get(model_id), rejected.get(model_id)
        if prediction or rejection or name not in names:
            run = _run(database, (prediction or rejection or {}).get("run_id"))
            found.append(ModelHistory(name, model_id, prediction, rejection, run))
        names.add(name)
    return found


def _by_model(database: Database, table: Table, image_id: str) -> dict[str, dict[str, Any]]:
    with database.read() as connection:
        rows = connection.execute(select(table).where(table.c.image_id == image_id)).all()
    return {row.model_id: dict(row._mapping) for row in rows}


def _run(database: Database, run_id: str | None) -> dict[str, Any] | None:
    if run_id is None:
        return None
    with database.read() as connection:
        row = connection.execute(select(runs).where(runs.c.id == run_id)).first()
    return None if row is None else dict(row._mapping)
