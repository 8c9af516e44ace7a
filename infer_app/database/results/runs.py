"""What was run: one row per execution and day, which is also the lease that keeps two runs off the same day."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from infer_app import __version__
from infer_app.database.engine.column_types import UtcNow
from infer_app.database.engine.connect import Database
from infer_app.database.engine.sqlite import BUSY_TIMEOUT_S
from infer_app.database.results.schema import models, runs
from infer_app.database.results.upsert import keep_known, upsert
from infer_app.day import Day
from infer_app.domain import RunReport
from infer_app.errors import DatabaseUnavailable, DayHeld

log = logging.getLogger(__name__)

RENEW_EVERY_S = 15.0
# A running row whose owner can't be looked at (it runs on another host or in another container) and whose heartbeat is
# older has lost its owner. An owner that lives after all finds out when it next commits, and stops.
LEASE_S = 90.0
BEFORE_ALL = datetime(1970, 1, 2)


@dataclass(frozen=True, slots=True)
class RunModel:
    """The model of a run, as infer_runs records it."""

    name: str
    model_id: str
    variant: str
    manifest: dict[str, Any]
    passed_over: dict[str, str] = field(default_factory=dict)  # variant: why it was not taken


class RunStore:
    """Opens and closes run rows. A row that a dead process left as running is closed by whoever finds it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open_run(self, day: Day, model: RunModel, executor: str, device: str, run_id: str | None = None) -> str:
        """Takes the day for this model and returns the run's id, a new one; DayHeld when a living run has it.

        With the same `run_id` once more it changes nothing: of a first time whose answer was lost.
        """
        run_id = run_id or new_run_id()
        self._introduce_model(model)
        with self._database.write() as connection:
            self._lock_model(connection, model)
            if connection.scalar(select(runs.c.id).where(runs.c.id == run_id)):
                return run_id
            now = connection.execute(select(UtcNow())).scalar_one()
            self._register_model(connection, model, now)
            self._take_over(connection, day, model, now)
            row = {
                "id": run_id,
                "day": day.date,
                "time_zone": day.zone,
                "interval_start": day.start.replace(tzinfo=None),
                "interval_end": day.end.replace(tzinfo=None),
                "model": model.name,
                "model_id": model.model_id,
                "variant": model.variant,
                "executor": executor,
                "device": device,
                "host": socket.gethostname(),
                "process": process_identity(os.getpid()),
                "throughput": {"passed_over": model.passed_over},
                "versions": {"infer_app": __version__, "python": platform.python_version()},
                "state": "running",
                "started_at": now,
                "heartbeat_at": now,
            }
            connection.execute(insert(runs), row)
        return run_id

    @contextmanager
    def lease_renewal(self, run_ids: Sequence[str]) -> Iterator[None]:
        """Within it these runs say every RENEW_EVERY_S seconds that they live, however long a chunk takes."""
        with _LeaseRenewer(self._database.url, run_ids):
            yield

    def close_run(self, report: RunReport) -> None:
        self._close(
            report.run_id,
            state="done",
            selected=report.selected,
            predicted=report.predicted,
            rejected=report.rejected,
            reasons=report.reasons,
            stages=report.stages,
            seconds=report.seconds,
            images_per_second=report.images_per_second,
            limit_images_per_second=report.limit_images_per_second,
            throughput=_throughput(report),
            exit_code=report.exit_code,
            error=report.stopped,
        )

    def fail_run(self, run_id: str, exit_code: int, error: str) -> None:
        """As far as the database lets it: it may be what failed. Whoever finds the row running closes it."""
        with contextlib.suppress(DatabaseUnavailable):
            self._close(run_id, patience_s=2, state="failed", exit_code=exit_code, error=error)

    def variant_of_day(self, day: Day, model_id: str) -> str | None:
        """The variant that the day was begun with: it keeps it, whatever single runs were told since."""
        first = select(runs.c.variant).where(runs.c.day == day.date, runs.c.model_id == model_id, runs.c.predicted > 0)
        with self._database.read() as connection:
            return connection.scalar(first.order_by(runs.c.started_at).limit(1))

    def living_runs(self) -> set[str]:
        """Ids of the runs at work; a row that a dead process left as running is none."""
        with self._database.read() as connection:
            now = connection.execute(select(UtcNow())).scalar_one()
            return {
                row.id
                for row in connection.execute(select(runs).where(runs.c.state == "running"))
                if _is_alive(row, now)
            }

    def _introduce_model(self, model: RunModel) -> None:
        """Commit a row for the model where it has none by this name, so that there is one to lock.

        Its time is before that of any version that ran: only a run that takes its day makes a version the current one.
        """
        row = {"id": model.model_id, "name": model.name, "manifest": model.manifest, "created_at": BEFORE_ALL}
        with self._database.write() as connection:
            connection.execute(keep_known(self._database.dialect.name, models), row)

    def _lock_model(self, connection: Connection, model: RunModel) -> None:
        """Keep other runs of the model from taking a day until the transaction ends.

        Checking for a living run and inserting a new one exclude nobody at READ COMMITTED. These rows are the lock: of
        two runs, whatever names they have for the model, the one that introduced itself later sees the row of the
        other, which both lock. In SQLite the transaction itself is exclusive.
        """
        rows = select(models.c.id).where(models.c.id == model.model_id).order_by(models.c.name).with_for_update()
        connection.execute(rows).all()

    def _register_model(self, connection: Connection, model: RunModel, now: datetime) -> None:
        """Make the model the current version of its name, also where the clock stands still or was set back."""
        others = select(func.max(models.c.created_at)).where(models.c.name == model.name, models.c.id != model.model_id)
        latest = connection.scalar(others)
        begun = now if latest is None else max(now, latest + timedelta(microseconds=1))
        row = {"id": model.model_id, "name": model.name, "manifest": model.manifest, "created_at": begun}
        connection.execute(upsert(self._database.dialect.name, models), row)

    def _take_over(self, connection: Connection, day: Day, model: RunModel, now: datetime) -> None:
        running = select(runs).where(
            runs.c.day == day.date, runs.c.model_id == model.model_id, runs.c.state == "running"
        )
        for row in connection.execute(running).all():
            if _is_alive(row, now):
                raise DayHeld(
                    f"{day} with model {model.name} is held by run {row.id} on {row.host} (process {row.process})",
                    "wait for it to end; a dead run is taken over by itself",
                )
            died = {"state": "failed", "ended_at": row.heartbeat_at, "error": "the process ended without a word"}
            connection.execute(update(runs).where(runs.c.id == row.id).values(died))

    def _close(self, run_id: str, patience_s: float = BUSY_TIMEOUT_S, **values: Any) -> None:
        with self._database.write(patience_s) as connection:
            not_done = update(runs).where(runs.c.id == run_id, runs.c.state != "done")
            connection.execute(not_done.values(ended_at=UtcNow(), **values))


