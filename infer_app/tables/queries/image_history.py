"""The history of one image: each model's prediction or rejection, its objects, and the run it came from."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, case, select

from infer_app.artifact.model_names import Version
from infer_app.base.domain import DetectedObject
from infer_app.tables.engine.connect import Database
from infer_app.tables.queries.thresholds import SHOWN_CROPS, threshold_of
from infer_app.tables.results.conditions import is_settled, is_up_to_date
from infer_app.tables.results.model_versions import read_manifests
from infer_app.tables.results.schema import object_predictions, objects, pictures, predictions, rejections, runs

_FORMER, _SETTLED = "former_detector", "is_settled"  # the columns of detector_out_of_use and is_settled


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object of the image."""

    found: DetectedObject
    is_shown: bool  # by the thresholds of the model that found it
    # Of it, by a second network: its row, with the object's number and what is shown of it; None: not taken.
    made: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ModelHistory:
    """The stored rows of one version of a model for one image, each None if there is none."""

    model: str
    model_id: str
    prediction: (
        dict[str, Any] | None
    )  # with its `objects`, a tuple of StoredObject, the best first; None unless the model detects or takes them
    rejection: dict[str, Any] | None
    run: dict[str, Any] | None  # that of the prediction, else that of the rejection
    detector_out_of_use: str | None = (
        None  # of a second network: the version whose objects its result is of, unless used
    )
    is_settled: bool = False  # of the rejection: no run tries the image again

    @property
    def state(self) -> str:
        """Return the image's state; with both rows it is predicted, as in DayCounts."""
        if self.detector_out_of_use:
            return "pending"
        return "predicted" if self.prediction else "rejected" if self.rejection else "pending"


def read_history(database: Database, versions: Iterable[Version], picture: int | None) -> list[ModelHistory]:
    """Read the history of every version that has a result, and of the current version of every name.

    `versions`: (name, id) of models, the most recent first; the result has the same order.
    """
    found, names = [], set()
    with database.read() as connection:
        predicted = _by_model(connection, predictions, picture)
        rejected = _by_model(connection, rejections, picture, is_settled().label(_SETTLED))
        for name, model_id in versions:
            prediction, rejection = predicted.get(model_id), rejected.get(model_id)
            if prediction:
                has_objects = prediction["num_objects"] is not None
                prediction["objects"] = _read_objects(connection, name, prediction) if has_objects else None
            if prediction or rejection or name not in names:
                run_id = (prediction or rejection or {}).get("run_id")
                run = connection.execute(select(runs).where(runs.c.id == run_id)).mappings().first()
                former = [one.pop(_FORMER) for one in (prediction, rejection) if one]
                settled = bool(rejection and rejection.pop(_SETTLED))
                rows = prediction, rejection, None if run is None else dict(run)
                found.append(ModelHistory(name, model_id, *rows, next(filter(None, former), None), settled))
            names.add(name)
    return found


def _by_model(
    connection: Connection, table: Table, picture: int | None, *more: ColumnElement[Any]
) -> dict[str, dict[str, Any]]:
    former = case((~is_up_to_date(table), table.c.detector_id)).label(_FORMER)
    its = [
        pictures.c.image_id,
        pictures.c.location,
        *([pictures.c.size, pictures.c.modified] if table is predictions else []),
    ]
    wanted = select(table, *its, former, *more).join(pictures, pictures.c.id == table.c.picture)
    rows = connection.execute(wanted.where(table.c.picture == picture)).mappings()
    return {row["model_id"]: dict(row) for row in rows}


def _read_objects(connection: Connection, model: str, prediction: dict[str, Any]) -> tuple[StoredObject, ...]:
    """Return the objects that the model found or, of a second network, those of its `detector`, which is added."""
    picture, model_id, detector_id = (prediction[name] for name in ("picture", "model_id", "detector_id"))
    manifest = read_manifests(connection, model).get(model_id, {})
    if detector_id is not None:
        model = prediction["detector"] = manifest["crop"]["of"]
    prediction["max_objects"] = (manifest.get("output", {}).get("detection") or {}).get("max_objects")
    is_shown = (objects.c.score >= threshold_of(model, objects.c.label)).label("is_shown")
    found_by = objects.c.picture == picture, objects.c.model_id == (detector_id or model_id)
    found = connection.execute(select(objects, is_shown).where(*found_by).order_by(objects.c.object)).mappings().all()
    made = _read_made(connection, picture, model_id, detector_id) if detector_id else {}
    return tuple(
        StoredObject(
            DetectedObject(*(row[name] for name in DetectedObject._fields)),
            bool(row["is_shown"]),
            made.get(row["object"]),
        )
        for row in found
    )


def _read_made(connection: Connection, picture: int, model_id: str, detector_id: str) -> dict[int, dict[str, Any]]:
    """Return what a second network made of a picture's objects, and what is shown of it, by their places."""
    of_objects = objects.c.picture == picture, objects.c.model_id == detector_id
    stored = select(objects.c.object, object_predictions).join(
        object_predictions, object_predictions.c.object_id == objects.c.id
    )
    shown = select(SHOWN_CROPS).where(SHOWN_CROPS.c.picture == picture, SHOWN_CROPS.c.model_id == model_id)
    made: dict[int, dict[str, Any]] = {}
    for wanted in (stored.where(*of_objects, object_predictions.c.model_id == model_id), shown):
        for row in connection.execute(wanted).mappings():
            as_shown = {"shown_label": row["label"], "shown_score": row["score"]}  # of a former version as it is stored
            made[row["object"]] = made.get(row["object"], dict(row)) | as_shown
    return made
