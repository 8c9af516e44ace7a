"""Rows of runs: one for each execution and day, which is also the lease that keeps two runs off the same day."""

import contextlib
import logging
import os
import secrets
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from operator import itemgetter
from threading import Event, Thread
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, true, update

from infer_app.artifact.model_names import Version
from infer_app.base.day import Day
from infer_app.base.errors import DatabaseUnavailable, DayHeld
from infer_app.base.machine import pid_namespace, process_identity
from infer_app.base.model_variants import BegunVariant
from infer_app.base.packages import recorded_packages
from infer_app.base.run_report import RunReport
from infer_app.tables.engine.column_types import UtcNow
from infer_app.tables.engine.connect import Database
from infer_app.tables.engine.reconnect import BUSY_TIMEOUT_S
from infer_app.tables.results.model_versions import (
    RecordedVersion,
    ensure_row,
    put_first_in_use,
    read_versions,
    record_run,
    take_out_of_use,
)
from infer_app.tables.results.schema import models, runs

log = logging.getLogger(__name__)

RENEW_EVERY_S = 15.0
# The owner of a running row may be on another host or in another container, where its process can't be checked. It
# counts as dead if its heartbeat is older than this. If it is alive after all, its next commit fails and it stops.
LEASE_S = 90.0
OTHERS_LEASE_S = 3600.0  # after which a run of one model closes the rows that dead runs of others left open
_KNOWN = {"day", "model", "model_id", "variant", "executor", "device"}  # of a run before its report
_REPORTED = {one.name for one in fields(RunReport)}.intersection(runs.c.keys()) - _KNOWN
_OF_SPEED = (  # measurements that have no column of their own
    "steady_images_per_second",
    "share_of_limit",
    "limits",
    "limited_by",
    "walls",
    "waits",
    "num_cores",
    "num_workers",
    "passed_over",
    "nodes",
    "nearly_black",
)


def last_start(database: Database) -> datetime | None:
    """Return when the last run of all began (UTC), by the clock of its machine; None if there was none."""
    time: datetime | None = database.ask(lambda connection: connection.scalar(select(func.max(runs.c.started_at))))
    return None if time is None else time.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RunModel:
    """The model of a run, as infer_runs records it."""

    name: str
    model_id: str
    variant: str
    manifest: dict[str, object]
    passed_over: dict[str, str] = field(default_factory=dict)  # variant: why it was not chosen
    may_be_put_in_use: bool = True  # by its run, if no version of its name is in use
    variant_sha256: str | None = None  # of the files that decide the variant's numbers
    detector_id: str | None = None  # of a second network: the version of its detector whose objects it takes


