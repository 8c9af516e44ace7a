"""Finds pictures that another camera has too: a card that was copied twice, or a folder that was renamed.

Such a picture has the same bytes and the same time. The one that was registered first counts, the other is of no event.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, bindparam, func, select

from infer_app.tables.engine.bulk import in_batches
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.schema import IS_COPY, pictures, predictions


class CopiedCamera(NamedTuple):
    """Tells how many pictures of a camera are copies of another one's."""

    camera: str
    former: str
    num_images: int
    num_missing: int  # of the former camera's pictures that they are copies of, those whose files are gone


def find_copies(connection: Connection, numbers: Iterable[int]) -> dict[int, int]:
    """Return those of some pictures that are copies, each with the number of the one that counts."""
    found = [row for some in in_batches(numbers) for row in connection.execute(_FIRST, {"numbers": some})]
    first = {number: (first, sha256) for number, first, sha256 in found if first is not None and first < number}
    wanted = {*first, *(one for one, _ in first.values())}
    rows = {row.id: row for some in in_batches(wanted) for row in connection.execute(_ROWS, {"numbers": some})}
    return {number: one for number, (one, sha256) in first.items() if _is_copy(rows[number], rows[one], sha256)}


def read_copies(images: ListedImages) -> list[CopiedCamera]:
    """Return the cameras with copies whose files are there, by name, each with the camera that most are copies of."""
    first = pictures.alias("first")
    counted = select(pictures.c.camera, first.c.camera, func.count(), func.count(first.c.missing_since))
    its = images.source.is_listed, pictures.c.copy_of.is_not(None), pictures.c.event == IS_COPY
    of_pairs = counted.join_from(pictures, first, first.c.id == pictures.c.copy_of).where(
        *its, pictures.c.missing_since.is_(None)
    )
    with images.database.read() as connection:
        rows = connection.execute(of_pairs.group_by(pictures.c.camera, first.c.camera)).all()
    largest = {row[0]: CopiedCamera(*row) for row in sorted(rows, key=lambda row: row[2])}
    return [largest[camera] for camera in sorted(largest)]


def _is_copy(row: Row[Any], first: Row[Any], sha256: str) -> bool:
    """Return whether the first picture of some bytes is of another camera, which still has it."""
    is_there = first.unlisted_since is None and (first.sha256 or sha256) == sha256
    is_other = first.camera not in (None, row.camera)
    return is_there and is_other and (row.taken_at, row.registered) == (first.taken_at, first.registered)


_own = func.coalesce(func.nullif(pictures.c.sha256, ""), predictions.c.sha256)  # of the file as it is now
_other = predictions.alias("other")
_first = select(_other.c.picture).where(_other.c.sha256 == _own).order_by(_other.c.picture).limit(1)
_is_wanted = pictures.c.id.in_(bindparam("numbers", expanding=True))
_FIRST = (
    select(pictures.c.id, _first.scalar_subquery(), _own)
    .join_from(pictures, predictions, predictions.c.picture == pictures.c.id)
    .where(_is_wanted)
)
_ROWS = select(
    *(pictures.c[name] for name in ("id", "camera", "taken_at", "registered", "unlisted_since", "sha256"))
).where(_is_wanted)
