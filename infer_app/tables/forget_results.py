"""Deletion of results: an image without a result is pending again, and the next run that covers its day predicts it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from sqlalchemy import ColumnElement, Connection, Table, delete, select

from infer_app.artifact.model_names import Version
from infer_app.tables.engine.bulk import in_batches
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.object_rows import delete_crops, made_of
from infer_app.tables.results.runs import keep_runs_out
from infer_app.tables.results.schema import predictions, rejections


def forget_rejections(database: Database, numbers: Sequence[int], model_id: str) -> int:
    """Delete the rejections of these pictures by a model, some in each transaction; return how many there were.

    Those of its second networks go with them.
    """
    deleted = 0
    for batch in in_batches(numbers):
        with database.write() as connection:
            own = rejections.c.model_id == model_id
            found = connection.scalars(select(rejections.c.picture).where(rejections.c.picture.in_(batch), own))
            if rejected := found.all():
                _delete_made(connection, rejected, model_id)
                deleted += _delete(connection, rejections, own, rejected)
    return deleted


def forget_results(database: Database, results: Mapping[Version, Sequence[int]], days: Iterable[date]) -> int:
    """Delete each version's predictions and rejections of its pictures, which belong to the days; return the number.

    A run may have read such an image already, and would write the former result, or its objects, after or amid the
    deletion. Raises DayHeld, before anything is deleted, if an active run of one of the versions holds one of the days.
    """

    def forget(connection: Connection) -> int:
        keep_runs_out(connection, days, list(results))
        return sum(delete_results(connection, numbers, model_id) for (_, model_id), numbers in results.items())

    return database.transact(forget)


def delete_results(connection: Connection, numbers: Sequence[int], model_id: str) -> int:
    """Delete a version's results of some pictures, with their objects; return how many there were.

    The results that second networks have of these objects go with them, and count.
    """
    made, own = _delete_made(connection, numbers, model_id), (predictions, rejections)
    delete_crops(connection, numbers, model_id=model_id)
    return made + sum(_delete(connection, table, table.c.model_id == model_id, numbers) for table in own)


def _delete_made(connection: Connection, numbers: Sequence[int], detector_id: str) -> int:
    """Delete what second networks made of a version's objects in these pictures; return how many results there were."""
    return sum(_delete(connection, *item, numbers) for item in made_of(detector_id).items())


def _delete(connection: Connection, table: Table, condition: ColumnElement[bool], numbers: Sequence[int]) -> int:
    """Delete the rows of pictures that meet a condition, and what belongs to them; return how many there were."""
    batches = (delete(table).where(table.c.picture.in_(some), condition) for some in in_batches(numbers))
    return sum(connection.execute(statement).rowcount for statement in batches)
