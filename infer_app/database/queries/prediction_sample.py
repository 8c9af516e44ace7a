"""A random sample of the stored predictions, with the runs that wrote them."""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Subquery, select

from infer_app.database.engine.connect import Database
from infer_app.database.listing.source import PAGE_SIZE, Source
from infer_app.database.queries.stream_rows import stream_rows
from infer_app.database.results.conditions import join_results
from infer_app.database.results.schema import OBJECT_COLUMNS, objects, predictions, runs
from infer_app.day import Day
from infer_app.domain import DetectedObject

Key = tuple[str, str]  # the ids of an image and of a model

ROWS_AT_ONCE = 500  # whose ids are in one query


@dataclass(frozen=True, slots=True)
class Amount:
    """How many rows to take: a number, or of all of them a share, 0-1."""

    number: int | None = None
    share: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Amount:
        """Parse "200" or "1%". Raises ValueError for any other text, and for none or more than all."""
        try:
            amount = cls(share=float(text[:-1]) / 100) if text.endswith("%") else cls(number=int(text))
        except ValueError:
            raise ValueError(f"{text!r} is neither a share such as 1% nor a number such as 200") from None
        if not (0 < amount.share <= 1 or (amount.number or 0) > 0):
            raise ValueError(f"{text} is not above 0 and at most 100%")
        return amount


@dataclass(frozen=True, slots=True)
class StoredPrediction:
    """A row of infer_predictions with its objects, and what is recorded of its run; None where nothing is."""

    row: Any
    objects: tuple[DetectedObject, ...] | None  # the best first; None unless the model detects objects
    run: Any


def choose(keys: Iterable[Key], amount: Amount) -> tuple[list[Key], int]:
    """Choose some of the keys at random, at least one, and count all of them. Only those chosen stay in memory."""
    lowest: list[tuple[float, Key]] = []  # one that was drawn, for a share of few keys
    chosen: list[tuple[float, Key]] = []  # a heap, if their number is given
    count = 0
    for key in keys:
        count += 1
        drawn = (random.random(), key)
        if amount.number is not None and len(chosen) < amount.number:
            heapq.heappush(chosen, drawn)
        elif amount.number is not None:
            heapq.heappushpop(chosen, drawn)
        elif drawn[0] < amount.share:
            chosen.append(drawn)
        else:
            lowest = min(lowest, [drawn]) if lowest else [drawn]
    return [key for _, key in chosen or lowest], count


def list_keys(database: Database, source: Source, model_ids: Sequence[str], day: Day | None) -> Iterator[Key]:
    """Yield (image id, model id) of the predictions of some models: those of a day, or all."""
    keys = select(predictions.c.image_id, predictions.c.model_id)
    of_models = predictions.c.model_id.in_(model_ids)
    if day is not None:

        def rows_of(images: Subquery) -> Any:
            return keys.select_from(join_results(images, predictions, images.c[3])).where(of_models)

        found = stream_rows(database, source, day, rows_of)
        yield from ((image_id, model_id) for image_id, model_id in found)
        return
    with database.read() as connection:
        found = connection.execution_options(yield_per=PAGE_SIZE).execute(keys.where(of_models))
        yield from ((image_id, model_id) for image_id, model_id in found)


def read_predictions(database: Database, keys: Iterable[Key]) -> Iterator[StoredPrediction]:
    """Yield the predictions that are still there, model by model."""
    by_model = defaultdict[str, list[str]](list)
    for image_id, model_id in sorted(keys, key=lambda key: (key[1], key[0])):
        by_model[model_id].append(image_id)
    for model_id, image_ids in by_model.items():
        for first in range(0, len(image_ids), ROWS_AT_ONCE):
            yield from _read(database, model_id, image_ids[first : first + ROWS_AT_ONCE])


def _read(database: Database, model_id: str, image_ids: Sequence[str]) -> list[StoredPrediction]:
    found = defaultdict[str, list[DetectedObject]](list)
    with database.read() as connection:
        of_model = predictions.c.model_id == model_id, predictions.c.image_id.in_(image_ids)
        rows = connection.execute(select(predictions).where(*of_model)).all()
        columns = (objects.c.image_id, *OBJECT_COLUMNS)
        of_images = objects.c.model_id == model_id, objects.c.image_id.in_(image_ids)
        for one in connection.execute(select(*columns).where(*of_images).order_by(*objects.primary_key)):
            found[one[0]].append(DetectedObject(*one[1:]))
        run_ids = {row.run_id for row in rows}
        by_id = {run.id: run for run in connection.execute(select(runs).where(runs.c.id.in_(run_ids)))}
    return [
        StoredPrediction(row, None if row.num_objects is None else tuple(found[row.image_id]), by_id.get(row.run_id))
        for row in rows
    ]
