"""Trace of a run: the time of every chunk in every stage, as JSON for Perfetto and chrome://tracing.

The format is Chrome's Trace Event Format, as a JSON object: complete events (ph X), times in microseconds.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from infer_app.base.domain import Span
from infer_app.base.errors import UsageError, os_errors_as

log = logging.getLogger(__name__)


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
