"""Time a contestant's process from start to exit, and the writes of its rows."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from processes import ProcessCost, run_measured


@dataclass(frozen=True)
class Run:
    """Measurements of one process, and the labels that it wrote."""

    seconds: float  # wall clock: interpreter, imports, model, all images, exit
    cpu_seconds: float  # of the process and its children
    peak_pss: int  # bytes, of all of them
    others: float  # share of the machine that other programs used, 0-1
    first_rows_s: float  # from the start until the first rows were written
    steady_rate: float  # images per second between the first commit and the last
    labels: dict[int, str]  # image id: label
    output: str  # standard output


class ProgramFailed(Exception):
    """A program exited with an error, which the message contains."""


class _Written(NamedTuple):
    labels: dict[int, str]
    first: datetime
    steady_rate: float


def time_process(command: Sequence[str], folder: Path, database: Path, table: str, cores: Collection[int]) -> Run:
    """Run the command on these cores and read what it wrote from `table`. Raises ProgramFailed."""
    started = datetime.now(UTC)
    cost = call(command, folder, cores)
    written = _read_rows(database, table)
    return Run(
        seconds=cost.seconds,
        cpu_seconds=cost.cpu_seconds,
        peak_pss=cost.peak_pss,
        others=cost.others,
        first_rows_s=(written.first - started).total_seconds(),
        steady_rate=written.steady_rate,
        labels=written.labels,
        output=cost.output,
    )


def call(command: Sequence[str], folder: Path, cores: Collection[int] | None = None) -> ProcessCost:
    """Run the command. Raises ProgramFailed with its output if it exits with an error."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("INFER_")}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # users' modules are compiled once
    cost = run_measured(command, folder=folder, environ=environ, cores=cores)
    if cost.exit_code:
        raise ProgramFailed(f"{' '.join(command)} exited with {cost.exit_code}\n{cost.output}{cost.errors}")
    return cost


def _read_rows(database: Path, table: str) -> _Written:
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(f"SELECT CAST(image_id AS INTEGER), label, created_at FROM {table}").fetchall()
    times = [datetime.fromisoformat(written).replace(tzinfo=UTC) for _, _, written in rows]
    first, last = min(times), max(times)
    later = sum(time > first for time in times)
    rate = later / (last - first).total_seconds() if later else float("nan")
    return _Written({image_id: label for image_id, label, _ in rows}, first, rate)
