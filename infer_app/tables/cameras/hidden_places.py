"""Stores what was decided about places where a detector gives a box again and again."""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, Row, and_, bindparam, case, func, insert, literal, null, select, update

from infer_app.base.errors import UsageError
from infer_app.tables.engine.column_types import HoursAfter
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.conditions import TAKEN, is_at_place
from infer_app.tables.results.schema import OBJECT_COLUMNS, objects, pictures, places, predictions

AWAY_HOURS = 14 * 24  # between the last object at a place and its camera's last picture: then it is over


def decide(database: Database, numbers: Collection[int], *, is_hidden: bool) -> Sequence[Row[int, str, str]]:
    """Hide the places of these objects, or keep them shown; return each with its camera and label.

    Raises UsageError for what is no object of a camera.
    """
    columns = pictures.c.camera, objects.c.id, objects.c.label, *OBJECT_COLUMNS[-4:], literal(0)
    new = select(*columns).join(pictures, pictures.c.id == objects.c.picture).where(pictures.c.camera != "")
    new = new.where(objects.c.id.in_(numbers), objects.c.id.not_in(select(places.c.object)))
    decided = places.c.object.in_(numbers)
    told = select(places.c.object, places.c.camera, places.c.label).where(decided).order_by(places.c.object)

    def change(connection: Connection) -> Sequence[Row[int, str, str]]:
        connection.execute(insert(places).from_select(places.c.keys()[:-1], new))
        rows = connection.execute(told).all()
        if unknown := {*numbers}.difference(row.object for row in rows):
            raise UsageError(f"{min(unknown)} is no object of a camera", "`infer static list NAME` prints numbers")
        connection.execute(update(places).where(decided).values(hidden=int(is_hidden), until=null()))
        retire_places(connection)
        return rows

    return database.transact(change)


def retire_places(connection: Connection) -> None:
    """Let hidden places that are over, as of a camera that was moved, hide nothing that was taken since.

    Places go with the pictures of their objects where these are now said to be another camera's.
    """
    of_object = objects.c.picture == pictures.c.id
    now = select(pictures.c.camera).join(objects, of_object).where(objects.c.id == places.c.object).scalar_subquery()
    connection.execute(update(places).where(places.c.camera != now, now != "").values(camera=now))
    there = func.max(case((objects.c.id.is_not(None), TAKEN)))
    last = func.coalesce(there, func.min(TAKEN)).label("last")  # the objects there may be forgotten
    is_answered = and_(predictions.c.picture == pictures.c.id, predictions.c.num_objects.is_not(None))
    seen = select(places.c.object.label("place"), last)
    seen = seen.join_from(places, pictures, places.c.camera == pictures.c.camera).join(predictions, is_answered)
    seen = seen.outerjoin(objects, and_(of_object, *is_at_place()))
    seen = seen.where(places.c.hidden == 1, places.c.until.is_(None)).group_by(places.c.object)
    seen = seen.having(HoursAfter(last.element, AWAY_HOURS) < func.max(TAKEN))
    if over := [dict(row) for row in connection.execute(seen).mappings()]:
        ended = update(places).where(places.c.object == bindparam("place")).values(until=bindparam("last"))
        connection.execute(ended, over)
