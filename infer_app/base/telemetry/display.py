"""Show the progress of a run: as a bar on a terminal, or as a log line per minute under cron."""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from infer_app.base.day import Day
from infer_app.base.domain import ChunkResult
from infer_app.base.printing import shown_rate
from infer_app.base.telemetry.log import logs_json

log = logging.getLogger(__name__)
LOG_EVERY_S = 60.0

Advance = Callable[[ChunkResult], None]


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
