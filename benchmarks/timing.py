"""A process from its start to its end: seconds, CPU seconds, and when its rows were written."""

from __future__ import annotations

import ctypes
import os
import resource
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from machine import busy_seconds

PR_SET_CHILD_SUBREAPER = 36  # Linux: orphans become ours, so that their CPU time is counted
REAP_WITHIN_S = 10


@dataclass(frozen=True)
class Run:
    """One process and what it wrote."""

    seconds: float  # wall clock: interpreter, imports, model, all images, exit
    cpu_seconds: float  # of the process and its children
    others: float  # share of the machine that was taken by anything else, 0-1
    first_rows_s: float  # from the start until the first rows were written
    steady_rate: float  # images per second between the first commit and the last
    labels: dict[int, str]  # image id: label
    output: str  # what it printed


class _Clocks(NamedTuple):
    wall: float
    children: float  # CPU seconds of all that have ended, and of theirs
    machine: float  # CPU seconds of everything, and what the host gave to others


class _Written(NamedTuple):
    labels: dict[int, str]
    first: datetime
    steady_rate: float


def time_process(command: list[str], folder: Path, database: Path, table: str) -> Run:
    """Runs it; what it wrote is read from `table`. Ends the benchmark if it fails."""
    _adopt_orphans()
    started, before = datetime.now(UTC), _read_clocks()
    output = call(command, folder)
    seconds = time.perf_counter() - before.wall
    _reap_orphans()
    after = _read_clocks()
    cpu_seconds = after.children - before.children
    busy_by_others = after.machine - before.machine - cpu_seconds
    written = _read_rows(database, table)
    return Run(
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        others=max(0.0, busy_by_others) / (after.wall - before.wall) / (os.cpu_count() or 1),
        first_rows_s=(written.first - started).total_seconds(),
        steady_rate=written.steady_rate,
        labels=written.labels,
        output=output,
    )


def call(command: list[str], folder: Path) -> str:
    """Its standard output; ends the benchmark, with its standard error, if it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INFER_")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def _reap_orphans() -> None:
    """Waits for processes that outlived the one that started them, such as multiprocessing's fork server."""
    deadline = time.monotonic() + REAP_WITHIN_S
    while time.monotonic() < deadline:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            time.sleep(0.01)


def _read_clocks() -> _Clocks:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return _Clocks(time.perf_counter(), used.ru_utime + used.ru_stime, busy_seconds())


def _read_rows(database: Path, table: str) -> _Written:
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(f"SELECT CAST(image_id AS INTEGER), label, created_at FROM {table}").fetchall()
    times = [datetime.fromisoformat(written).replace(tzinfo=UTC) for _, _, written in rows]
    first, last = min(times), max(times)
    later = sum(time > first for time in times)
    rate = later / (last - first).total_seconds() if later else float("nan")
    return _Written({image_id: label for image_id, label, _ in rows}, first, rate)
