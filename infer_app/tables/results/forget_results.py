"""Deletion of results: an image without a result is pending again, and the next run that covers its day predicts it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date

from sqlalchemy import ColumnElement, Connection, Table, delete, select

from infer_app.artifact.model_names import Version
from infer_app.tables.engine.bulk import IDS_PER_STATEMENT
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.object_rows import made_of
from infer_app.tables.results.runs import keep_runs_out
from infer_app.tables.results.schema import object_predictions, objects, predictions, rejections


def forget_rejections(database: Database, image_ids: Sequence[str], model_id: str) -> int:
    """Delete the rejections of these images by a model, some in each transaction; return how many there were.

    Those of its second networks go with them.
    """
    deleted = 0
    for batch in _batches(image_ids):
        with database.write() as connection:
            own = rejections.c.model_id == model_id
            found = connection.scalars(select(rejections.c.image_id).where(rejections.c.image_id.in_(batch), own))
            if rejected := found.all():
                _delete_made(connection, rejected, model_id)
                deleted += _delete(connection, rejections, rejected, own)
    return deleted


def forget_results(
    database: Database, image_ids: Sequence[str], days: Iterable[date], versions: Sequence[Version]
) -> int:
    """Delete the predictions and rejections of these images, which belong to the days; return how many there were.

    A run may have read such an image already, and would write the former result, or its objects, after or amid the
    deletion. Raises DayHeld, before anything is deleted, if an active run of one of the versions holds one of the days.
    """

    def forget(connection: Connection) -> int:
        keep_runs_out(connection, days, versions)
        return sum(delete_results(connection, image_ids, model_id) for _, model_id in versions)

    return database.transact(forget)


def delete_results(connection: Connection, image_ids: Sequence[str], model_id: str) -> int:
    """Delete a version's results of some images, with their objects; return how many there were.

    The results that second networks have of these objects go with them, and count.
    """
    made = _delete_made(connection, image_ids, model_id)
    for table in (objects, object_predictions):
        _delete(connection, table, image_ids, table.c.model_id == model_id)
    return made + sum(
        _delete(connection, table, image_ids, table.c.model_id == model_id) for table in (predictions, rejections)
    )


def _delete_made(connection: Connection, image_ids: Sequence[str], detector_id: str) -> int:
    """Delete what second networks made of a version's objects in these images; return how many results there were.

    Their objects are deleted by key: without statistics PostgreSQL would look for them among all predictions.
    """
    made = made_of(detector_id)
    keys = select(predictions.c.image_id, predictions.c.model_id).where(made[predictions])
    found = defaultdict[str, list[str]](list)
    for batch in _batches(image_ids):
        for image_id, model_id in connection.execute(keys.where(predictions.c.image_id.in_(batch))):
            found[model_id].append(image_id)
    for model_id, own in found.items():
        _delete(connection, object_predictions, own, object_predictions.c.model_id == model_id)
    return sum(_delete(connection, table, image_ids, made[table]) for table in (predictions, rejections))


def _batches(image_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (image_ids[first : first + IDS_PER_STATEMENT] for first in range(0, len(image_ids), IDS_PER_STATEMENT))


def _delete(connection: Connection, table: Table, image_ids: Sequence[str], condition: ColumnElement[bool]) -> int:
    """Delete the rows of images that meet a condition; return how many there were."""
    batches = (table.c.image_id.in_(batch) for batch in _batches(image_ids))
    return sum(connection.execute(delete(table).where(among, condition)).rowcount for among in batches)
