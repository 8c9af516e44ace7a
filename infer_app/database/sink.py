"""Writes a chunk's predictions and rejections: one transaction, idempotent, so that a repeat changes nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Update, bindparam, case, delete, exists, update

from infer_app.database.connect import Database
from infer_app.database.schema import predictions, rejections, runs
from infer_app.database.upsert import upsert
from infer_app.records import Broken, ChunkResult, Prediction


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

    def commit_chunk(self, result: ChunkResult) -> None:
        """Writes all of the chunk or nothing. Raises DatabaseUnavailable."""
        with self._database.write() as connection:
            self._write(connection, result)

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


def _storable(text: str) -> str:
    """No database takes undecodable bytes of a file name, and PostgreSQL no NUL."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _count_attempt(new: Any) -> Any:
    """One more attempt for another run; none for the same run, whose commit may be repeated."""
    again = rejections.c.attempts + 1
    return case((rejections.c.run_id == new.run_id, rejections.c.attempts), else_=again)
