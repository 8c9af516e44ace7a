"""The history of one image: each model's prediction or rejection, its objects, and the run it came from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, select

from infer_app.database.engine.connect import Database
from infer_app.database.queries.thresholds import threshold_of
from infer_app.database.results.conditions import ListedPicture
from infer_app.database.results.schema import OBJECT_COLUMNS, objects, predictions, rejections, runs
from infer_app.domain import DetectedObject


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object of the image."""

    found: DetectedObject
    is_shown: bool  # by the model's thresholds


@dataclass(frozen=True, slots=True)
class ModelHistory:
    """The stored rows of one version of a model for one image, each None if there is none."""

    model: str
    model_id: str
    prediction: (
        dict[str, Any] | None
    )  # with its `objects`, a tuple of StoredObject, the best first; None unless the model detects them
    rejection: dict[str, Any] | None
    run: dict[str, Any] | None  # that of the prediction, else that of the rejection

    @property
    def state(self) -> str:
        """Return the image's state; with both rows it is predicted, as in DayCounts."""
        return "predicted" if self.prediction else "rejected" if self.rejection else "pending"


def read_history(database: Database, versions: Iterable[tuple[str, str]], picture: ListedPicture) -> list[ModelHistory]:
    """Read the history of every version that has a result, and of the current version of every name.

    `versions`: (name, id) of models, the most recent first; the result has the same order.
    """
    found, names = [], set()
    with database.read() as connection:
        predicted, rejected = (_by_model(connection, table, picture) for table in (predictions, rejections))
        for name, model_id in versions:
            prediction, rejection = predicted.get(model_id), rejected.get(model_id)
            if prediction:
                is_detected = prediction["num_objects"] is not None
                prediction["objects"] = _read_objects(connection, name, prediction) if is_detected else None
            if prediction or rejection or name not in names:
                run_id = (prediction or rejection or {}).get("run_id")
                run = connection.execute(select(runs).where(runs.c.id == run_id)).mappings().first()
                found.append(ModelHistory(name, model_id, prediction, rejection, None if run is None else dict(run)))
            names.add(name)
    return found


def _by_model(connection: Connection, table: Table, picture: ListedPicture) -> dict[str, dict[str, object]]:
    rows = connection.execute(select(table).where(picture.owns(table))).mappings()
    return {row["model_id"]: dict(row) for row in rows}


def _read_objects(connection: Connection, model: str, prediction: dict[str, object]) -> tuple[StoredObject, ...]:
    is_shown = objects.c.score >= threshold_of(model, objects.c.label)
    of_image = (objects.c[name] == prediction[name] for name in ("image_id", "model_id"))
    rows = connection.execute(select(is_shown, *OBJECT_COLUMNS).where(*of_image).order_by(objects.c.object))
    return tuple(StoredObject(DetectedObject(*row[1:]), bool(row[0])) for row in rows)
