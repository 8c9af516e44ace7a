"""Writes a chunk's predictions and rejections: one transaction, idempotent, so that a repeat changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Delete,
    Integer,
    Text,
    Update,
    and_,
    any_,
    bindparam,
    case,
    delete,
    exists,
    literal_column,
    update,
)
from sqlalchemy.exc import StatementError

from infer_app.database.bulk import BulkUpsert
from infer_app.database.connect import Database
from infer_app.database.schema import predictions, rejections, runs
from infer_app.errors import DatabaseUnavailable
from infer_app.places import shown
from infer_app.records import Broken, ChunkResult, Prediction, Reason

IDS_PER_STATEMENT = 500
R = TypeVar("R", Prediction, Broken)


class Sink:
    """The one place that writes results. A prediction deletes its image's rejection."""

    def __init__(self, database: Database, model_id: str, variant: str, run_id: str) -> None:
        self._database = database
        self._model_id = model_id
        self._variant = variant
        self._run_id = run_id
        self._predictions = BulkUpsert(database.dialect, predictions)
        self._rejections = BulkUpsert(database.dialect, rejections, {"attempts": _count_attempt})
        self._delete_rejections = delete(rejections).where(
            _is_among(database.dialect.name, rejections.c.image_id), rejections.c.model_id == model_id
        )
        # Of two runs of one day, after a lost lease, the one that predicted an image is right.
        self._delete_contradicted = self._delete_rejections.where(
            exists().where(
                predictions.c.image_id == rejections.c.image_id, predictions.c.model_id == rejections.c.model_id
            )
        )

    def commit_chunk(self, result: ChunkResult) -> ChunkResult:
        """Writes the chunk in one transaction and returns what was written; raises DatabaseUnavailable.

        If a row can't be written (a constraint or trigger of the user's, a value the column refuses) the chunk is
        written image by image, and what still fails is rejected as `write_error`.
        """
        try:
            self._commit(result)
        except (StatementError, UnicodeEncodeError) as error:
            if result.num_images == 1:
                return self._reject(result, error)
            return _joined(result, [self.commit_chunk(single) for single in _singles(result)])
        return result

    def _reject(self, result: ChunkResult, error: Exception) -> ChunkResult:
        try:
            return self._commit(_write_error(result, error))
        except StatementError as second:
            raise DatabaseUnavailable(
                f"not even a rejection can be written: {second.orig}",
                "is there a constraint or trigger on infer_ tables?",
            ) from None

    def _commit(self, result: ChunkResult) -> ChunkResult:
        self._database.transact(lambda connection: self._write(connection, result))
        return result

    def _write(self, connection: Connection, result: ChunkResult) -> None:
        now = datetime.now(UTC).replace(tzinfo=None)
        shared = {"model_id": self._model_id, "run_id": self._run_id, "created_at": now}
        if good := _by_id(result.predictions):
            self._predictions.write(connection, _prediction_columns(good), shared | {"variant": self._variant})
            _for_ids(connection, self._delete_rejections, good)
        if broken := _by_id(result.broken):
            self._rejections.write(connection, _rejection_columns(broken), shared | {"attempts": 1})
            _for_ids(connection, self._delete_contradicted, broken)
        connection.execute(self._count_results(result, now))

    def _count_results(self, result: ChunkResult, now: datetime) -> Update:
        """Counts in the run's row go with the results they count, so that they are true after any death."""
        return (
            update(runs)
            .where(runs.c.id == self._run_id)
            .values(
                heartbeat_at=now,
                selected=runs.c.selected + result.num_images,
                predicted=runs.c.predicted + len(result.predictions),
                rejected=runs.c.rejected + len(result.broken),
            )
        )


def _by_id(results: Iterable[R]) -> dict[str, R]:
    """The last of each id: no database's upsert takes a key twice in one statement."""
    return {result.ref.image_id: result for result in results}


def _prediction_columns(good: Mapping[str, Prediction]) -> dict[str, list[Any]]:
    outputs = [prediction.output for prediction in good.values()]
    return {
        "image_id": list(good),
        "label": [output.label for output in outputs],
        "score": [output.score for output in outputs],
        "output": [output.details for output in outputs],
        "vector": [output.vector for output in outputs],
        "vector_dtype": [output.vector_dtype for output in outputs],
        "vector_dim": [output.vector_dim for output in outputs],
        "sha256": [prediction.sha256 for prediction in good.values()],
    }


def _rejection_columns(rejected: Mapping[str, Broken]) -> dict[str, list[Any]]:
    every = rejected.values()
    return {
        "image_id": list(rejected),
        "reason": [broken.reason.value for broken in every],
        "detail": [_storable(broken.detail) for broken in every],
        "stage": [broken.stage for broken in every],
        "location": [_storable(shown(broken.ref.location)) for broken in every],
        "size": [broken.file.size for broken in every],
        "modified": [broken.file.modified for broken in every],
        "sha256": [broken.file.sha256 for broken in every],
        "decoder": [broken.decoder for broken in every],
    }


def _for_ids(connection: Connection, statement: Delete, image_ids: Iterable[str]) -> None:
    ids = list(image_ids)
    for first in range(0, len(ids), IDS_PER_STATEMENT):
        connection.execute(statement, {"image_ids": ids[first : first + IDS_PER_STATEMENT]})


def _is_among(dialect_name: str, image_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether it is one of the parameter `image_ids`."""
    if dialect_name == "postgresql":  # one parameter, however many ids
        return image_id == any_(bindparam("image_ids", type_=ARRAY(Text)))
    return image_id.in_(bindparam("image_ids", expanding=True))


def _singles(result: ChunkResult) -> Iterator[ChunkResult]:
    for prediction in result.predictions:
        yield ChunkResult(result.number, (prediction,), ())
    for broken in result.broken:
        yield ChunkResult(result.number, (), (broken,))


def _joined(result: ChunkResult, singles: Sequence[ChunkResult]) -> ChunkResult:
    predictions = tuple(prediction for single in singles for prediction in single.predictions)
    broken = tuple(broken for single in singles for broken in single.broken)
    return replace(result, predictions=predictions, broken=broken)


def _write_error(result: ChunkResult, error: Exception) -> ChunkResult:
    ref = result.predictions[0].ref if result.predictions else result.broken[0].ref
    cause = getattr(error, "orig", None) or error  # without the statement, which holds the whole row
    return replace(result, predictions=(), broken=(Broken(ref, Reason.WRITE_ERROR, str(cause)[:500], "write"),))


def _storable(text: str) -> str:
    """No database takes undecodable bytes of a file name, and PostgreSQL no NUL."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _count_attempt(new: Any) -> Any:
    """One more attempt for another run; none for the same run, whose commit may be repeated.

    A file that was missing has not been tried yet: its attempts are counted anew once it is there.
    """
    one: ColumnElement[int] = literal_column("1", Integer)
    missing: ColumnElement[str] = literal_column(f"'{Reason.NOT_FOUND.value}'", Text)
    return case(
        (rejections.c.run_id == new.run_id, rejections.c.attempts),
        (and_(rejections.c.reason == missing, new.reason != missing), one),
        else_=rejections.c.attempts + one,
    )
