"""Finds pictures that another camera has too: a card that was copied twice, or a folder that was renamed.

Such a picture has the same bytes and the same time. The one that was registered first counts, the other is of no event.
"""

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, func, select

from infer_app.tables.engine.bulk import in_batches
from infer_app.tables.engine.column_types import AsText
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.schema import IS_COPY, WITHOUT_EVENT, pictures, predictions


class CopiedCamera(NamedTuple):
    """Tells how many pictures of a camera are copies of another one's."""

    camera: str
    former: str
    num_images: int
    num_missing: int  # of the former camera's pictures that they are copies of, those whose files are gone


def find_copies(connection: Connection, numbers: Iterable[int]) -> dict[int, int]:
    """Return those of some pictures that are copies, each with the number of the one that counts.

    That is the first one with its bytes that is listed and has a camera, if its camera is another.
    """
    return dict(tuple(row) for some in in_batches(numbers) for row in connection.execute(_COPIES, {"numbers": some}))


def find_late_copies(connection: Connection, numbers: Iterable[int]) -> dict[int, int]:
    """Return the copies of some pictures that have events, since they were predicted before these."""
    return find_copies(
        connection, {one for some in in_batches(numbers) for one in connection.scalars(_LATER, {"numbers": some})}
    )


def read_copies(images: ListedImages) -> list[CopiedCamera]:
    """Return the cameras with copies whose files are there, by name, each with the camera that most are copies of."""
    first = pictures.alias("first")
    counted = select(pictures.c.camera, first.c.camera, func.count(), func.count(first.c.missing_since))
    of_pairs = counted.join_from(pictures, first, first.c.id == pictures.c.copy_of).where(
        images.source.is_listed, pictures.c.event == IS_COPY, pictures.c.missing_since.is_(None)
    )
    with images.database.read() as connection:
        rows = connection.execute(of_pairs.group_by(pictures.c.camera, first.c.camera)).all()
    largest = {row[0]: CopiedCamera(*row) for row in sorted(rows, key=lambda row: row[2])}
    return [largest[camera] for camera in sorted(largest)]


_first, _other = pictures.alias("first"), predictions.alias("other")
_own = func.coalesce(func.nullif(pictures.c.sha256, ""), predictions.c.sha256)  # of the file as it is now
_counting = (
    select(_other.c.picture)
    .join_from(_other, _first, _first.c.id == _other.c.picture)
    .where(_other.c.sha256 == _own, func.coalesce(func.nullif(_first.c.sha256, ""), _own) == _own)
    .where(_first.c.registered == pictures.c.registered, _first.c.unlisted_since.is_(None), _first.c.camera != "")
    .order_by(_other.c.picture)
    .limit(1)
)
_of = (
    select(*(pictures.c[name] for name in ("id", "camera", "taken_at")), _counting.scalar_subquery().label("first"))
    .join_from(pictures, predictions, predictions.c.picture == pictures.c.id)
    .where(pictures.c.id.in_(bindparam("numbers", expanding=True)))
    .subquery("of")
)
_LATER = (
    select(_other.c.picture)
    .join_from(predictions, _other, _other.c.sha256 == predictions.c.sha256)
    .join(pictures, pictures.c.id == _other.c.picture)
    .where(predictions.c.picture.in_(bindparam("numbers", expanding=True)))
    .where(_other.c.picture > predictions.c.picture, pictures.c.event > WITHOUT_EVENT)
)
_COPIES = (
    select(_of.c.id, _of.c.first)
    .join_from(_of, pictures, pictures.c.id == _of.c.first)
    .where(_of.c.first < _of.c.id, AsText(_of.c.camera) != AsText(pictures.c.camera))
    .where(_of.c.taken_at.is_not_distinct_from(pictures.c.taken_at))
)
