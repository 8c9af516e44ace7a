"""Disagreement of two models over a day: the database compares labels; numbers and vectors are streamed in pages."""

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Subquery, and_, case, func, select

from infer_app.base.day import Day
from infer_app.tables.engine.column_types import AsText, Query
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.source import Source
from infer_app.tables.queries.source_queries import opened_parts, stream_rows
from infer_app.tables.results.conditions import ListedPicture, added_up, count_each, join_results
from infer_app.tables.results.schema import predictions

_A, _B = predictions.alias("a"), predictions.alias("b")
_PAIR = ("image_id", "location", "label_a", "score_a", "label_b", "score_b")
_LABEL_A, _LABEL_B = AsText(_A.c.label), AsText(_B.c.label)  # by bytes: MariaDB would consider Cat and cat equal


@dataclass(frozen=True, slots=True)
class Overlap:
    """The numbers of the day's images that both models, one of them or neither predicted, from one moment."""

    both: int
    only_a: int
    only_b: int
    neither: int
    agreeing: int  # of both: with the same best label


class Disagreement:
    """Compares two models' predictions for the images of one day; only reads."""

    def __init__(self, database: Database, source: Source, day: Day, model_a: str, model_b: str) -> None:
        self._database = database
        self._source = source
        self._day = day
        self._models = (model_a, model_b)

    def overlap(self) -> Overlap:
        has_a, has_b = _A.c.image_id.is_not(None), _B.c.image_id.is_not(None)
        both, agree = and_(has_a, has_b), _LABEL_A == _LABEL_B
        wanted = (both, and_(has_a, ~has_b), and_(~has_a, has_b), and_(~has_a, ~has_b), agree)
        with opened_parts(self._database, self._source, self._day) as parts:
            joined = ((connection, self._joined(images, is_outer=True)) for connection, images in parts)
            return Overlap(*added_up(count_each(*part, wanted) for part in joined))

    def confusions(self, limit: int) -> list[tuple[str, str, int]]:
        """Return pairs of labels that differ, as (label of a, label of b, images), the most frequent first."""
        found: Counter[tuple[str, str]] = Counter()
        with opened_parts(self._database, self._source, self._day) as parts:
            for connection, images in parts:
                joined = self._joined(images)
                pairs = select(_LABEL_A.label("label_a"), _LABEL_B.label("label_b"), func.count()).select_from(joined)
                pairs = pairs.where(_LABEL_A != _LABEL_B).group_by(_LABEL_A, _LABEL_B)
                found.update({(row[0], row[1]): row[2] for row in connection.execute(pairs)})
        first = heapq.nsmallest(limit, found.items(), key=lambda item: (-item[1], item[0]))
        return [(a, b, number) for (a, b), number in first]

    def surest(self, limit: int) -> list[dict[str, Any]]:
        """Return the images whose labels differ with the highest min(score of a, score of b): both models are sure."""
        lower: ColumnElement[float] = func.coalesce(case((_A.c.score < _B.c.score, _A.c.score), else_=_B.c.score), 0)
        found: list[Any] = []
        with opened_parts(self._database, self._source, self._day) as parts:
            for connection, images in parts:
                wanted = select(lower, images.c[3], images.c[1], _A.c.label, _A.c.score, _B.c.label, _B.c.score)
                differing = wanted.select_from(self._joined(images)).where(_LABEL_A != _LABEL_B)
                rows = connection.execute(differing.order_by(lower.desc(), images.c[3]).limit(limit))
                found = sorted([*found, *rows], key=lambda row: (-row[0], row[1]))[:limit]
        return [dict(zip(_PAIR, row[1:], strict=True)) for row in found]

    def pairs(self) -> Iterator[dict[str, object]]:
        """Yield image_id, location, and score, output, vector and vector_dtype of both models, named with _a and _b."""
        columns = [
            side.c[name].label(f"{name}_{suffix}")
            for side, suffix in ((_A, "a"), (_B, "b"))
            for name in ("score", "output", "vector", "vector_dtype")
        ]

        def rows_of(images: Subquery) -> Query:
            wanted = select(images.c[3].label("image_id"), images.c[1].label("location"), *columns)
            return wanted.select_from(self._joined(images))

        for row in stream_rows(self._database, self._source, self._day, rows_of):
            yield dict(row._mapping)

    def _joined(self, images: Subquery, is_outer: bool = False) -> FromClause:
        joined: FromClause = images
        for side, model_id in zip((_A, _B), self._models, strict=True):
            joined = join_results(joined, side, ListedPicture.of(images), model_id, is_outer=is_outer)
        return joined
