"""The main loop: a day's new images through the executor into the database."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from itertools import chain, islice

from infer_app.database.engine.connect import Database
from infer_app.database.listing.source_checks import check_ids
from infer_app.database.results.dry_run_database import open_dry_run_database
from infer_app.database.results.runs import RunModel, RunStore, new_run_id
from infer_app.database.results.sink import Sink
from infer_app.day import Day
from infer_app.domain import ChunkResult, ImageRef, NewImage, RunReport
from infer_app.errors import EXIT_BUG, EXIT_TOO_MANY_REJECTED, DayHeld, InferError, ModelError, StorageUnavailable
from infer_app.executors import Executor
from infer_app.images.read.read_image import refused_among, stat_all
from infer_app.locations import as_location, is_local
from infer_app.pipeline.chunking import FEW_IMAGES, ChunkSize, cut_into_chunks
from infer_app.pipeline.failure_budget import FailureBudget
from infer_app.pipeline.job import Job
from infer_app.pipeline.outage_guard import guard_against_outages
from infer_app.pipeline.stop import Stop
from infer_app.settings.sections import rejection_budget
from infer_app.telemetry.bottleneck import Cost, advise, limiting_stage, limits
from infer_app.telemetry.log import bound
from infer_app.telemetry.progress import Progress
from infer_app.telemetry.stage_clock import StageClock
from infer_app.telemetry.tally import Tally
from infer_app.telemetry.trace import Trace
from infer_app.workers.isolated_call import run_in_process

log = logging.getLogger(__name__)

DRY_RUN_IMAGES = 256
DRY_RUN_CHUNKS = 8  # of each worker, at least; the first is cold
DRY_RUN_ID = "dry-run"
FILES_AT_ONCE = 5000  # rejected files that are looked at by one process
LOOK_LIMIT_S = 30.0  # for so many
SOME_DONE = 200  # images whose locations are looked at where no other's is allowed
WAIT_S = 2.0  # between two looks at a day that is held


def run_day(
    job: Job, day: Day, stop: Stop, progress: Progress, limit: int | None = None, trace: Trace | None = None
) -> list[RunReport]:
    """Predicts the day's new images and writes the results: a row in infer_runs for each model, whatever happens.

    Raises DayHeld, ModelError, StorageUnavailable or DatabaseUnavailable; what was committed before stays.
    """
    run_store, model_runs, with_reconnect = job.project.run_store, list[ModelRun](), job.project.database.with_reconnect
    try:
        with ExitStack() as held:
            # In one order whatever the command's: two runs that wait can't each hold what the other waits for.
            for number, model in sorted(enumerate(job.models), key=lambda one: one[1].model_id):
                run_id = _take_day(job, day, model, stop)
                model_runs.append(ModelRun(number, model, run_id, job.project.database, job.max_rejected))
                held.enter_context(run_store.lease_renewal([model_runs[-1].run_id]))  # the next one may be waited for
            model_runs.sort(key=lambda model_run: model_run.number)
            held.enter_context(bound(date=str(day), run_id=", ".join(model_run.run_id for model_run in model_runs)))
            with_reconnect(lambda: check_ids(job.project.source, day))
            for model_run in model_runs:
                with_reconnect(partial(forget_changed, job, day, model_run.model.model_id))
                with_reconnect(partial(_say_what_is_done, job, day, model_run))
            reports = _flow(job, [day], model_runs, stop, progress, limit, trace)
            for report in reports:
                with_reconnect(partial(run_store.close_run, report))
    except BaseException as error:
        exit_code = error.exit_code if isinstance(error, InferError) else EXIT_BUG
        for model_run in model_runs:
            run_store.fail_run(model_run.run_id, exit_code, _in_words(error))
        raise
    return reports


def _take_day(job: Job, day: Day, model: RunModel, stop: Stop) -> str:
    """The id of a new run that holds the day; waits for the one that holds it now if the job is to."""
    is_told, run_id = False, new_run_id()
    open_run = partial(job.project.run_store.open_run, day, model, job.executor.name, job.executor.device, run_id)
    while True:
        try:
            return job.project.database.with_reconnect(open_run)
        except DayHeld as held:
            if not job.waits:
                raise
            stop.check(held)
            if not is_told:
                log.info("waiting: %s", held)
                is_told = True
            time.sleep(WAIT_S)


def _say_what_is_done(job: Job, day: Day, model_run: ModelRun) -> None:
    """Only where it is heard: counting takes a moment."""
    if not log.isEnabledFor(logging.INFO):
        return
    counts = job.project.day_queries.count_day(day, model_run.model.model_id)
    done = counts.predicted + counts.rejected
    verb = "resumes" if done and counts.pending else "begins"
    told = (verb, day, f"{done:,}", f"{counts.eligible:,}", model_run.model.variant, job.executor.num_workers)
    figures = {"model": model_run.model.name, "run_id": model_run.run_id, "done": done, "eligible": counts.eligible}
    level = logging.INFO if counts.pending else logging.DEBUG
    log.log(level, "%s %s: %s of %s images done, %s, %d workers", *told, extra=figures)


def dry_run(
    job: Job,
    days: Sequence[Day],
    stop: Stop,
    progress: Progress,
    limit: int | None = None,
    trace: Trace | None = None,
) -> list[RunReport]:
    """All of it on a sample of the days, oldest first; what is written is thrown away, and the database stays as it is.

    Not a byte of it changes: writing is rehearsed elsewhere, since a forecast without its cost would be too early.
    """
    few = DRY_RUN_CHUNKS * (job.chunk_size or FEW_IMAGES) * job.executor.num_workers
    limit = limit or max(DRY_RUN_IMAGES, few)
    job = job.probed(days)
    with open_dry_run_database(job.project.database) as rehearsal:
        if rehearsal.is_sqlite:  # every commit counts in the run's row: without one it would write a page less
            RunStore(rehearsal).open_run(days[-1], job.models[0], job.executor.name, job.executor.device, DRY_RUN_ID)
        model_runs = [
            ModelRun(number, model, DRY_RUN_ID, rehearsal, job.max_rejected) for number, model in enumerate(job.models)
        ]
        return _flow(job, days, model_runs, stop, progress, limit, trace)


def _flow(
    job: Job,
    days: Sequence[Day],
    model_runs: Sequence[ModelRun],
    stop: Stop,
    progress: Progress,
    limit: int | None,
    trace: Trace | None,
) -> list[RunReport]:
    """source → executor (read, decode, transform, collate, model, outputs) → failure budget → sink."""
    tally, chunk_size = Tally(job.executor.num_predictors), ChunkSize(job.chunk_size)
    new = islice(select_new(job, days, tally, trace), limit)
    chunks = cut_into_chunks(_still_wanted(stop.until(new), model_runs), chunk_size)
    with progress.of_day(days[-1], lambda: _count_new(job, days), limit) as advance:
        for result in guard_against_outages(
            job.executor.run(chunks), job.read, partial(_is_any_done_allowed, job, days)
        ):
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
    return [_report(job, days[-1], model_run, tally, stop) for model_run in model_runs]


def _still_wanted(new: Iterable[NewImage], model_runs: Sequence[ModelRun]) -> Iterator[NewImage]:
    """Leave out the models that were stopped; `model_runs` are in the order of their numbers."""
    for image in new:
        wanted = tuple(number for number in image.models if model_runs[number].stopped is None)
        if wanted:
            yield image if wanted == image.models else replace(image, models=wanted)
        elif all(model_run.stopped is not None for model_run in model_runs):
            return


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
        return len(run_in_process(refused_among, done, job.read, timeout_s=LOOK_LIMIT_S)) < len(done)
    except InferError as error:
        raise StorageUnavailable(error.message, "is the image storage mounted? its images stay pending") from None


def _count_new(job: Job, days: Sequence[Day]) -> int:
    day_queries = job.project.day_queries
    return job.project.database.with_reconnect(lambda: sum(day_queries.count_new(day, *job.model_ids) for day in days))


class ModelRun:
    """One model's share of a run: where its results go, and what became of its images."""

    def __init__(self, number: int, model: RunModel, run_id: str, database: Database, max_rejected: str) -> None:
        self.number = number  # of the model, among the job's
        self.model = model
        self.run_id = run_id
        self.predicted = 0
        self.reasons: Counter[str] = Counter()
        self._sink = Sink(database, model.model_id, model.variant, run_id)
        self._budget = FailureBudget(max_rejected)

    @property
    def rejected(self) -> int:
        return self.reasons.total()

    @property
    def selected(self) -> int:
        return self.predicted + self.rejected

    @property
    def stopped(self) -> str | None:
        """Why no more of its images should be taken; None while they should."""
        return self._budget.stopped

    def commit(self, result: ChunkResult) -> None:
        """Write what the failure budget admits of the model's share of a chunk."""
        self._write(self._budget.admit(result.of_model(self.number)))

    def settle(self) -> None:
        """Write at the end of the day what was kept back until then."""
        self._write(self._budget.settle())

    def _write(self, admitted: Iterable[ChunkResult]) -> None:
        was_stopped = self.stopped is not None
        for result in admitted:
            if result.num_images:
                written = self._sink.commit_chunk(result)
                self.predicted += len(written.predictions)
                self.reasons.update(broken.reason.value for broken in written.broken)
        if self.stopped and not was_stopped:
            log.error("%s: %s", self.model.name, self.stopped)


