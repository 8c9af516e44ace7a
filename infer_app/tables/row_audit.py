"""Laws that every stored row keeps, whatever its day: a row that breaks one was not written by a run.

Each law is a condition on the rows of one table; those of a table are counted in one query over it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, Table, and_, func, literal_column, not_, or_, select

from infer_app.base.locations import picture_key
from infer_app.base.printing import counted
from infer_app.tables.engine.column_types import AsText, UtcNow
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.user_table import PAGE_SIZE
from infer_app.tables.queries.laws import (
    HAS_UNKNOWN_REASON,
    ROUNDING,
    Law,
    crop_laws,
    faults_of_run,
    is_no_score,
    num_crops_of_prediction,
    num_objects_of_prediction,
    picture_laws,
    result_laws,
)
from infer_app.tables.results.conditions import count_each
from infer_app.tables.results.model_versions import kind_of
from infer_app.tables.results.runs import LEASE_S
from infer_app.tables.results.schema import models, object_predictions, objects, pictures, predictions, rejections, runs

NUM_EXAMPLES = 3
STATES = ("running", "done", "failed")
Row = Sequence[Any]  # id and location of an image, and whether it has a prediction and a rejection


@dataclass(frozen=True, slots=True)
class _Kinds:
    """The recorded models by what they give."""

    classifiers: Sequence[str]
    detectors: Sequence[str]
    numbers: Sequence[str]  # of regression to one number per image
    second_networks: Sequence[str]
    labels: Mapping[str, Sequence[str] | None]  # by model id, as its classes are numbered; None: not known
    num_outputs: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, connection: Connection) -> _Kinds:
        manifests = {row.id: row.manifest for row in connection.execute(select(models.c.id, models.c.manifest))}
        by_kind: dict[str, list[str]] = {}
        for model_id, manifest in manifests.items():
            by_kind.setdefault(kind_of(manifest), []).append(model_id)
        second = {one for one, manifest in manifests.items() if manifest.get("crop")}
        num_outputs = {one: manifest["num_outputs"] for one, manifest in manifests.items() if "num_outputs" in manifest}
        return cls(
            classifiers=by_kind.get("classification", []),
            detectors=by_kind.get("detection", []),
            numbers=[one for one in by_kind.get("regression", []) if num_outputs.get(one) == 1 and one not in second],
            second_networks=sorted(second),
            labels={one: manifest.get("labels") for one, manifest in manifests.items()},
            num_outputs=num_outputs,
        )


def audit_rows(database: Database) -> Iterator[str]:
    """Yield a message with examples for each law that rows of our tables break. Nothing is repaired.

    Each table is read in a transaction of its own: an open one can block a run's commits.
    """

    def ask(question: Callable[..., Iterator[str]], *arguments: object) -> list[str]:
        with database.read() as connection:
            return list(question(connection, *arguments))

    with database.read() as connection:
        kinds = _Kinds.read(connection)
    yield from ask(_broken_laws, predictions, predictions.c.picture, _prediction_laws(kinds))
    yield from ask(_broken_laws, rejections, rejections.c.picture, _rejection_laws(kinds))
    of_detector = predictions.c.picture == objects.c.picture, predictions.c.model_id == objects.c.model_id
    yield from ask(_broken_laws, objects.outerjoin(predictions, and_(*of_detector)), objects.c.picture, _object_laws())
    of_second = predictions.c.picture == objects.c.picture, predictions.c.model_id == object_predictions.c.model_id
    crops = object_predictions.outerjoin(objects, objects.c.id == object_predictions.c.object_id)
    joined = crops.outerjoin(predictions, and_(*of_second, predictions.c.detector_id == objects.c.model_id))
    yield from ask(_broken_laws, joined, objects.c.picture, crop_laws(kinds.classifiers))
    first, last = pictures.alias("first"), pictures.alias("last")
    with_first = pictures.outerjoin(first, first.c.id == pictures.c.event)
    with_both = with_first.outerjoin(last, last.c.id == pictures.c.event_last)
    yield from ask(_broken_laws, with_both, pictures.c.id, picture_laws(first, last))
    yield from ask(_wrong_keys)
    yield from ask(_unknown_labels, kinds)
    yield from ask(_broken_runs)


def _wrong_keys(connection: Connection) -> Iterator[str]:
    """Yield a message on pictures that no row of the user's table, or no file, would be found by."""
    columns = (pictures.c[name] for name in ("registered", "image_id", "location", "key"))
    rows = connection.execution_options(yield_per=PAGE_SIZE).execute(select(*columns))
    wrong = [
        image_id
        for page in rows.partitions()  # an attribute of a row takes as long as its key
        for registered, image_id, location, key in page
        if key != picture_key("" if registered else image_id, location)
    ]
    if wrong:
        yield _message(len(wrong), "image", "with the key of another one", wrong)


