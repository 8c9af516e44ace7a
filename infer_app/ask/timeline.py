"""Timeline of a run's processes from its trace file: read line by line, reduced to a few hundred bars."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from infer_app.base.errors import UsageError

NUM_SLOTS = 240  # of time; each shows the stage in which a process spent most of it
MAX_ROWS = 32


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