def select_new(job: Job, days: Sequence[Day], tally: Tally, trace: Trace | None) -> Iterator[NewImage]:
    """The new images of all days, oldest first; the tally learns what selecting them takes."""
    pages = chain.from_iterable(job.project.source.select_pages(day, *job.model_ids) for day in days)
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


def forget_changed(job: Job, day: Day, model_id: str) -> int:
    """Make final rejections pending again whose file is no longer the one that was rejected.

    The files are looked at by another process: storage that does not answer holds a process that no signal ends.
    """
    day_queries = job.project.day_queries
    changed: list[str] = []
    try:
        with closing(day_queries.final_rejections(day, model_id)) as stored:  # an open read keeps SQLite's writers out
            rejections = (one for one in stored if is_local(one.location))
            while some := list(islice(rejections, FILES_AT_ONCE)):
                locations = [rejected.location for rejected in some]
                files = run_in_process(stat_all, locations, job.read.path_map, timeout_s=LOOK_LIMIT_S)
                changed += [
                    rejected.image_id
                    for rejected, now in zip(some, files, strict=True)
                    if now.size is not None and rejected.differs(now)
                ]
    except ModelError:
        log.warning("rejected images of %s were not looked at again: their storage does not answer", day)
    return day_queries.forget_rejections(changed, model_id)