def _prediction_laws(kinds: _Kinds) -> Iterator[Law]:
    row = predictions.c
    has_label, has_score, found_nothing = row.label.is_not(None), row.score.is_not(None), _num_objects() == 0
    is_second, of_detector = row.model_id.in_(kinds.second_networks), row.model_id.in_(kinds.detectors)
    of_classifier = row.model_id.in_(kinds.classifiers)
    of_objects = or_(of_detector, and_(of_classifier, is_second))  # whose best one gives the label and score
    not_finite = or_(row.score.is_(None), func.abs(row.score) > sys.float_info.max)  # a NaN is greater in PostgreSQL
    broken = {
        "of a model that is not in infer_models": row.model_id.not_in(select(models.c.id)),
        "of a run that is not in infer_runs, or is of another model": _has_no_run(predictions),
        "without a label or score": and_(of_classifier, ~is_second, not_(and_(has_label, has_score))),
        "with a label or score but no object, or the reverse": and_(
            of_objects, or_(has_label == found_nothing, has_score == found_nothing)
        ),
        "with a score outside 0 to 1": and_(or_(of_classifier, of_detector), is_no_score(row.score)),
        "without a finite number": and_(row.model_id.in_(kinds.numbers), not_finite),
        "with another number of objects than it counts": or_(
            and_(of_detector, _num_objects() != num_objects_of_prediction()),
            and_(is_second, _num_objects() != num_crops_of_prediction()),
        ),
        "without the sha256 of its picture": or_(row.sha256.is_(None), func.length(row.sha256) != 64),
        "of a picture that is not in infer_pictures": _has_no_picture(predictions),
        "of a picture without a width or height": or_(
            row.width <= 0, row.height <= 0, row.width.is_(None) != row.height.is_(None)
        ),
    }
    yield from (Law("prediction", fault, is_broken) for fault, is_broken in broken.items())
    yield from result_laws(predictions, "prediction", kinds.second_networks)


def _rejection_laws(kinds: _Kinds) -> Iterator[Law]:
    row = rejections.c
    broken = {
        "of a model that is not in infer_models": row.model_id.not_in(select(models.c.id)),
        "of a run that is not in infer_runs, or is of another model": _has_no_run(rejections),
        "with a reason outside the list": HAS_UNKNOWN_REASON,
        "without an attempt": row.attempts < 1,
        "of a picture that is not in infer_pictures": _has_no_picture(rejections),
    }
    yield from (Law("rejection", fault, is_broken) for fault, is_broken in broken.items())
    yield from result_laws(rejections, "rejection", kinds.second_networks)


def _object_laws() -> Iterator[Law]:
    """Yield laws on objects that are joined with their predictions."""
    row, of = objects.c, predictions.c
    differs = or_(AsText(of.label) != row.label, func.abs(of.score - row.score) > ROUNDING)
    edges = row.x < -ROUNDING, row.y < -ROUNDING, row.x + row.width > 1 + ROUNDING, row.y + row.height > 1 + ROUNDING
    broken = {
        "without a prediction of its image": of.picture.is_(None),
        "beyond the number that its prediction counts": or_(row.object < 0, row.object >= _num_objects()),
        "that is the best, but not by its prediction's label and score": and_(row.object == 0, differs),
        "with a score outside 0 to 1": is_no_score(row.score),
        "with a box outside the picture": or_(row.width <= 0, row.height <= 0, *edges),
    }
    return (Law("object", fault, is_broken) for fault, is_broken in broken.items())


def _num_objects() -> ColumnElement[int]:
    return func.coalesce(predictions.c.num_objects, 0)


def _has_no_run(table: Table) -> ColumnElement[bool]:
    is_run = runs.c.id == table.c.run_id, runs.c.model_id == table.c.model_id
    return ~select(runs.c.id).where(*is_run).exists()


def _has_no_picture(table: Table) -> ColumnElement[bool]:
    return ~select(pictures.c.id).where(pictures.c.id == table.c.picture).exists()