class _LeaseRenewer(Thread):
    """Beats until the end of its `with` block, over a connection of its own: SQLite's belong to one thread.

    A beat that fails is left out. The database may be away, and then nobody else can take the day; of any other error
    the log tells once.
    """

    def __init__(self, url: str, run_ids: Sequence[str]) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._url = url
        self._beat = update(runs).where(runs.c.id.in_(run_ids), runs.c.state == "running").values(heartbeat_at=UtcNow())
        self._ended = Event()

    def run(self) -> None:
        has_told = False
        with Database(self._url) as database:
            while not self._ended.wait(RENEW_EVERY_S):
                try:
                    with database.write(patience_s=0) as connection:
                        connection.execute(self._beat)
                except DatabaseUnavailable:
                    continue
                except Exception as error:
                    if not has_told:
                        first_line = str(error).partition("\n")[0]
                        log.warning("a heartbeat failed, others go on: %s: %s", type(error).__name__, first_line)
                    has_told = True

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()  # not waited for: it may hang in a connection that nobody answers


def new_run_id() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


def process_identity(pid: int) -> str:
    """`pid@start time@where it counts`, so that no later process of that pid, nor another container's, is taken for it.

    `?` stands for what can't be found out.
    """
    return f"{pid}@{_start_time(pid)}@{_where_pids_count()}"


def _start_time(pid: int) -> str:
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except OSError:
        return "?" if _exists(pid) else "ended"  # /proc may be mounted so that it hides what is another user's
    fields = after_name.split()
    return "ended" if fields[0] == "Z" else fields[19]  # a zombie has ended, if nobody reaped it


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _where_pids_count() -> str:
    """The kernel since its boot, and the process namespace: a container has its own."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        return f"{boot[:8]}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return "?"


def _throughput(report: RunReport) -> dict[str, Any]:
    """What of its speed has no column of its own, by the names it has in the report."""
    return {
        "steady_images_per_second": report.steady_images_per_second,
        "share_of_limit": report.share_of_limit,
        "limits": report.limits,
        "limited_by": report.limited_by,
        "advice": report.advice,
        "walls": report.walls,
        "waits": report.waits,
        "num_cores": report.num_cores,
        "num_workers": report.num_workers,
        "passed_over": report.passed_over,
        "nodes": report.nodes,
    }


def _is_alive(row: Row[Any], now: datetime) -> bool:
    """By its process where that can be looked at, else by the heartbeat."""
    pid, _, rest = row.process.partition("@")
    if row.host == socket.gethostname() and rest.endswith(f"@{_where_pids_count()}"):
        found = process_identity(int(pid))
        if "?" not in found:
            return bool(found == row.process)
    return bool(row.heartbeat_at > now - timedelta(seconds=LEASE_S))
