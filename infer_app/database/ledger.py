"""What was run: one row per execution and day, which is also the lease that keeps two runs off the same day."""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from infer_app import __version__
from infer_app.database.connect import BUSY_TIMEOUT_S, Database
from infer_app.database.schema import models, runs
from infer_app.database.upsert import upsert
from infer_app.day import Day
from infer_app.errors import DatabaseUnavailable, DayHeld
from infer_app.records import RunReport

# A running row of another host whose last commit is older has lost its owner. Long, since the slowest chunk still is
# one sign of life: 16 images that each take all of their time limit.
LEASE_S = 900.0


@dataclass(frozen=True, slots=True)
class RunModel:
    """The model of a run, as the ledger writes it."""

    name: str
    model_id: str
    variant: str
    manifest: dict[str, Any]
    passed_over: dict[str, str] = field(default_factory=dict)  # variant: why it was not taken


class Ledger:
    """Opens and closes run rows. A row that a dead process left as running is closed by whoever finds it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open_run(self, day: Day, model: RunModel, executor: str, device: str, run_id: str | None = None) -> str:
        """Takes the day for this model and returns the run's id, a new one; DayHeld when a living run has it."""
        now = _utc_now()
        run_id = run_id or f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
        with self._database.write() as connection:
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

    def _register_model(self, connection: Connection, model: RunModel, now: datetime) -> None:
        row = {"id": model.model_id, "name": model.name, "manifest": model.manifest, "created_at": now}
        keep_first = {"created_at": lambda _: models.c.created_at}
        connection.execute(upsert(self._database.dialect.name, models, keep_first), row)

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
            connection.execute(update(runs).where(runs.c.id == run_id).values(ended_at=_utc_now(), **values))


def process_identity(pid: int) -> str:
    """`pid@start time`, so that a process that later gets the same pid is not taken for this one."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except OSError:
        return f"{pid}@?"
    fields = after_name.split()
    return f"{pid}@{'ended' if fields[0] == 'Z' else fields[19]}"  # a zombie has ended, if nobody reaped it


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
    }


def _is_alive(row: Row[Any], now: datetime) -> bool:
    """By the process on its own host, else by the heartbeat."""
    pid = int(row.process.partition("@")[0])
    if row.host == socket.gethostname() and not row.process.endswith("?"):
        return bool(process_identity(pid) == row.process)
    lost = now - timedelta(seconds=LEASE_S)
    return bool(row.heartbeat_at > lost)


def _utc_now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
