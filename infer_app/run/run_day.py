"""Runs a day: it is held, the run is planned, the executor opened, and the results are committed chunk by chunk."""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from infer_app.base.day import Day
from infer_app.base.domain import ImageRef, NewImage
from infer_app.base.errors import EXIT_BUG, DayHeld, InferError, StorageUnavailable, as_known
from infer_app.base.read_limits import ReadLimits
from infer_app.base.run_report import RunReport
from infer_app.base.telemetry.log import bound, names_and_ids
from infer_app.base.telemetry.tally import Tally
from infer_app.predict.chunking import ChunkSize
from infer_app.predict.executors import Executor
from infer_app.predict.images.decode.formats import check_answer
from infer_app.predict.images.read.read_image import refused_among
from infer_app.predict.images.read.roots import is_other_there
from infer_app.predict.workers.isolated_call import STORAGE_TIMEOUT_S, run_in_process
from infer_app.run.files.changed_files import reset_changed_rejections
from infer_app.run.flow.attach_objects import with_stored_objects
from infer_app.run.flow.failure_budget import EarlierResults, FailureBudget
from infer_app.run.flow.flow import FlowObserver, ModelRun, run_flow
from infer_app.run.flow.outage_guard import guard_against_outages
from infer_app.run.flow.run_plan import RunPlan, plan_day
from infer_app.run.group_run import GroupRun
from infer_app.run.run_result import make_report
from infer_app.run.stop import Stop
from infer_app.tables.project_database import ProjectDatabase, read_limits
from infer_app.tables.results.runs import RunModel, new_run_id
from infer_app.tables.rows.results import Selection, read, read_rejections

log = logging.getLogger(__name__)
WAIT_S = 2.0  # between two attempts to take a day that another run holds


def run_day(group: GroupRun, day: Day, limit: int | None = None) -> list[RunReport]:
    """Predict the day's new images and write the results; return a report for each model.

    The variants are those that the day was begun in, which is asked once the day is held: no other run can begin it
    then. `limit` is a number of images. Raises DayHeld, ModelError, StorageUnavailable or DatabaseUnavailable; what was
    committed before stays.
    """
    project, loaded, first = group.project, group.loaded, group.plan
    with hold_day(project, first.models, day, group.stop, waits=loaded.run.wait) as run_ids:
        for model_id in first.model_ids:
            project.ask(reset_changed_rejections, project, loaded.path_map, day, model_id)
        if first.detector is not None and not project.count_new_of_days([day], [first.model_ids[first.detector]]):
            first = first.without_detector()
        plan = plan_day(replace(first, max_images=limit), loaded, project, day, group.executors.end_workers)
        executor = group.executors.open(plan)
        model_runs = _start_runs(group, plan, executor, day, run_ids)
        pages = project.source.select_pages(day, *plan.model_ids)
        tally = predict(group, plan, [day], pages, model_runs)
        reports = [make_report(group, day, executor, one, tally) for one in model_runs]
        for report in reports:
            project.ask(project.run_store.close_run, report)
    return reports


def predict(
    group: GroupRun,
    plan: RunPlan,
    days: Sequence[Day],
    pages: Iterator[Sequence[NewImage]],
    model_runs: Sequence[ModelRun],
) -> Tally:
    """Predict the images of the pages by the plan, and return what it cost."""
    project, executor, limits = group.project, group.executors.open(plan), read_limits(group.loaded)
    others = OtherImages(project, days, limits)
    guard = partial(
        guard_against_outages,
        limits=limits,
        is_any_done_allowed=others.is_any_done_allowed,
        is_other_there=others.is_other_there,
    )
    count = partial(project.count_new_of_days, days, plan.model_ids)
    tally = Tally(executor.num_predictors)
    with group.progress.of_day(days[-1], count, plan.max_images) as advance:
        observer = FlowObserver(tally, advance)
        new = group.stop.until(islice(observer.select(pages), plan.max_images))
        if plan.detector is not None:
            new = group.stop.until(with_stored_objects(new, project, plan, model_runs, observer))
        size = ChunkSize(executor.limit_chunk(group.loaded.run.chunk_size), executor.least_chunk)
        working = [one for one in model_runs if not plan.executions[one.number].is_idle]
        run_flow(new, executor.pool, guard, working, size, observer)
    return tally


def _start_runs(group: GroupRun, plan: RunPlan, executor: Executor, day: Day, run_ids: Sequence[str]) -> list[ModelRun]:
    """Record how the runs that hold the day predict it."""
    project, model_runs = group.project, list[ModelRun]()
    for number, (model, run_id) in enumerate(zip(plan.models, run_ids, strict=True)):
        project.ask(project.run_store.start_run, run_id, model, executor.name, executor.device)
        budget = FailureBudget(group.loaded.run, partial(_read_earlier, project, day, model.model_id, run_id))
        model_runs.append(ModelRun(number, model, run_id, project.database, budget, project.source.registered))
        _log_progress(project, day, model_runs[-1], executor.num_workers)
    return model_runs


