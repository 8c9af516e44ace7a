"""Deletion of results: an image without a result is pending again, and the next run that covers its day predicts it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Table, delete

from infer_app.database.engine.connect import Database
from infer_app.database.results.schema import objects, predictions, rejections

_IDS_AT_ONCE = 500  # in one transaction


def forget_rejections(database: Database, image_ids: Sequence[str], model_id: str) -> int:
    """Delete the rejections of these images by a model; return how many there were."""
    return _delete(database, image_ids, model_id, rejections)


def forget_results(database: Database, image_ids: Sequence[str], model_id: str) -> int:
    """Delete the predictions and rejections of these images by a model; return how many there were."""
    return _delete(database, image_ids, model_id, predictions, rejections, also=(objects,))


def _delete(
    database: Database, image_ids: Sequence[str], model_id: str, *tables: Table, also: Sequence[Table] = ()
) -> int:
    """Delete the rows of the images in all tables; return how many there were in `tables`."""
    deleted = 0
    for first in range(0, len(image_ids), _IDS_AT_ONCE):
        batch = image_ids[first : first + _IDS_AT_ONCE]
        with database.write() as connection:
            for table in (*tables, *also):
                own = table.c.model_id == model_id, table.c.image_id.in_(batch)
                rows = connection.execute(delete(table).where(*own)).rowcount
                deleted += rows if table in tables else 0
    return deleted