class RunStore:
    """Opens and closes rows of runs. A row that a dead process left open is closed by the next run of its day."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open_run(self, day: Day, model: RunModel, run_id: str | None = None) -> str:
        """Acquire the day for this model and return the id of the new run. Raises DayHeld if an active run holds it.

        The variant is that of a new day until `start_run` records how the run goes on. A repeated call with the same
        `run_id` changes nothing: the answer to the first one may have been lost.
        """
        run_id = run_id or new_run_id()
        ensure_row(self._database, model.name, model.model_id, model.manifest)
        with self._database.write() as connection:
            _lock_model(connection, model.model_id)
            if connection.scalar(select(runs.c.id).where(runs.c.id == run_id)):
                return run_id
            now = connection.execute(select(UtcNow())).scalar_one()
            self._register_model(connection, model, now)
            _take_over(connection, day.date, model.name, model.model_id, now)
            row = _new_row(day, (model.name, model.model_id), now) | {
                "id": run_id,
                "variant": model.variant,
                "variant_sha256": model.variant_sha256,
                "throughput": {"passed_over": model.passed_over},
                "state": "running",
            }
            connection.execute(insert(runs), row)
        return run_id

    def start_run(self, run_id: str, model: RunModel, executor: str, device: str) -> None:
        """Record in which variant the run predicts its day, and where: both are decided once the day is held."""
        row = {
            "variant": model.variant,
            "variant_sha256": model.variant_sha256,
            "executor": executor,
            "device": device,
            "throughput": {"passed_over": model.passed_over},
        }
        with self._database.write() as connection:
            connection.execute(update(runs).where(runs.c.id == run_id).values(row))

    @contextmanager
    def lease_renewal(self, run_ids: Sequence[str], every_s: float = RENEW_EVERY_S) -> Iterator[None]:
        """Renew the leases of these runs every `every_s` seconds until the `with` block ends."""
        ended, url = Event(), self._database.url
        Thread(target=_renew_leases, args=(url, run_ids, ended, every_s), name="heartbeat", daemon=True).start()
        try:
            yield
        finally:
            ended.set()  # the thread is not joined: it may hang in a connection that gets no answer

    def close_run(self, report: RunReport) -> None:
        columns = {name: getattr(report, name) for name in _REPORTED}
        speed = {name: getattr(report, name) for name in _OF_SPEED}
        error = report.stopped
        self._close(report.run_id, state="done", **columns, throughput=speed, error=error)

    def fail_run(self, run_id: str, exit_code: int, error: str) -> None:
        """Record the failure. If the database itself can't be reached, the next run closes the row."""
        with contextlib.suppress(DatabaseUnavailable):
            self._close(run_id, wait_limit_s=2, state="failed", exit_code=exit_code, error=error)

    def record_failure(self, day: Day, version: Version, exit_code: int, error: str) -> None:
        """Add a failed run of a version that this process did not come to hold the day for."""
        this = runs.c.day == day.date, runs.c.model_id == version[1], runs.c.process == process_identity(os.getpid())
        with self._database.write(wait_limit_s=2) as connection:
            now = connection.execute(select(UtcNow())).scalar_one()
            row = _new_row(day, version, now) | {"id": new_run_id(), "variant": "", "state": "failed"}
            row |= {"ended_at": now, "exit_code": exit_code, "error": error}
            if not connection.scalar(select(runs.c.id).where(*this, runs.c.host == row["host"]).limit(1)):
                connection.execute(insert(runs), row)

    def names_that_ran(self) -> set[str]:
        with self._database.read() as connection:
            return set(connection.scalars(select(runs.c.model).distinct()))

    def has_run(self, run_id: str) -> bool:
        with self._database.read() as connection:
            return connection.scalar(select(runs.c.id).where(runs.c.id == run_id)) is not None

    def variants_of_day(self, day: Day, model_id: str) -> dict[str, BegunVariant]:
        """Return the variants of the day's runs that predicted, by the runs' ids, the first one first."""
        of_day = runs.c.day == day.date, runs.c.model_id == model_id, runs.c.predicted > 0
        columns = select(runs.c.id, runs.c.variant, runs.c.variant_sha256).where(*of_day).order_by(runs.c.started_at)
        with self._database.read() as connection:
            return {row.id: BegunVariant(row.variant, row.variant_sha256) for row in connection.execute(columns)}

    def dates_of_variant(self, model_id: str, variant: str) -> list[date]:
        """Return the dates on which runs predicted with a variant, the latest first."""
        of_variant = runs.c.model_id == model_id, runs.c.variant == variant, runs.c.predicted > 0
        with self._database.read() as connection:
            return list(
                connection.scalars(select(runs.c.day).where(*of_variant).distinct().order_by(runs.c.day.desc()))
            )

    def predicted_by_others(self, model_id: str, variant: str, sha256: str) -> tuple[int, date, date] | None:
        """Return how many images runs predicted with other files of a variant, and their first and last day."""
        of_others = runs.c.model_id == model_id, runs.c.variant == variant, runs.c.variant_sha256 != sha256
        columns = func.sum(runs.c.predicted), func.min(runs.c.day), func.max(runs.c.day)
        with self._database.read() as connection:
            count, first, last = connection.execute(select(*columns).where(*of_others, runs.c.predicted > 0)).one()
        return (int(count), first, last) if count else None

    def living_runs(self) -> set[str]:
        """Return the ids of active runs, without the rows that dead processes left open."""
        with self._database.read() as connection:
            now = connection.execute(select(UtcNow())).scalar_one()
            return {
                row.id
                for row in connection.execute(select(runs).where(runs.c.state == "running"))
                if is_alive(row, now)
            }

    def end_use(self, name: str, model_id: str, check: Callable[[Sequence[RecordedVersion]], None]) -> None:
        """Leave a name without a version in use, if it is this one and `check` raises nothing.

        Raises DayHeld while a run of the version is active.
        """

        def end(connection: Connection) -> None:
            check_not_running(connection, model_id)
            check(read_versions(connection))
            take_out_of_use(connection, name, model_id)

        self._database.transact(end)

    def _register_model(self, connection: Connection, model: RunModel, now: datetime) -> None:
        """Record the run's model, and put the version in use if no version of its name is."""
        record_run(connection, model.name, model.model_id, model.manifest, now)
        if model.may_be_put_in_use:
            put_first_in_use(connection, model.name, model.model_id, now)

    def _close(self, run_id: str, wait_limit_s: float = BUSY_TIMEOUT_S, **values: object) -> None:
        with self._database.write(wait_limit_s) as connection:
            not_done = update(runs).where(runs.c.id == run_id, runs.c.state != "done")
            connection.execute(not_done.values(ended_at=UtcNow(), **values))