def _read_earlier(project: ProjectDatabase, day: Day, model_id: str, run_id: str) -> EarlierResults:
    return EarlierResults(*project.ask(project.count_of_other_runs, day, model_id, run_id))


def _log_progress(project: ProjectDatabase, day: Day, model_run: ModelRun, num_workers: int) -> None:
    """Log how many of the images are done; counting takes a moment, so only if the line is shown."""
    if not log.isEnabledFor(logging.INFO):
        return
    model = model_run.model
    counts = project.ask(project.count_day, day, model.model_id)
    done = counts.predicted + counts.rejected
    verb = "resumes" if done and counts.pending else "begins"
    values = (verb, day, f"{done:,}", f"{counts.eligible:,}", model.variant, num_workers)
    of_model = names_and_ids([(model.name, model.model_id)])
    figures = of_model | {"run_id": model_run.run_id, "done": done, "eligible": counts.eligible}
    level = logging.INFO if counts.pending else logging.DEBUG
    log.log(level, "%s %s: %s of %s images done, %s, %d workers", *values, extra=figures)


@contextmanager
def hold_day(
    project: ProjectDatabase, models: Sequence[RunModel], day: Day, stop: Stop, *, waits: bool
) -> Iterator[list[str]]:
    """Take the lease of a day for every model, and renew the leases until the end; yield the runs' ids.

    Each run has a row in infer_runs, whose state is failed if the run fails. `waits`: for a run that holds the day now.
    Raises DayHeld.
    """
    run_ids: dict[str, str] = {}
    run_store = project.run_store
    try:
        with ExitStack() as leases:
            # In the order of their ids: two runs that wait can't each hold what the other one waits for.
            for model in sorted(models, key=lambda model: model.model_id):
                run_id = _open_run(project, day, model, stop if waits else None)
                run_ids[model.model_id] = run_id
                leases.enter_context(run_store.lease_renewal([run_id]))  # taking the next lease may wait
            in_order = [run_ids[model.model_id] for model in models]
            leases.enter_context(bound(date=str(day), run_id=", ".join(in_order)))
            yield in_order
    except BaseException as error:
        known = as_known(error)
        text = known.message if known else f"{type(error).__name__}: {error}"
        for run_id in run_ids.values():
            run_store.fail_run(run_id, known.exit_code if known else EXIT_BUG, text)
        raise


def _open_run(project: ProjectDatabase, day: Day, model: RunModel, stop: Stop | None) -> str:
    """Open a run that holds the day and return its id; with a `stop`, wait for the run that holds it now."""
    is_logged, run_id = False, new_run_id()
    while True:
        try:
            return project.ask(project.run_store.open_run, day, model, run_id)
        except DayHeld as held:
            if stop is None:
                raise
            stop.check(held)
            if not is_logged:
                log.info("waiting: %s", held)
                is_logged = True
            time.sleep(WAIT_S)


SOME_DONE = 200  # images with results whose locations are checked if no other location is allowed
NEAR_IMAGES = 20  # of each of some days that are read if images of a day are missing


@dataclass(frozen=True, slots=True)
class OtherImages:
    """Images of the days of a run, and of the days around the last one."""

    project: ProjectDatabase
    days: Sequence[Day]
    limits: ReadLimits

    def is_any_done_allowed(self) -> bool:
        """Return whether the location of an image of the days that has a result of any model is allowed."""
        done = self.project.ask(lambda: list(islice(self._done(), SOME_DONE)))
        if not done:
            return False
        try:  # in another process, since resolving links can hang
            return len(run_in_process(refused_among, done, self.limits, timeout_s=STORAGE_TIMEOUT_S)) < len(done)
        except InferError as error:
            raise StorageUnavailable(error.message, "is the image storage mounted? its images stay pending") from None

    def is_other_there(self, missing: str) -> bool | None:
        """Return whether an image predicted that day, or of days around it, can be read; None: no other is known."""
        others = self.project.ask(lambda: list(self._near()))
        try:  # in another process, since reading can hang
            return run_in_process(
                is_other_there, missing, others, self.limits, check_answer, timeout_s=STORAGE_TIMEOUT_S
            )
        except InferError:
            return False

    def _done(self) -> Iterator[ImageRef]:
        for day in self.days:
            predicted, rejected = read(self.project, day, Selection()), read_rejections(self.project, day)
            yield from (ImageRef(one.image_id, one.location) for one in predicted)
            yield from (ImageRef(one.image_id, one.location) for one in rejected)

    def _near(self) -> Iterator[str]:
        day = self.days[-1]
        for one in islice(read(self.project, day, Selection()), NEAR_IMAGES):
            yield one.location
        for number in (1, -1, 2, -2, 3, -3):
            page = next(iter(self.project.source.list_pages(day.before(number), NEAR_IMAGES)), ())
            yield from (row[1] for row in page)
