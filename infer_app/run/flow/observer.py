"""Observes the flow of a run from outside: what each stage costs, its trace, and the display of its progress."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from infer_app.base.domain import ChunkResult, NewImage
from infer_app.base.telemetry.progress import Advance, Progress
from infer_app.base.telemetry.stage_clock import StageClock
from infer_app.base.telemetry.tally import Tally
from infer_app.base.telemetry.trace import Trace


@dataclass(frozen=True, slots=True)
class Display:
    """Where a command shows what goes on."""

    progress: Progress
    trace: Trace | None = None


class FlowObserver:
    """Measures the stages that run in this process, and adds them to what the workers measured of theirs."""

    def __init__(self, tally: Tally, advance: Advance, trace: Trace | None) -> None:
        self._tally = tally
        self._advance = advance
        self._trace = trace

    def select(self, pages: Iterator[Sequence[NewImage]]) -> Iterator[NewImage]:
        """Yield the images of all pages."""
        while True:
            clock = self._clock()
            with clock.time("select"):
                page = next(pages, None)
            if page is None:
                return
            self._tally.add_page(len(page), clock)
            self._add_spans(clock)
            yield from page

    @contextmanager
    def commit(self, result: ChunkResult) -> Iterator[None]:
        """Measure the `with` block as the commit of a result, which counts if it succeeds."""
        clock = self._clock()
        clock.refs = result.refs if self._trace else ()
        with clock.time("write"):
            yield
        self._tally.add(result, clock)
        self._advance(result)
        if self._trace:
            self._trace.add(result.worker, result.spans)
        self._add_spans(clock)

    def _clock(self) -> StageClock:
        return StageClock(self._trace is not None, time.thread_time)  # another thread draws the progress bar

    def _add_spans(self, clock: StageClock) -> None:
        if self._trace:
            self._trace.add(os.getpid(), clock.spans)
