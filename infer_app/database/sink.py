"""Writes a chunk's predictions and rejections: one transaction, idempotent, so that a repeat changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Update, and_, bindparam, case, delete, exists, update
from sqlalchemy.exc import StatementError

from infer_app.database.connect import Database
from infer_app.database.schema import predictions, rejections, runs
from infer_app.database.upsert import upsert
from infer_app.errors import DatabaseUnavailable
from infer_app.records import Broken, ChunkResult, Prediction, Reason


class Sink:
    """The one place that writes results. A prediction deletes its image's rejection."""

    def __init__(self, database: Database, model_id: str, variant: str, run_id: str) -> None:
        self._database = database
        self._model_id = model_id
        self._variant = variant
        self._run_id = run_id
        dialect = database.dialect.name
        self._upsert_predictions = upsert(dialect, predictions)
        self._upsert_rejections = upsert(dialect, rejections, {"attempts": _count_attempt})
        self._delete_rejection = delete(rejections).where(
            rejections.c.image_id == bindparam("b_image_id"), rejections.c.model_id == model_id
        )
        # Of two runs of one day, after a lost lease, the one that predicted an image is right.
        self._delete_contradicted = self._delete_rejection.where(
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
        with self._database.write() as connection:
            self._write(connection, result)
        return result

    def _write(self, connection: Connection, result: ChunkResult) -> None:
        now = datetime.now(UTC).replace(tzinfo=None)
        if result.predictions:
            rows = [self._prediction_row(prediction, now) for prediction in result.predictions]
            connection.execute(self._upsert_predictions, rows)
            connection.execute(self._delete_rejection, [{"b_image_id": row["image_id"]} for row in rows])
        if result.broken:
            rejected = [self._rejection_row(broken, now) for broken in result.broken]
            connection.execute(self._upsert_rejections, rejected)
            connection.execute(self._delete_contradicted, [{"b_image_id": row["image_id"]} for row in rejected])
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

    def _prediction_row(self, prediction: Prediction, now: datetime) -> dict[str, Any]:
        output = prediction.output
        return {
            "image_id": prediction.ref.image_id,
            "model_id": self._model_id,
            "run_id": self._run_id,
            "variant": self._variant,
            "label": output.label,
            "score": output.score,
            "output": output.details,
            "vector": output.vector,
            "vector_dtype": output.vector_dtype,
            "vector_dim": output.vector_dim,
            "sha256": prediction.sha256,
            "created_at": now,
        }

    def _rejection_row(self, broken: Broken, now: datetime) -> dict[str, Any]:
        return {
            "image_id": broken.ref.image_id,
            "model_id": self._model_id,
            "run_id": self._run_id,
            "reason": broken.reason.value,
            "detail": _storable(broken.detail),
            "stage": broken.stage,
            "attempts": 1,
            "location": _storable(broken.ref.location),
            "size": broken.file.size,
            "modified": broken.file.modified,
            "sha256": broken.file.sha256,
            "decoder": broken.decoder,
            "created_at": now,
        }


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
    was_missing = rejections.c.reason == Reason.NOT_FOUND.value
    return case(
        (rejections.c.run_id == new.run_id, rejections.c.attempts),
        (and_(was_missing, new.reason != Reason.NOT_FOUND.value), 1),
        else_=rejections.c.attempts + 1,
    )
