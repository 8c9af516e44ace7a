"""SQL conditions and joins that find an image's rows by key, independent of the database's statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    FromClause,
    Join,
    Table,
    and_,
    case,
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.selectable import NamedFromClause

from infer_app.base.domain import MAX_ATTEMPTS, TRANSIENT_REASONS, WITHOUT_LIMIT
from infer_app.base.packages import retried_reasons
from infer_app.tables.engine.column_types import FAMILY, Query
from infer_app.tables.results.schema import ALL_LABELS, models, pictures, places, predictions, rejections, thresholds

AT_PLACE = 0.75  # IoU with the box of a place: a detector's boxes of one rock differ by a tenth of it
TAKEN = func.coalesce(pictures.c.taken_at, pictures.c.added_at)  # when a picture was taken, as far as that is known
Picture: TypeAlias = ColumnElement[int | None]  # the number of a listed image's picture; NULL: no run has selected it


def picture_of(images: FromClause) -> Picture:
    """Return the number of the picture of a row of a relation as `Source.images_of` returns it."""
    number: Picture = images.c.infer_picture
    return number


def new_among(listed: Query, picture: Picture, model_ids: Sequence[str]) -> Query:
    """Select the images that are new for at least one model; with several models a column for each tells whether."""
    new = [is_new(picture, model_id) for model_id in model_ids]
    wanted = listed.where(or_(*new))
    if len(new) == 1:
        return wanted
    return wanted.add_columns(*(flag.label(f"infer_new_{model_index}") for model_index, flag in enumerate(new)))


def is_new_for_any(picture: Picture, model_ids: Sequence[str]) -> ColumnElement[bool]:
    return or_(*(is_new(picture, model_id) for model_id in model_ids))


def is_new(picture: Picture, model_id: str) -> ColumnElement[bool]:
    return and_(~has_prediction(picture, model_id), ~has_rejection(picture, model_id, is_settled()))


def has_prediction(picture: Picture, model_id: str, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    return _has_row(predictions, picture, model_id, *conditions)


def has_rejection(picture: Picture, model_id: str, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    return _has_row(rejections, picture, model_id, *conditions)


def _has_row(table: Table, picture: Picture, model_id: str, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return a condition that looks up the key once for each image.

    A planner may turn EXISTS into reading all rows of a model, again for each page. It can't do that with a scalar
    subquery. The LIMIT is for a table that has lost its key, which the audit reports.
    """
    one: ColumnElement[int] = literal_column("1")
    matches = (table.c.picture == picture, table.c.model_id == model_id, is_up_to_date(table))
    return select(one).where(*matches, *conditions).limit(one).scalar_subquery().is_not(None)