def _report(job: Job, day: Day, model_run: ModelRun, tally: Tally, stop: Stop) -> RunReport:
    seconds, steady = tally.seconds, tally.steady_images_per_second
    cost = _cost(job.executor, tally)
    rates = limits(cost)
    limit = min(rates.values(), default=None)
    too_many = model_run.stopped is not None or model_run.rejected > rejection_budget(
        job.max_rejected, model_run.selected
    )
    return RunReport(
        date=day.date,
        model=model_run.model.name,
        model_id=model_run.model.model_id,
        variant=model_run.model.variant,
        run_id=model_run.run_id,
        executor=job.executor.name,
        device=job.executor.device,
        selected=model_run.selected,
        predicted=model_run.predicted,
        rejected=model_run.rejected,
        reasons=dict(sorted(model_run.reasons.items())),
        day=job.project.database.with_reconnect(
            lambda: job.project.day_queries.count_day(day, model_run.model.model_id)
        ),
        seconds=seconds,
        images_per_second=model_run.selected / seconds,
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
        num_workers=job.executor.num_workers + bool(job.executor.device_stages),
        passed_over=model_run.model.passed_over,
        nodes=tally.nodes(),
        stopped=model_run.stopped,
    )


def _cost(executor: Executor, tally: Tally) -> Cost:
    device_ms = {stage: ms for stage, ms in tally.wall_ms().items() if stage in executor.device_stages}
    return Cost(
        tally.cpu_ms(), tally.wait_ms(), executor.num_cores, executor.num_workers, executor.num_threads, device_ms
    )


def _in_words(error: BaseException) -> str:
    return str(error) if isinstance(error, InferError) else f"{type(error).__name__}: {error}"