def _new_row(day: Day, version: Version, now: datetime) -> dict[str, object]:
    """Return the columns of a run that begins."""
    return {
        "day": day.date,
        "time_zone": day.zone,
        "interval_start": day.start.replace(tzinfo=None),
        "interval_end": day.end.replace(tzinfo=None),
        "model": version[0],
        "model_id": version[1],
        "executor": "",
        "device": "",
        "host": socket.gethostname(),
        "process": process_identity(os.getpid()),
        "versions": recorded_packages(),
        "started_at": now,
        "heartbeat_at": now,
    }


def keep_runs_out(connection: Connection, days: Iterable[date], versions: Iterable[Version]) -> None:
    """Let no run of these versions of models hold or acquire one of the days until the transaction ends.

    Raises DayHeld if an active run holds one.
    """
    dates, ordered = sorted(days), sorted(versions, key=itemgetter(1))
    for _, model_id in ordered:  # in one order, and all before rows of runs: two that wait can't block each other
        _lock_model(connection, model_id)
    now = connection.execute(select(UtcNow())).scalar_one()
    for name, model_id in ordered:
        for day in dates:
            _take_over(connection, day, name, model_id, now)


def refuse_during_runs(connection: Connection) -> None:
    """Raise DayHeld if a run is active; none of a model that has run before begins until the transaction ends."""
    connection.execute(select(models.c.id).order_by(models.c.id, models.c.name).with_for_update()).all()
    check_not_running(connection)


def check_not_running(connection: Connection, *model_ids: str) -> None:
    """Raise DayHeld if a run is active, of whatever day and of any model or of these."""
    now = connection.execute(select(UtcNow())).scalar_one()
    of_models = runs.c.model_id.in_(model_ids) if model_ids else true()
    for row in connection.execute(select(runs).where(runs.c.state == "running", of_models)):
        if is_alive(row, now):
            raise DayHeld(f"run {row.id} of {row.day} is active", "wait for it to end: `infer status` shows it")


def _lock_model(connection: Connection, model_id: str) -> None:
    """Lock the model's rows, which keeps other runs of it from acquiring a day until the transaction ends.

    At READ COMMITTED a check for an active run and an insert of a new one do not exclude each other. Two runs may use
    different names for the model. The one whose row was committed later then sees the other's row, and both lock it.
    In SQLite the transaction itself is exclusive.
    """
    rows = select(models.c.id).where(models.c.id == model_id).order_by(models.c.name).with_for_update()
    connection.execute(rows).all()


def _take_over(connection: Connection, day: date, name: str, model_id: str, now: datetime) -> None:
    """Close the day's rows that dead runs left open. Raises DayHeld if an active run of the model holds the day.

    Those of other models too, as no run of a version that is not in use, or was removed, may ever follow; but those
    only after OTHERS_LEASE_S, since a run that was paused may go on.
    """
    running = select(runs).where(runs.c.day == day, runs.c.state == "running").order_by(runs.c.id)
    for row in connection.execute(running).all():
        lease_s = LEASE_S if row.model_id == model_id else OTHERS_LEASE_S
        if not is_alive(row, now, lease_s):
            died = {"state": "failed", "ended_at": row.heartbeat_at, "error": "the process ended unexpectedly"}
            connection.execute(update(runs).where(runs.c.id == row.id).values(died))
        elif row.model_id == model_id:
            pid, since = row.process.partition("@")[0], f"{row.started_at:%Y-%m-%d %H:%M}"
            raise DayHeld(
                f"{day} with model {name} is held by run {row.id}: process {pid} on {row.host}, since {since} UTC",
                f"wait for it to end; if it hangs, end it with `kill {pid}` on {row.host} and run again",
            )


def _renew_leases(url: str, run_ids: Sequence[str], ended: Event, every_s: float) -> None:
    """Renew leases until `ended` is set, by a connection of its own, as a thread needs with SQLite.

    A renewal that fails is skipped. While the database is unavailable no other run can acquire the day. Any other error
    is logged once.
    """
    own, is_logged = (runs.c.id.in_(run_ids), runs.c.state == "running"), False
    with Database(url) as database:
        while not ended.wait(every_s):
            try:
                with database.write(wait_limit_s=0) as connection:
                    connection.execute(update(runs).where(*own).values(heartbeat_at=UtcNow()))
            except DatabaseUnavailable:
                continue
            except Exception as error:
                if not is_logged:
                    first_line = str(error).partition("\n")[0]
                    log.warning("renewing the lease failed, retrying: %s: %s", type(error).__name__, first_line)
                is_logged = True


def new_run_id() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


def is_alive(row: Row[Any], now: datetime, lease_s: float = LEASE_S) -> bool:
    """Return whether the run's process lives, if it can be checked from here; else whether its heartbeat is recent."""
    pid, _, rest = row.process.partition("@")
    if row.host == socket.gethostname() and rest.endswith(f"@{pid_namespace()}"):
        found = process_identity(int(pid))
        if "?" not in found:
            return bool(found == row.process)
    return bool(row.heartbeat_at > now - timedelta(seconds=lease_s))
