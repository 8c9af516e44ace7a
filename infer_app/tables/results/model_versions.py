"""The versions of models that the database knows, and which of a name is in use."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select, update

from infer_app.base.domain import MULTI_LABEL
from infer_app.tables.engine.column_types import Microseconds, UtcNow
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.schema import models, pictures, predictions, runs

BEFORE_ALL = datetime(1970, 1, 2)  # when a version "ran" that never ran
TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class RecordedVersion:
    """A version of a model as infer_models records it."""

    name: str
    model_id: str
    first_run_at: datetime
    last_run_at: datetime
    in_use_since: datetime | None
    used_until: datetime | None

    @property
    def has_run(self) -> bool:
        return self.first_run_at != BEFORE_ALL

    @property
    def times(self) -> list[datetime]:
        """Return when it was put in use and when it ceased to be, as far as that happened."""
        return [time for time in (self.in_use_since, self.used_until) if time]

    @property
    def was_in_use(self) -> bool:
        """Return whether it is or was in use: only then its predictions are in infer_current_predictions."""
        return self._used_at is not None

    @property
    def _used_at(self) -> datetime | None:
        return self.in_use_since or self.used_until

    @property
    def order(self) -> tuple[bool, datetime, str]:
        """Return the key by which the view prefers versions: the highest of a name is in use, then those before it."""
        return self._used_at is not None, self._used_at or self.last_run_at, self.model_id


def read_versions(connection: Connection) -> list[RecordedVersion]:
    """Return all versions: those in use or formerly in use in the order of the view, then those that never were."""
    last_run = select(func.max(runs.c.started_at)).where(runs.c.model_id == models.c.id, runs.c.model == models.c.name)
    last_run_at = func.coalesce(last_run.scalar_subquery(), models.c.created_at, type_=Microseconds)
    columns = (models.c.name, models.c.id, models.c.created_at, last_run_at, models.c.in_use_since, models.c.used_until)
    found = [RecordedVersion(*row) for row in connection.execute(select(*columns))]
    return sorted(found, key=lambda version: version.order, reverse=True)


def read_manifests(connection: Connection, name: str) -> dict[str, dict[str, Any]]:
    """Return the manifests of the versions of a name, by id."""
    rows = connection.execute(select(models.c.id, models.c.manifest).where(models.c.name == name))
    return {row[0]: row[1] for row in rows}


def read_manifest(connection: Connection, model_id: str) -> dict[str, Any]:
    """Return the manifest of a version as of its last run; empty if it never ran."""
    return connection.scalar(select(models.c.manifest).where(models.c.id == model_id).limit(1)) or {}


def second_networks_of(connection: Connection, detectors: Collection[str]) -> list[str]:
    """Return the names of the recorded models that take the objects of detectors of these names."""
    rows = connection.execute(select(models.c.name, models.c.manifest))
    return sorted({name for name, manifest in rows if detector_of(manifest) in detectors})


def kind_of(manifest: Mapping[str, Any]) -> str:
    """Return the kind of a model's output by its stored manifest; empty if it never ran."""
    return str(manifest.get("output", {}).get("kind", ""))


def detector_of(manifest: Mapping[str, Any]) -> str | None:
    """Return the name of the detector whose objects a second network takes, by its manifest; None of any other."""
    name: str | None = (manifest.get("crop") or {}).get("of")
    return name


def min_score_of(output: Mapping[str, Any]) -> float:
    """Return the score from which a detector's objects are stored, by its manifest's output."""
    return float((output.get("detection") or {}).get("min_score", 0.0))


def gives_several_labels(manifest: Mapping[str, Any]) -> bool:
    """Return whether a model may give a picture several labels, by its manifest."""
    return manifest.get("output", {}).get("activation") in MULTI_LABEL


def version_in_use(versions: Iterable[RecordedVersion], name: str) -> RecordedVersion | None:
    """Return the version in use of a name, or None. `versions` are in the order of `read_versions`."""
    return next((one for one in versions if one.name == name and one.in_use_since), None)


