"""Show what a run does: its progress, as a bar on a terminal or a log line per minute under cron, and its trace file.

The trace is the time of every chunk in every stage, as JSON for Perfetto and chrome://tracing. The format is Chrome's
Trace Event Format, as a JSON object: complete events (ph X), times in microseconds.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from infer_app.base.day import Day
from infer_app.base.domain import ChunkResult, Span
from infer_app.base.errors import UsageError, os_errors_as
from infer_app.base.printing import shown_rate
from infer_app.base.telemetry.log import logs_json

log = logging.getLogger(__name__)
LOG_EVERY_S = 60.0

Advance = Callable[[ChunkResult], None]


@dataclass(frozen=True, slots=True)
class Display:
    """Where a command shows what goes on."""

    progress: Progress
    trace: Trace | None = None


class Progress:
    """Progress display of one command; `of_day` yields a function to call after each commit."""

    def __init__(self, quiet: bool = False, stream: TextIO | None = None) -> None:
        """Make it; `stream` is by default standard error."""
        self._quiet = quiet
        self._stream = stream or sys.stderr

    @contextmanager
    def of_day(self, day: Day, count: Callable[[], int], limit: int | None) -> Iterator[Advance]:
        """Display the progress of a day; `count` returns its new images and is called only if they are displayed."""
        if self._quiet:
            yield lambda _: None
            return
        total = min(count(), limit) if limit else count()
        if total and self._stream.isatty() and not logs_json():
            yield from self._bar(day, total)
        else:
            yield _log_every_minute(day, total)

    def _bar(self, day: Day, total: int) -> Iterator[Advance]:
        from rich import progress  # takes a while, which a run under cron saves
        from rich.console import Console

        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(),
        )
        with progress.Progress(*columns, console=Console(file=self._stream), transient=True) as bar:
            task = bar.add_task(str(day), total=total)
            yield lambda result: bar.advance(task, result.num_images)


def _log_every_minute(day: Day, total: int) -> Advance:
    done = 0
    started = logged = time.monotonic()

    def advance(result: ChunkResult) -> None:
        nonlocal done, logged
        done += result.num_images
        now = time.monotonic()
        if now - logged >= LOG_EVERY_S:
            logged = now
            rate = done / (now - started)
            figures = {"done": done, "total": total, "images_per_second": round(rate, 3)}
            log.info(
                "%s: %s of %s images, %s a second", day, f"{done:,}", f"{total:,}", shown_rate(rate), extra=figures
            )

    return advance


class Trace:
    """A trace file, written under a temporary name and renamed when the `with` block ends, also after an error."""

    def __init__(self, path: Path) -> None:
        """Open the temporary file. Raises UsageError if it can't be written."""
        self._path = path.resolve()  # the target of a symbolic link is written, and the link stays
        self._part = self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}.part")
        if self._path.exists() and not self._path.is_file():
            raise UsageError(f"--trace {path} is not a file", "name a file, which is created or overwritten")
        with os_errors_as(UsageError, f"--trace {path} can't be written", "name a file in a folder you can write to"):
            self._file = self._part.open("x", encoding="utf-8")  # a new file: a link is not followed
        self._origin = time.monotonic()
        self._numbers: dict[int, int] = {}  # worker numbers by pid
        self._lost = False
        self._write('{"displayTimeUnit": "ms", "traceEvents": [\n' + _lines(_names(os.getpid(), "coordinator", 0)))

    def add(self, pid: int, spans: Iterable[Span]) -> None:
        """Add the spans of a process; a process seen for the first time is named as the next worker."""
        if pid != os.getpid() and pid not in self._numbers:
            self._numbers[pid] = len(self._numbers) + 1
            self._append(_names(pid, f"worker {self._numbers[pid]}", self._numbers[pid]))
        self._append([self._event(pid, span) for span in spans])

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: object) -> None:
        self._write("\n]}\n")
        try:
            self._file.close()
            if not self._lost:
                self._part.replace(self._path)
        except OSError as error:
            self._give_up(error)
        self._part.unlink(missing_ok=True)

    def _event(self, pid: int, span: Span) -> dict[str, object]:
        return {
            "name": span.stage,
            "ph": "X",
            "pid": pid,
            "tid": pid,
            "ts": round(1e6 * (span.start_s - self._origin), 1),
            "dur": round(1e6 * span.wall_s, 1),
            "args": {"images": span.image_ids, "cpu_ms": round(1e3 * span.cpu_s, 3)},
        }

    def _append(self, events: Sequence[dict[str, object]]) -> None:
        if events:
            self._write(",\n" + _lines(events))

    def _write(self, text: str) -> None:
        """Write, or give the trace up if the disk is full: the run continues without it."""
        if self._lost:
            return
        try:
            self._file.write(text)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._lost = True
        log.warning("no trace: %s: %s", self._path, error.strerror)


def _lines(events: Sequence[dict[str, object]]) -> str:
    return ",\n".join(map(json.dumps, events))


def _names(pid: int, name: str, order: int) -> list[dict[str, object]]:
    """Return the metadata events that name a process and its one thread, sorted by `order`."""
    event = {"ph": "M", "pid": pid, "tid": pid}
    return [
        event | {"name": "process_name", "args": {"name": name}},
        event | {"name": "thread_name", "args": {"name": name}},
        event | {"name": "process_sort_index", "args": {"sort_index": order}},
    ]
