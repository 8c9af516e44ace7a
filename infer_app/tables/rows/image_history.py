"""The history of one image: each model's prediction or rejection, its objects, and the run it came from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from sqlalchemy import Connection, select

from infer_app.artifact.model_names import Version
from infer_app.base.domain import DetectedObject
from infer_app.tables.engine.connect import Database
from infer_app.tables.queries.thresholds import SHOWN_CROPS
from infer_app.tables.results.conditions import are_shown
from infer_app.tables.results.model_versions import detector_of, read_manifests
from infer_app.tables.results.schema import models, objects, runs
from infer_app.tables.rows.results import Part, PredictedCrop, Rejection, Result, Selection, rejections_of, results_of


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object of the image."""

    place: int  # among those that the detector found, 0 for the best
    found: DetectedObject
    is_shown: bool  # by the thresholds of the model that found it, and at no hidden place
    made: PredictedCrop | None = None  # of it, by a second network; None: not taken
    shown_label: str | None = None  # this and the score are what is shown of that
    shown_score: float | None = None


@dataclass(frozen=True, slots=True)
class ModelHistory:
    """What is stored of one version of a model for one image, each None if there is none."""

    model: str
    model_id: str
    prediction: Result | None
    rejection: Rejection | None
    run: Mapping[Any, Any] | None = None  # that of the prediction, else that of the rejection
    detector_out_of_use: str | None = None  # the version whose objects the result is of, unless used
    objects: tuple[StoredObject, ...] | None = None  # the best first; None unless the model detects or takes them
    detector: str | None = None  # of a second network
    max_objects: int | None = None  # that a detector keeps of an image

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
    found, names, numbers = list[ModelHistory](), set[str](), list(filter(None, [picture]))
    with database.read() as connection:
        in_use = {None, *connection.scalars(select(models.c.id).where(models.c.in_use_since.is_not(None)))}
        all_of_it = Selection(part=Part.ALL, counting=False)
        predicted = {one.model_id: one for one in results_of(connection, numbers, all_of_it)}
        rejected = {one.model_id: one for one in rejections_of(connection, numbers)}
        for name, model_id in versions:
            rows = prediction, rejection = predicted.get(model_id), rejected.get(model_id)
            if prediction or rejection or name not in names:
                run_id = next((one.run_id for one in rows if one), None)
                run = connection.execute(select(runs).where(runs.c.id == run_id)).mappings().first()
                former = (one.detector_id for one in rows if one and one.detector_id not in in_use)
                of_objects = _read_objects(connection, name, prediction) if prediction else ()
                found.append(ModelHistory(name, model_id, *rows, run, next(former, None), *of_objects))
            names.add(name)
    return found


def _read_objects(connection: Connection, model: str, one: Result) -> tuple[Any, ...]:
    """Return the last three fields of a ModelHistory; of a second network the objects are those of its detector."""
    if one.num_objects is None:
        return ()
    manifest = read_manifests(connection, model).get(one.model_id, {})
    detector, labels = detector_of(manifest), dict[int, tuple[str | None, float | None]]()
    if one.detector_id is not None:
        of_version = SHOWN_CROPS.c.picture == one.picture, SHOWN_CROPS.c.model_id == one.model_id
        shown = select(SHOWN_CROPS.c.object, SHOWN_CROPS.c.label, SHOWN_CROPS.c.score).where(*of_version)
        labels |= {place: (label, score) for place, label, score in connection.execute(shown)}
    found_by = objects.c.picture == one.picture, objects.c.model_id == (one.detector_id or one.model_id)
    shown_places = set(connection.scalars(select(objects.c.object).where(*found_by, are_shown(detector or model))))
    stored = tuple(
        # Of a former version what is stored is shown.
        StoredObject(place, found, place in shown_places, made, *labels.get(place, made[:2] if made else ()))
        for place, found, made in zip_longest(one.places, one.objects, one.crops)
    )
    return stored, detector, (manifest.get("output", {}).get("detection") or {}).get("max_objects")
