"""The main loop: a day's new images through the executor into the database."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

from infer_app.database.rehearsal import open_rehearsal
from infer_app.database.sink import Sink
from infer_app.day import Day
from infer_app.errors import EXIT_BUG, EXIT_TOO_MANY_REJECTED, InferError
from infer_app.holdback import hold_back
from infer_app.images.location import stat_facts
from infer_app.job import Job
from infer_app.observe.limit import Cost, advise, limiting_stage, limits
from infer_app.observe.progress import Progress
from infer_app.observe.stages import StageClock
from infer_app.observe.tally import Tally
from infer_app.observe.trace import Trace
from infer_app.records import Chunk, ChunkResult, ImageRef, RunReport
from infer_app.settings import rejection_budget
from infer_app.stop import Stop

DRY_RUN_CHUNKS = 8  # of each worker; the first is cold
DRY_RUN_ID = "dry-run"


def run_day(
    job: Job, day: Day, stop: Stop, progress: Progress, limit: int | None = None, trace: Trace | None = None
) -> RunReport:
    """Predicts the day's new images and writes the results: one row in infer_runs, whatever happens.

    Raises DayHeld, ModelError, StorageUnavailable or DatabaseUnavailable; what was committed before stays.
    """
    ledger = job.tables.ledger
    run_id = ledger.open_run(day, job.model, job.executor.name, job.executor.device)
    sink = Sink(job.tables.database, job.model.model_id, job.model.variant, run_id)
    try:
        job.tables.source.check_ids(day)
        forget_changed(job, day)
        report = _flow(job, [day], run_id, sink.commit_chunk, stop, progress, limit, trace)
    except BaseException as error:
        ledger.fail_run(run_id, error.exit_code if isinstance(error, InferError) else EXIT_BUG, _in_words(error))
        raise
    ledger.close_run(report)
    return report


def dry_run(
    job: Job,
    days: Sequence[Day],
    stop: Stop,
    progress: Progress,
    limit: int | None = None,
    trace: Trace | None = None,
) -> RunReport:
    """All of it on a sample of the days, oldest first; what is written is thrown away, and the database stays as it is.

    Not a byte of it changes: writing is rehearsed elsewhere, since a forecast without its cost would be too early.
    """
    limit = limit or DRY_RUN_CHUNKS * job.chunk_size * job.executor.num_workers
    with open_rehearsal(job.tables.database) as rehearsal:
        sink = Sink(rehearsal, job.model.model_id, job.model.variant, DRY_RUN_ID)
        return _flow(job, days, DRY_RUN_ID, sink.commit_chunk, stop, progress, limit, trace)


def _flow(
    job: Job,
    days: Sequence[Day],
    run_id: str,
    commit: Callable[[ChunkResult], ChunkResult],
    stop: Stop,
    progress: Progress,
    limit: int | None,
    trace: Trace | None,
) -> RunReport:
    """source → executor (read, decode, transform, collate, model, outputs) → sink."""
    tally = Tally(job.executor.num_workers)
    tables, model_id = job.tables, job.model.model_id
    refs = islice(select_new(job, days, tally, trace), limit)
    chunks = cut_into_chunks(stop.until(refs), job.chunk_size)
    with progress.of_day(
        days[-1], lambda: sum(tables.books.count_new(day, model_id) for day in days), limit
    ) as advance:
        for result in hold_back(job.executor.run(chunks), job.roots):
            clock = _clock(trace)
            clock.refs = result.refs if trace else ()
            with clock.time("write"):
                written = commit(result)
            tally.add(written, clock)
            advance(written)
            if trace:
                trace.add(written.worker, written.spans)
                trace.add(os.getpid(), clock.spans)
    return _report(job, days[-1], run_id, tally, stop)


def select_new(job: Job, days: Sequence[Day], tally: Tally, trace: Trace | None) -> Iterator[ImageRef]:
    """The new images of all days, oldest first; the tally learns what selecting them takes."""
    pages = chain.from_iterable(job.tables.source.select_pages(day, job.model.model_id) for day in days)
    while True:
        clock = _clock(trace)
        with clock.time("select"):
            page = next(pages, None)
        if page is None:
            return
        tally.add_page(len(page), clock)
        if trace:
            trace.add(os.getpid(), clock.spans)
        yield from page


def _clock(trace: Trace | None) -> StageClock:
    return StageClock(trace is not None, time.thread_time)  # another thread draws the progress bar


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


def _report(job: Job, day: Day, run_id: str, tally: Tally, stop: Stop) -> RunReport:
    seconds, steady = tally.seconds, tally.steady_images_per_second
    executor = job.executor
    cost = Cost(tally.cpu_ms(), tally.wait_ms(), executor.num_cores, executor.num_workers, executor.num_threads)
    rates = limits(cost)
    limit = min(rates.values(), default=None)
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
        limit_images_per_second=limit,
        stages=tally.cpu_ms(),
        exit_code=stop.exit_code or (EXIT_TOO_MANY_REJECTED if too_many else 0),
        walls=tally.wall_ms(),
        waits=tally.wait_ms(),
        limits=rates,
        limited_by=limiting_stage(cost),
        share_of_limit=steady / limit if steady and limit else None,
        advice=advise(cost, job.alternatives),
        num_cores=job.executor.num_cores,
        num_workers=job.executor.num_workers,
    )


def _in_words(error: BaseException) -> str:
    return str(error) if isinstance(error, InferError) else f"{type(error).__name__}: {error}"
