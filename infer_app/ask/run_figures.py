"""A run as the report shows it: its row of infer_runs, and the timeline of its processes from its trace file.

A trace is read line by line, and reduced to a few hundred bars.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from datetime import date, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from infer_app.base.errors import UsageError
from infer_app.base.run_report import MIN_IMAGES, DayCounts, DayState, RunReport
from infer_app.base.telemetry.bottleneck import judged
from infer_app.base.telemetry.summary_line import balance, short_date, summary_line

NUM_SLOTS = 240  # of time; each shows the stage in which a process spent most of it
MAX_ROWS = 32


@dataclass(frozen=True, slots=True)
class RunFigures:
    """A row of infer_runs; what a failed run did not measure is None or empty."""

    run_id: str
    day: date
    started_at: datetime  # UTC, without a zone
    state: str  # running, done or failed
    exit_code: int | None
    error: str | None
    selected: int
    predicted: int
    rejected: int
    seconds: float | None
    images_per_second: float | None
    steady_images_per_second: float | None
    limit_images_per_second: float | None
    variant: str
    executor: str
    device: str
    host: str
    versions: dict[str, str]

    @property
    def rate(self) -> float | None:
        """Return the steady rate in images per second, or the overall one; None after too few images to judge it."""
        return (self.steady_images_per_second or self.images_per_second) if self.selected >= MIN_IMAGES else None

    @property
    def has_failed(self) -> bool:
        return self.state == "failed" or self.exit_code not in (None, 0)


def run_figures(row: dict[str, Any]) -> RunFigures:
    known = row | {"run_id": row["id"], "steady_images_per_second": _measured(row).get("steady_images_per_second")}
    return RunFigures(**{field.name: known[field.name] for field in fields(RunFigures)})


def run_report(row: dict[str, Any], counts: DayCounts) -> RunReport:
    """Return the run's report from its row, with the present counts of the day."""
    names = {field.name for field in fields(RunReport)}
    measured = {name: value for name, value in _measured(row).items() if name in names and value is not None}
    same = {name: row[name] for name in names & row.keys() if row[name] is not None}
    return judged(RunReport(**(same | measured | {"date": row["day"], "run_id": row["id"], "day": counts})))


def count_nearly_black(rows: Iterable[dict[str, object]]) -> int:
    """Add up the images of 16 bits that use at most 12, of a day's runs: each run predicts other images."""
    return sum(_measured(row).get("nearly_black", 0) for row in rows)


def day_summary_line(
    day: date, counts: DayCounts, report: RunReport | None, last: RunFigures | None, state: DayState
) -> str:
    """Return the last line of the day's run; if the last run failed or none ran, that replaces the speed."""
    line = f"{short_date(day)}: {balance(counts)}"
    if last is None or report is None:
        return f"{line} · {state.state if counts.eligible else 'no images'}"
    if state.state == "running":
        return f"{line} · running since {last.started_at:%H:%M} UTC"
    if state.state == "failed":
        return f"{line} · the last run failed{'' if last.exit_code is None else f' with exit code {last.exit_code}'}"
    return summary_line(report)


def _measured(row: dict[str, Any]) -> dict[str, Any]:
    return row["throughput"] or {}


@dataclass(frozen=True, slots=True)
class Bar:
    """An interval in which a process was in one stage."""

    stage: str
    start: float  # share of the run, 0-1
    width: float


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One process of the run."""

    name: str  # "coordinator", or "worker" and its number
    busy: float  # share of the run, 0-1
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """All processes of a run."""

    seconds: float
    lanes: tuple[TimelineRow, ...]  # a public key of the report's JSON


def read_timeline(path: Path) -> Timeline:
    """Read a trace file. Raises UsageError if `infer run --trace` did not write it."""
    try:
        end = max((event["ts"] + event["dur"] for event in _spans(path)), default=0.0)
        times = _sum_slots(path, end / NUM_SLOTS) if end > 0 else {}
        names = {event["pid"]: str(event["args"]["name"]) for event in _events(path) if event["name"] == "process_name"}
    except OSError as error:
        raise UsageError(f"--trace {path} can't be read: {error.strerror}", "name the file of a run") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{path} is not a trace", "`infer run --trace FILE` writes one") from None
    rows = [_row(names.get(pid, f"process {pid}"), slots, end) for pid, slots in sorted(times.items())[:MAX_ROWS]]
    return Timeline(end / 1e6, tuple(sorted(rows, key=_by_name)))


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events, each of which is on a line of its own."""
    with path.open(encoding="utf-8") as file:
        if not file.readline(1000).startswith('{"displayTimeUnit"'):
            raise ValueError("not a trace of `infer run`")
        for line in file:
            if line.startswith('{"'):
                yield json.loads(line.rstrip().rstrip(","))


def _spans(path: Path) -> Iterator[dict[str, Any]]:
    return (event for event in _events(path) if event["ph"] == "X")


def _sum_slots(path: Path, width: float) -> dict[int, list[dict[str, float]]]:
    """Return the microseconds by process, slot of time and stage."""
    times: dict[int, list[dict[str, float]]] = {}
    for event in _spans(path):
        slots = times.setdefault(event["pid"], [defaultdict(float) for _ in range(NUM_SLOTS)])
        start, end = event["ts"], event["ts"] + event["dur"]
        for slot in range(int(start / width), min(NUM_SLOTS - 1, int(end / width)) + 1):
            slots[slot][str(event["name"])] += min(end, (slot + 1) * width) - max(start, slot * width)
    return times


def _row(name: str, slots: list[dict[str, float]], end: float) -> TimelineRow:
    busy = sum(sum(slot.values()) for slot in slots) / end
    return TimelineRow(name, min(1.0, busy), tuple(_bars(slots, end / NUM_SLOTS)))


def _bars(slots: list[dict[str, float]], width: float) -> Iterator[Bar]:
    """Yield the bars of a process; slots in which it was idle for three quarters are gaps."""
    stages = [max(slot, key=slot.__getitem__) if sum(slot.values()) > width / 4 else "" for slot in slots]
    for stage, run in groupby(range(NUM_SLOTS), stages.__getitem__):
        slots_of_bar = list(run)
        if stage:
            yield Bar(stage, slots_of_bar[0] / NUM_SLOTS, len(slots_of_bar) / NUM_SLOTS)


def _by_name(row: TimelineRow) -> tuple[int, str]:
    return len(row.name) if row.name.startswith("worker") else 0, row.name
