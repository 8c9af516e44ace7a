"""Runs a day's new images through the executor and writes the results to the database."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain, islice

from infer_app.database.listing.former_pictures import check_ids, check_ids_again
from infer_app.database.listing.left_out import NEEDED
from infer_app.database.results.dry_run_database import open_dry_run_database
from infer_app.database.results.runs import RunStore
from infer_app.day import Day
from infer_app.domain import ImageRef, NewImage
from infer_app.errors import InferError, StorageUnavailable, UsageError
from infer_app.images.read.read_image import refused_among
from infer_app.images.read.roots import is_other_there
from infer_app.locations import as_location
from infer_app.pipeline.changed_files import STAT_TIMEOUT_S, reset_changed_rejections
from infer_app.pipeline.chunking import FEW_IMAGES, ChunkSize, cut_into_chunks
from infer_app.pipeline.job import Job
from infer_app.pipeline.model_run import FailureBudget, ModelRun, continue_runs, hold_day, make_report
from infer_app.pipeline.outage_guard import guard_against_outages
from infer_app.pipeline.stop import Stop
from infer_app.run_report import RunReport
from infer_app.telemetry.log import names_and_ids
from infer_app.telemetry.progress import Progress
from infer_app.telemetry.stage_clock import StageClock
from infer_app.telemetry.tally import Tally
from infer_app.telemetry.trace import Trace
from infer_app.workers.isolated_call import run_in_process

log = logging.getLogger(__name__)

DRY_RUN_IMAGES = 256
DRY_RUN_CHUNKS = 8  # for each worker, at least; the first is slow
DRY_RUN_ID = "dry-run"
NEAR_IMAGES = 20  # of each of some days that are read if many images of a day are missing
SOME_DONE = 200  # images with results whose locations are checked if no other location is allowed


def run_day(
    job: Job, day: Day, stop: Stop, progress: Progress, limit: int | None = None, trace: Trace | None = None
) -> list[RunReport]:
    """Predict the day's new images and write the results; return a report for each model.

    The variants are those that the day was begun in, which is asked once the day is held: no other run can begin it
    then. `limit` is a number of images. Raises DayHeld, ModelError, StorageUnavailable or DatabaseUnavailable; what was
    committed before stays. Raises UnusableIds before anything is written.
    """
    project, with_reconnect = job.project, job.project.database.with_reconnect
    with_reconnect(partial(check_ids, project.database, project.source, day, job.model_ids))
    with hold_day(job, day, stop) as held:
        with_reconnect(partial(check_ids_again, project.database, project.source, day, job.model_ids))
        left_out = _find_left_out(job, day)
        for model_run in held:
            with_reconnect(partial(reset_changed_rejections, job, day, model_run.model.model_id))
        with job.for_day(day) as todays:
            model_runs = continue_runs(todays, held)
            for model_run in model_runs:
                with_reconnect(partial(_log_progress, todays, day, model_run))
            reports = _run_pipeline(todays, [day], model_runs, stop, progress, 0 if todays.takes_none else limit, trace)
        reports = _with_left_out(reports, left_out)
        for report in reports:
            with_reconnect(partial(project.run_store.close_run, report))
    return reports


def dry_run(
    job: Job,
    days: Sequence[Day],
    stop: Stop,
    progress: Progress,
    limit: int | None = None,
    trace: Trace | None = None,
) -> list[RunReport]:
    """Run a sample of the days, oldest first, without changing the database.

    Results are written to a temporary database, since a forecast must include the cost of writing.
    """
    few = DRY_RUN_CHUNKS * (job.chunk_size or FEW_IMAGES) * job.executor.num_workers
    limit = limit or max(DRY_RUN_IMAGES, few)
    left_out = "; ".join(filter(None, (_find_left_out(job, day) for day in days)))
    for day in days:
        check_ids(job.project.database, job.project.source, day, job.model_ids)
    job = job.probed(days)
    with open_dry_run_database(job.project.database) as dry_run_database:
        if dry_run_database.is_sqlite:  # each commit updates the run's row, which costs a page
            RunStore(dry_run_database).open_run(days[-1], job.models[0], DRY_RUN_ID)
        model_runs = [
            ModelRun(number, model, DRY_RUN_ID, dry_run_database, FailureBudget(job.max_rejected))
            for number, model in enumerate(job.models)
        ]
        return _with_left_out(_run_pipeline(job, days, model_runs, stop, progress, limit, trace), left_out)


def _find_left_out(job: Job, day: Day) -> str:
    """Log and return which rows of the day are left out; empty if none is."""
    text = job.project.source.find_left_out(day).text
    if text:
        log.error("%s (%s)", text, NEEDED)
    return text


def _with_left_out(reports: list[RunReport], left_out: str) -> list[RunReport]:
    """Return the reports with the rows that were left out, which are wrong settings unless something worse happened."""
    if not left_out:
        return reports
    return [replace(one, left_out=left_out, exit_code=one.exit_code or UsageError.exit_code) for one in reports]


def _run_pipeline(
    job: Job,
    days: Sequence[Day],
    model_runs: Sequence[ModelRun],
    stop: Stop,
    progress: Progress,
    limit: int | None,
    trace: Trace | None,
) -> list[RunReport]:
    """Run source, chunks, worker pool (read, decode, transform, model), outage guard, failure budgets and sinks."""
    tally, chunk_size = Tally(job.executor.num_predictors), ChunkSize(job.chunk_size)
    new_images = stop.until(islice(select_new(job, days, tally, trace), limit))
    chunks = cut_into_chunks(_skip_stopped_models(new_images, model_runs), chunk_size)
    asked = partial(_is_any_done_allowed, job, days), partial(_is_other_there, job, days[-1])
    # Closed when this day fails: the next one uses the same workers, which must have none of its chunks left.
    with (
        closing(job.executor.pool.run(chunks)) as chunk_results,
        progress.of_day(days[-1], lambda: job.count_new(days), limit) as advance,
    ):
        for result in guard_against_outages(chunk_results, job.read, *asked):
            clock = _clock(trace)
            clock.refs = result.refs if trace else ()
            with clock.time("write"):
                for model_run in model_runs:
                    model_run.commit(result)
            chunk_size.learn(result)
            tally.add(result, clock)
            advance(result)
            if trace:
                trace.add(result.worker, result.spans)
                trace.add(os.getpid(), clock.spans)
        for model_run in model_runs:
            model_run.settle()
    return [make_report(job, days[-1], model_run, tally, stop) for model_run in model_runs]


def select_new(job: Job, days: Sequence[Day], tally: Tally, trace: Trace | None) -> Iterator[NewImage]:
    """Yield the new images of all days, oldest first, and add the cost of selecting them to the tally."""
    pages = job.new_pages(days)
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


def _skip_stopped_models(new: Iterable[NewImage], model_runs: Sequence[ModelRun]) -> Iterator[NewImage]:
    """Skip the models whose failure budget is used up; `model_runs` are in the order of their numbers."""
    for image in new:
        wanted = tuple(number for number in image.model_indices if model_runs[number].stopped is None)
        if wanted:
            yield image if wanted == image.model_indices else replace(image, model_indices=wanted)
        elif all(model_run.stopped is not None for model_run in model_runs):
            return


def _log_progress(job: Job, day: Day, model_run: ModelRun) -> None:
    """Log how many of the images are done; counting takes a moment, so only if the line is shown."""
    if not log.isEnabledFor(logging.INFO):
        return
    counts = job.project.day_queries.count_day(day, model_run.model.model_id)
    done = counts.predicted + counts.rejected
    verb = "resumes" if done and counts.pending else "begins"
    values = (verb, day, f"{done:,}", f"{counts.eligible:,}", model_run.model.variant, job.executor.num_workers)
    of_model = names_and_ids([(model_run.model.name, model_run.model.model_id)])
    figures = of_model | {"run_id": model_run.run_id, "done": done, "eligible": counts.eligible}
    level = logging.INFO if counts.pending else logging.DEBUG
    log.log(level, "%s %s: %s of %s images done, %s, %d workers", *values, extra=figures)


def _is_any_done_allowed(job: Job, days: Sequence[Day]) -> bool:
    """Return whether the location of an image of the days that has a result of any model is allowed."""
    day_queries = job.project.day_queries

    def read() -> list[ImageRef]:
        stored = chain.from_iterable(
            rows(day) for day in days for rows in (day_queries.read_predictions, day_queries.read_rejections)
        )
        return [ImageRef(row["image_id"], as_location(row["location"])) for row in islice(stored, SOME_DONE)]

    done = job.project.database.with_reconnect(read)
    if not done:
        return False
    try:  # in another process, since resolving links can hang
        return len(run_in_process(refused_among, done, job.read, timeout_s=STAT_TIMEOUT_S)) < len(done)
    except InferError as error:
        raise StorageUnavailable(error.message, "is the image storage mounted? its images stay pending") from None


def _is_other_there(job: Job, day: Day, missing: str) -> bool:
    """Return whether an image of the day that was predicted, or one of the days around it, can be read."""
    near = [day.before(number) for number in (1, -1, 2, -2, 3, -3)]

    def read() -> list[str]:
        done = islice(job.project.day_queries.read_predictions(day), NEAR_IMAGES)
        pages = (next(iter(job.project.source.list_pages(one, NEAR_IMAGES)), ()) for one in near)
        return [as_location(row["location"]) for row in done] + [as_location(row[1]) for row in chain(*pages)]

    others = job.project.database.with_reconnect(read)
    try:  # in another process, since reading can hang
        return run_in_process(is_other_there, missing, others, job.read, timeout_s=STAT_TIMEOUT_S)
    except InferError:
        return False


def _clock(trace: Trace | None) -> StageClock:
    return StageClock(trace is not None, time.thread_time)  # another thread draws the progress bar