def all_in_use(versions: Sequence[RecordedVersion]) -> dict[str, str]:
    """Return the id of the version in use of each name that has one."""
    found = (version_in_use(versions, name) for name in {one.name for one in versions})
    return {one.name: one.model_id for one in found if one}


def ensure_row(database: Database, name: str, model_id: str, manifest: dict[str, object]) -> None:
    """Commit a row for a version if there is none with this name, so that there is a row to lock."""
    row = {"id": model_id, "name": name, "manifest": manifest, "created_at": BEFORE_ALL}
    with database.write() as connection:
        connection.execute(database.backend.keep_known(models), row)


def record_run(connection: Connection, name: str, model_id: str, manifest: dict[str, object], now: datetime) -> None:
    """Record the manifest of a run, and its time if it is the first one. The version's row must have been committed."""
    this = models.c.name == name, models.c.id == model_id
    connection.execute(update(models).where(*this).values(manifest=manifest))
    latest = connection.scalar(select(func.max(models.c.created_at)).where(models.c.name == name)) or BEFORE_ALL
    first_run_at = max(now, latest + TICK)  # after that of the other versions, even if the clock was set back
    connection.execute(update(models).where(*this, models.c.created_at == BEFORE_ALL).values(created_at=first_run_at))


def put_in_use(connection: Connection, name: str, model_id: str, now: datetime) -> RecordedVersion | None:
    """Make a version the one in use of its name, and return the one that was. Its row must have been committed."""
    before = _lock_version_in_use(connection, name)
    if before and before.model_id == model_id:
        return before
    moment = _after_all(connection, name, now)
    former = models.c.name == name, models.c.in_use_since.is_not(None)
    connection.execute(update(models).where(*former).values(used_until=moment - TICK, in_use_since=None))
    this = models.c.name == name, models.c.id == model_id
    connection.execute(update(models).where(*this).values(in_use_since=moment))
    return before


def _after_all(connection: Connection, name: str, now: datetime) -> datetime:
    """Return the time of a change: after those of all versions of the name, even if the clock was set back."""
    times = [time for one in read_versions(connection) if one.name == name for time in one.times]
    return max([now, *(time + 2 * TICK for time in times)])


def put_first_in_use(connection: Connection, name: str, model_id: str, now: datetime) -> None:
    """Put a version in use if none of its name is."""
    if version_in_use(read_versions(connection), name) or _lock_version_in_use(connection, name):
        return
    put_in_use(connection, name, model_id, now)


def take_out_of_use(connection: Connection, name: str, model_id: str) -> None:
    """Leave a name without a version in use, if it is this one; infer_current_predictions still has its predictions."""
    if not ((used := _lock_version_in_use(connection, name)) and used.model_id == model_id):
        return
    now = connection.execute(select(UtcNow())).scalar_one()
    this = models.c.name == name, models.c.id == model_id
    moment = _after_all(connection, name, now)
    connection.execute(update(models).where(*this).values(used_until=moment, in_use_since=None))


def switch_version(database: Database, name: str, model_id: str, manifest: dict[str, object]) -> RecordedVersion | None:
    """Put a version in use, also one that never ran, and return the one that was before."""

    def switch(connection: Connection) -> RecordedVersion | None:
        now = connection.execute(select(UtcNow())).scalar_one()
        return put_in_use(connection, name, model_id, now)

    database.with_reconnect(lambda: ensure_row(database, name, model_id, manifest))
    return database.transact(switch)


def _lock_version_in_use(connection: Connection, name: str) -> RecordedVersion | None:
    """Lock a name's rows and return its version in use: two transactions at once would leave two in use."""
    connection.execute(select(models.c.id).where(models.c.name == name).order_by(models.c.id).with_for_update()).all()
    return version_in_use(read_versions(connection), name)


def count_predictions(database: Database, *conditions: ColumnElement[bool]) -> dict[str, int]:
    """Return the number of predictions of each model id."""
    counted = select(predictions.c.model_id, func.count()).join_from(predictions, pictures).where(*conditions)
    with database.read() as connection:
        return {row[0]: row[1] for row in connection.execute(counted.group_by(predictions.c.model_id))}
