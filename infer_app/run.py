"""The main loop: a day's new images through the executor into the database."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

from infer_app.database.sink import Sink
from infer_app.day import Day
from infer_app.errors import EXIT_BUG, EXIT_TOO_MANY_REJECTED, InferError
from infer_app.holdback import hold_back
from infer_app.images.location import stat_facts
from infer_app.job import Job
from infer_app.observe.progress import Progress
from infer_app.observe.stages import StageClock, cost_per_image, limit_images_per_second
from infer_app.records import Chunk, ChunkResult, ImageRef, RunReport
from infer_app.settings import rejection_budget
from infer_app.stop import Stop

DRY_RUN_IMAGES = 256
DRY_RUN_ID = "dry-run"


def run_day(job: Job, day: Day, stop: Stop, progress: Progress, limit: int | None = None) -> RunReport:
    """Predicts the day's new images and writes the results: one row in infer_runs, whatever happens.

    Raises DayHeld, ModelError, StorageUnavailable or DatabaseUnavailable; what was committed before stays.
    """
    ledger = job.tables.ledger
    run_id = ledger.open_run(day, job.model, job.executor.name, job.executor.device)
    sink = Sink(job.tables.database, job.model.model_id, job.model.variant, run_id)
    try:
        job.tables.source.check_ids(day)
        forget_changed(job, day)
        report = _flow(job, [day], run_id, sink.commit_chunk, stop, progress, limit)
    except BaseException as error:
        ledger.fail_run(run_id, error.exit_code if isinstance(error, InferError) else EXIT_BUG, _in_words(error))
        raise
    ledger.close_run(report)
    return report


def dry_run(job: Job, days: Sequence[Day], stop: Stop, progress: Progress, limit: int | None = None) -> RunReport:
    """All of it on a sample of the days, oldest first, except that nothing is written: not a byte of the database."""
    return _flow(job, days, DRY_RUN_ID, lambda result: result, stop, progress, limit or DRY_RUN_IMAGES)


def _flow(
    job: Job,
    days: Sequence[Day],
    run_id: str,
    commit: Callable[[ChunkResult], ChunkResult],
    stop: Stop,
    progress: Progress,
    limit: int | None,
) -> RunReport:
    """source → executor (read, decode, transform, collate, model, outputs) → sink."""
    tally = Tally()
    tables, model_id = job.tables, job.model.model_id
    refs = islice(chain.from_iterable(tables.source.select_new(day, model_id) for day in days), limit)
    chunks = cut_into_chunks(stop.until(refs), job.chunk_size)
    with progress.of_day(
        days[-1], lambda: sum(tables.books.count_new(day, model_id) for day in days), limit
    ) as advance:
        for result in hold_back(job.executor.run(chunks), job.roots):
            with tally.clock.time("write"):
                written = commit(result)
            tally.add(written)
            advance(written)
    return _report(job, days[-1], run_id, tally, stop)


def cut_into_chunks(refs: Iterable[ImageRef], chunk_size: int) -> Iterator[Chunk]:
    """Numbered chunks of `chunk_size` refs, the last one shorter; lazily, so that no day is held in memory."""
    remaining = iter(refs)
    number = 0
    while some := tuple(islice(remaining, chunk_size)):
        yield Chunk(number, some)
        number += 1


def forget_changed(job: Job, day: Day) -> int:
    """Makes final rejections pending again whose file is no longer the one that was rejected."""
    books, model_id = job.tables.books, job.model.model_id
    changed = []
    for rejected in books.final_rejections(day, model_id):
        now = stat_facts(rejected.location)
        if now.size is not None and rejected.differs(now):
            changed.append(rejected.image_id)
    return books.forget_rejections(changed, model_id)


class Tally:
    """What one execution did, summed over its chunks."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.predicted = 0
        self._first: tuple[float, int] | None = None  # when the first result came, and its images
        self.reasons: Counter[str] = Counter()
        self.clock = StageClock()

    @property
    def rejected(self) -> int:
        return self.reasons.total()

    @property
    def selected(self) -> int:
        return self.predicted + self.rejected

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def steady_images_per_second(self) -> float | None:
        """The rate once the workers run: what a longer run would reach."""
        if self._first is None or self.selected == self._first[1]:
            return None
        return (self.selected - self._first[1]) / (time.monotonic() - self._first[0])

    def add(self, result: ChunkResult) -> None:
        self._first = self._first or (time.monotonic(), result.num_images)
        self.predicted += len(result.predictions)
        self.reasons.update(broken.reason.value for broken in result.broken)
        for stage, seconds in result.cpu_seconds.items():
            self.clock.cpu_seconds[stage] += seconds


def _report(job: Job, day: Day, run_id: str, tally: Tally, stop: Stop) -> RunReport:
    seconds = tally.seconds
    steady = tally.steady_images_per_second
    stages = cost_per_image(tally.clock.cpu_seconds, tally.selected)
    too_many = tally.rejected > rejection_budget(job.max_rejected, tally.selected)
    return RunReport(
        date=day.date,
        model=job.model.name,
        model_id=job.model.model_id,
        variant=job.model.variant,
        run_id=run_id,
        executor=job.executor.name,
        device=job.executor.device,
        selected=tally.selected,
        predicted=tally.predicted,
        rejected=tally.rejected,
        reasons=dict(sorted(tally.reasons.items())),
        day=job.tables.books.count_day(day, job.model.model_id),
        seconds=seconds,
        images_per_second=tally.selected / seconds if tally.selected else 0.0,
        steady_images_per_second=steady,
        limit_images_per_second=limit_images_per_second(stages, job.executor.num_cores),
        stages=stages,
        exit_code=stop.exit_code or (EXIT_TOO_MANY_REJECTED if too_many else 0),
    )


def _in_words(error: BaseException) -> str:
    return str(error) if isinstance(error, InferError) else f"{type(error).__name__}: {error}"
