"""The writer of a chunk's predictions and rejections: one idempotent transaction for each chunk."""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Text,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.exc import StatementError

from infer_app.base.domain import (
    ATTEMPT_INTERVAL_H,
    NOT_READ,
    WITHOUT_LIMIT,
    Broken,
    ChunkResult,
    ImageRef,
    Prediction,
    Reason,
)
from infer_app.base.errors import DatabaseUnavailable, DayHeld
from infer_app.base.locations import escape_unstorable, mask_checksum
from infer_app.tables.engine.bulk import NotWritten
from infer_app.tables.engine.column_types import HoursAfter, UtcNow
from infer_app.tables.engine.connect import Database
from infer_app.tables.engine.reconnect import Forbidden
from infer_app.tables.results.object_rows import ObjectRows, output_columns
from infer_app.tables.results.pictures import PictureRows
from infer_app.tables.results.schema import predictions, rejections, runs

R = TypeVar("R", Prediction, Broken)

_ROW_ERRORS = (StatementError, UnicodeEncodeError, NotWritten, Forbidden)  # writing fewer rows may succeed


class Sink:
    """Writes a run's predictions and rejections; a prediction deletes the rejection of its image.

    What second networks made of the objects of a former result goes with it: `detector_id` is the version of the
    detector whose objects were given to this model, if it is a second network. `registered`: as of `PictureRows`.
    """

    def __init__(
        self,
        database: Database,
        model_id: str,
        variant: str,
        run_id: str,
        detector_id: str | None = None,
        registered: bool = True,
    ) -> None:
        self._database = database
        self._shared = {"model_id": model_id, "run_id": run_id, "detector_id": detector_id}
        self._variant = variant
        self._run_id = run_id
        backend, dialect = database.backend, database.dialect
        self._pictures = PictureRows(database, registered)
        self._predictions = backend.bulk_upsert(dialect, predictions)
        self._objects = ObjectRows(database, model_id, detector_id)
        self._rejections = backend.bulk_upsert(
            dialect, rejections, {"attempts": _count_attempt, "created_at": _begin_attempt}
        )
        own = rejections.c.model_id == model_id
        self._delete_rejections = backend.bulk_delete(rejections, own)
        # After a lost lease two runs may write the same day: a prediction then takes precedence over a rejection.
        key = predictions.c.picture == rejections.c.picture, predictions.c.model_id == rejections.c.model_id
        is_same = predictions.c.detector_id.is_not_distinct_from(rejections.c.detector_id)
        self._delete_contradicted = backend.bulk_delete(rejections, and_(own, exists().where(*key, is_same)))
        # One of objects that another version of the detector found is replaced.
        of_former = predictions.c.model_id == model_id, exists().where(*key, ~is_same)
        self._delete_former = backend.bulk_delete(predictions, and_(*of_former))

    def commit_chunk(self, result: ChunkResult) -> ChunkResult:
        """Write the chunk in one transaction and return what was written.

        If a row can't be written (a constraint or trigger of the user, a value the column refuses), the chunk is
        written image by image, and images that still fail are rejected as `write_error`. Raises DatabaseUnavailable.
        """
        try:
            self._commit(result)
        except _ROW_ERRORS as error:
            if result.num_images == 1:
                return self._reject(result, error)
            return _joined(result, [self.commit_chunk(single) for single in _singles(result)])
        return result

    def _reject(self, result: ChunkResult, error: Exception) -> ChunkResult:
        try:
            return self._commit(_write_error(result, error))
        except _ROW_ERRORS as second:
            raise DatabaseUnavailable(
                f"not even a rejection can be written: {getattr(second, 'orig', second)}",
                "is there a constraint or trigger on infer_ tables?",
            ) from None

    def _commit(self, result: ChunkResult) -> ChunkResult:
        name = secrets.token_hex(8)
        self._database.transact(lambda connection: self._write(connection, result, name))
        return result

    def _write(self, connection: Connection, result: ChunkResult, name: str) -> None:
        shared = self._shared | {"created_at": datetime.now(UTC).replace(tzinfo=None)}
        numbers = self._pictures.write(connection, (*result.predictions, *result.broken))
        if good := _by_picture(result.predictions, numbers):
            columns = _prediction_columns(good)
            self._predictions.write(connection, columns, shared | {"variant": self._variant})
            self._delete_rejections.execute(connection, good)
            self._objects.replace(connection, good)
        if broken := _by_picture(result.broken, numbers):
            self._rejections.write(connection, _rejection_columns(broken), shared | {"attempts": 1})
            self._delete_contradicted.execute(connection, broken)
            if self._delete_former.execute(connection, broken):
                self._objects.delete_crops(connection, broken)
            self._objects.delete_made(connection, broken)
        self._count(connection, result, name)

    def _count(self, connection: Connection, result: ChunkResult, name: str) -> None:
        """Add to the counts in the run's row, in the transaction of the results, so that they agree after any crash.

        A repeated commit, after the answer to the first was lost, has the same name and is not counted again. The row
        is also the lease: a run whose day was taken over writes nothing more. Raises DayHeld in that case.
        """
        commit = {"this_run": self._run_id, "this_commit": name}
        num_predicted, num_rejected = len(result.predictions), len(result.broken)
        counts = {"num_predicted": num_predicted, "num_rejected": num_rejected}
        if connection.execute(_COUNT, commit | counts).rowcount:
            return
        if connection.scalar(_IS_NOT_COUNTED, commit):
            raise DayHeld(
                f"run {self._run_id} sent no heartbeat for so long that another run took over its day",
                "was this machine suspended, or disconnected from the database?",
            )