def is_preferred(table: FromClause, picture: Picture, model_ids: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition that no version that is preferred to the one of a result has rejected its image."""
    later = ((model_id, model_ids[index:]) for index, model_id in enumerate(model_ids[:-1], 1))
    return and_(true(), *(or_(table.c.model_id.not_in(ids), ~has_rejection(picture, one)) for one, ids in later))


def is_up_to_date(table: FromClause) -> ColumnElement[bool]:
    """Return the condition that a result counts: one of a second network is of a detector's version that is in use."""
    in_use = select(models.c.id).where(models.c.in_use_since.is_not(None))
    return or_(table.c.detector_id.is_(None), table.c.detector_id.in_(in_use))


def join_results(
    images: FromClause,
    table: NamedFromClause,
    *model_ids: str,
    left: FromClause | None = None,
    is_outer: bool = False,
    counting: bool = False,
) -> FromClause:
    """Join the rows of each image in a table of results, for some models or for all; with `counting` those that count.

    `images` is a relation as `Source.images_of` returns it; `left` is one that it was joined to before.

    Pass `counting` to leave out results of objects whose detector is no longer in use.
    """
    on = [table.c.picture == picture_of(images), *([is_up_to_date(table)] if counting else [])]
    if model_ids:
        on.append(table.c.model_id.in_(model_ids) if len(model_ids) > 1 else table.c.model_id == model_ids[0])
    return KeyedJoin(images if left is None else left, table, and_(*on), is_outer)


class KeyedJoin(Join):
    """A join that looks up the right side's row for each row of the left side.

    Without current statistics PostgreSQL would read all rows of a model for each page, and compare each of them with
    every image of the page. A LATERAL subquery can't be merged because of its OFFSET, so only one join order is left.
    MariaDB would begin with all results, as long as it need not keep images without one; SQLite chooses the order of
    the statement anyway.
    """

    inherit_cache = True
    right: NamedFromClause


@compiles(KeyedJoin)
def _keyed_join(join: KeyedJoin, compiler: Any, **options: Any) -> str:
    return str(compiler.visit_join(join, **options))


@compiles(KeyedJoin, "postgresql")
def _lateral_join(join: KeyedJoin, compiler: Any, **options: Any) -> str:
    left, right, on = _parts_of(join, compiler, options)
    kind, name = "LEFT JOIN" if join.isouter else "JOIN", compiler.preparer.quote(join.right.name)
    return f"{left} {kind} LATERAL (SELECT * FROM {right} WHERE {on} OFFSET 0) AS {name} ON true"


@compiles(KeyedJoin, *FAMILY)
def _straight_join(join: KeyedJoin, compiler: Any, **options: Any) -> str:
    left, right, on = _parts_of(join, compiler, options)
    return f"{left} {'LEFT JOIN' if join.isouter else 'STRAIGHT_JOIN'} {right} ON {on}"


def _parts_of(join: KeyedJoin, compiler: Any, options: dict[str, Any]) -> list[str]:
    return [compiler.process(part, **options | {"asfrom": True}) for part in (join.left, join.right, join.onclause)]


def is_settled() -> ColumnElement[bool]:
    """Return the condition that a rejection keeps its image from being retried by the next run of its day."""
    retried = rejections.c.reason.in_(sorted(retried_reasons()))
    limited = rejections.c.reason.in_(sorted(TRANSIENT_REASONS - WITHOUT_LIMIT))
    return or_(~retried, and_(limited, rejections.c.attempts >= MAX_ATTEMPTS))


def count_rows(connection: Connection, rows: FromClause, *conditions: ColumnElement[bool]) -> int:
    return connection.scalar(select(func.count()).select_from(rows).where(*conditions)) or 0


def count_each(connection: Connection, rows: FromClause, conditions: Sequence[ColumnElement[bool]]) -> list[int]:
    """Count the rows that meet each condition, in one query."""
    sums = [func.sum(case((condition, 1), else_=0)) for condition in conditions]
    counts = connection.execute(select(*sums).select_from(rows)).one()
    return [int(count or 0) for count in counts]  # MariaDB's sums are decimals


def threshold_of(model: str | ColumnElement[str], label: ColumnElement[Any]) -> ColumnElement[float]:
    """Return the threshold that an object or a label reaches to be shown: its label's own, else its model's, else 0."""
    of_model = select(thresholds.c.threshold).where(thresholds.c.model == model)
    own, default = (of_model.where(thresholds.c.label == one).scalar_subquery() for one in (label, ALL_LABELS))
    found: ColumnElement[float] = func.coalesce(own, default, literal(0.0))
    return found


def are_shown(model: str | ColumnElement[str], row: str = "infer_objects", **names: str) -> ColumnElement[bool]:
    """Return the condition that objects reach the threshold of their label, and are at no place that was hidden.

    `row`: the relation that has the columns of infer_objects; `names`: those that it calls otherwise.
    """
    score, label = (literal_column(f"{row}.{names.get(one, one)}", Double) for one in ("score", "label"))
    return and_(score >= threshold_of(model, label), ~is_static(row, **names))


def is_static(row: str = "infer_objects", decided: Any = places.c.hidden == 1, **names: str) -> ColumnElement[bool]:
    """Return the condition that an object is at a place that was hidden, or of which something else was decided.

    Where nothing was, as mostly, a database looks at the first part once, and at no row of pictures.
    """
    found = select(places.c.object).where(decided, *is_at_place(row, **names)).limit(1).correlate(None)
    return and_(exists().where(decided), found.scalar_subquery().is_not(None))


def is_at_place(row: str = "infer_objects", **names: str) -> list[ColumnElement[bool]]:
    """Return the conditions that join infer_places with the pictures of objects there."""
    its, columns = places.c, ("x", "y", "width", "height", "label", "picture")
    x, y, width, height, label, picture = (literal_column(f"{row}.{names.get(one, one)}", Double) for one in columns)
    across, down = _shared(its.x, its.width, x, width), _shared(its.y, its.height, y, height)
    return [
        pictures.c.id == picture,
        its.camera == pictures.c.camera,
        its.label == label,
        func.coalesce(its.until, TAKEN) >= TAKEN,
        across > 0,
        across * down * (1 + AT_PLACE) >= AT_PLACE * (its.width * its.height + width * height),
    ]


def _shared(a: ColumnElement[float], length: Any, b: ColumnElement[float], other: Any) -> Any:
    """Return the length that two spans share, below 0 if they are apart: SQLite has neither LEAST nor GREATEST."""
    return (length + other - func.abs(a - b) - func.abs(a + length - b - other)) * 0.5