def _broken_laws(
    connection: Connection, rows: FromClause, picture: ColumnElement[int], laws: Iterator[Law]
) -> Iterator[str]:
    known = list(laws)
    counts = count_each(connection, rows, [law.is_broken for law in known])
    for law, count in zip(known, counts, strict=True):
        if count:
            some = select(picture).select_from(rows).where(law.is_broken).distinct().order_by(picture)
            numbers = connection.scalars(some.limit(NUM_EXAMPLES)).all()
            yield _message(count, law.noun, law.fault, _image_ids(connection, numbers))


def _image_ids(connection: Connection, numbers: Sequence[int]) -> list[str]:
    """Return the images' ids; the number of a picture without a row."""
    known = dict(
        tuple(row)
        for row in connection.execute(select(pictures.c.id, pictures.c.image_id).where(pictures.c.id.in_(numbers)))
    )
    return [known.get(number, str(number)) for number in numbers]


def _unknown_labels(connection: Connection, kinds: _Kinds) -> Iterator[str]:
    """Yield a message for predictions, of images and of objects, and one for objects, with labels of no model."""
    tables = {predictions: "prediction", object_predictions: "object prediction", objects: "object"}
    for table, noun in tables.items():
        row, is_object = table.c, table is objects
        label = AsText(row.label)  # by bytes: MariaDB would take `Cat` for `cat`
        index: ColumnElement[int] = row.class_index if is_object else literal_column("-1")
        groups = [row.model_id, label, *([index] if is_object else [])]
        wanted = [] if is_object else [row.model_id.in_(kinds.classifiers), row.label.is_not(None)]
        picture = func.min(objects.c.picture if table is object_predictions else row.picture)
        grouped = select(row.model_id, label, index, func.count(), picture).where(*wanted)
        if table is object_predictions:
            grouped = grouped.join_from(table, objects, objects.c.id == row.object_id)
        found = [one for one in connection.execute(grouped.group_by(*groups)) if not _is_label(kinds, *one[:3])]
        if found:
            fault = (
                "with a label that is not the one of its class" if is_object else "with a label that its model has not"
            )
            yield _message(sum(one[3] for one in found), noun, fault, _image_ids(connection, [one[4] for one in found]))


def _is_label(kinds: _Kinds, model_id: str, label: str, class_index: int) -> bool:
    """Return whether the model has this label; `class_index` is -1 if only the label is stored."""
    labels = kinds.labels.get(model_id)
    if labels is None:
        return True
    if class_index >= 0:  # a class without a label is named by its number
        return label == (labels[class_index] if class_index < len(labels) else str(class_index))
    num_classes = kinds.num_outputs.get(model_id, sys.maxsize)
    return label in labels if labels else label.isdecimal() and int(label) < num_classes


def _broken_runs(connection: Connection) -> Iterator[str]:
    """Yield a message for each kind of run that is not as any run leaves its row."""
    now = connection.execute(select(UtcNow())).scalar_one()
    written = []
    for table in (predictions, rejections):
        by_run = select(table.c.run_id, func.count()).group_by(table.c.run_id)
        written.append({row[0]: row[1] for row in connection.execute(by_run)})
    known = {row[0] for row in connection.execute(select(models.c.id))}
    problems: dict[str, list[str]] = {}
    for run in connection.execute(select(runs).order_by(runs.c.started_at)):
        wrote = [counts.get(run.id, 0) for counts in written]
        faults = {
            "of a model that is not in infer_models": run.model_id not in known,
            "in a state that does not exist": run.state not in STATES,
            "that is running and has ended": run.state == "running" and run.ended_at is not None,
            "that is running with a heartbeat in the future": run.state == "running"
            and run.heartbeat_at > now + timedelta(seconds=LEASE_S),
        }
        for fault in (*(fault for fault, is_so in faults.items() if is_so), *faults_of_run(run, *wrote)):
            problems.setdefault(fault, []).append(run.id)
    for fault, run_ids in problems.items():
        yield _message(len(run_ids), "run", fault, run_ids)


def _message(count: int, noun: str, fault: str, examples: Sequence[str]) -> str:
    few = list(dict.fromkeys(examples))[:NUM_EXAMPLES]
    more = ", …" if count > len(few) else ""
    return f"{counted(count, noun)} {fault}: {'' if noun == 'run' else 'image '}{', '.join(few)}{more}"