# Built once: building them takes longer than writing a small chunk.
_is_own = runs.c.id == bindparam("this_run")
_is_new = func.coalesce(runs.c.last_commit, "") != bindparam("this_commit")
_num_predicted, _num_rejected = bindparam("num_predicted", type_=Integer), bindparam("num_rejected", type_=Integer)
_COUNT = (
    update(runs)
    .where(_is_own, runs.c.state == "running", _is_new)
    .values(
        last_commit=bindparam("this_commit"),
        heartbeat_at=UtcNow(),
        selected=runs.c.selected + _num_predicted + _num_rejected,
        predicted=runs.c.predicted + _num_predicted,
        rejected=runs.c.rejected + _num_rejected,
    )
)
_IS_NOT_COUNTED = select(_is_new).where(_is_own)


def _by_picture(results: Iterable[R], numbers: Mapping[ImageRef, int]) -> dict[int, R]:
    """Return the last result of each picture: an upsert can't contain a key twice in one statement."""
    return {numbers[result.ref]: result for result in results}


def _prediction_columns(good: Mapping[int, Prediction]) -> dict[str, list[object]]:
    outputs, files = [], []
    for prediction in good.values():
        outputs.append(prediction.output)
        files.append(prediction.file)
    return {
        "picture": list(good),
        **output_columns(outputs),
        "sha256": [file.sha256 for file in files],
        "width": [file.picture and file.picture.width for file in files],
        "height": [file.picture and file.picture.height for file in files],
        "num_objects": [output.num_objects for output in outputs],
    }


def _rejection_columns(rejected: Mapping[int, Broken]) -> dict[str, list[object]]:
    every = rejected.values()
    return {
        "picture": list(rejected),
        "reason": [broken.reason.value for broken in every],
        "detail": [escape_unstorable(broken.detail) for broken in every],
        "stage": [broken.stage for broken in every],
        "size": [broken.file.size for broken in every],
        "modified": [broken.file.modified for broken in every],
        "sha256": [_rejected_checksum(broken) for broken in every],
        "decoder": [broken.decoder for broken in every],
    }


def _rejected_checksum(broken: Broken) -> str | None:
    """Return that of the file, or of an address that was not read, which is tried again once it is another."""
    return broken.file.sha256 or (mask_checksum(broken.ref.location) if broken.reason in NOT_READ else None)


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


def _count_attempt(new: object) -> object:
    """Return the number of attempts, which start at one for another detector's version and a file that can be read."""
    one: ColumnElement[int] = literal_column("1", Integer)
    return case(
        (_is_first_try(new), one), (_is_same_attempt(new), rejections.c.attempts), else_=rejections.c.attempts + one
    )


def _begin_attempt(new: Any) -> Any:
    """Return when the attempt began; MariaDB assigns it after the number, which is counted by its former value."""
    is_same = and_(~_is_first_try(new), _is_same_attempt(new))
    return case((is_same, rejections.c.created_at), else_=new.created_at)


def _is_first_try(new: Any) -> ColumnElement[bool]:
    without_limit = [literal_column(f"'{reason.value}'", Text) for reason in sorted(WITHOUT_LIMIT)]
    is_read_now = and_(rejections.c.reason.in_(without_limit), new.reason.not_in(without_limit))
    return or_(is_read_now, rejections.c.detector_id.is_distinct_from(new.detector_id))


def _is_same_attempt(new: Any) -> ColumnElement[bool]:
    """Return whether the same run repeats a commit, or another run follows soon."""
    due = HoursAfter(rejections.c.created_at, ATTEMPT_INTERVAL_H)
    return or_(rejections.c.run_id == new.run_id, new.created_at < due)
