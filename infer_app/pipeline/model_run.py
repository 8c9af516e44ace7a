"""One model's part of a run over a day: its row in infer_runs, its failure budget, its sink and its report."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from infer_app.database.engine.connect import Database
from infer_app.database.results.runs import RunModel, new_run_id
from infer_app.database.results.sink import Sink
from infer_app.day import Day
from infer_app.domain import ChunkResult, RunReport
from infer_app.errors import EXIT_BUG, EXIT_TOO_MANY_REJECTED, DayHeld, InferError
from infer_app.pipeline.executors import Executor
from infer_app.pipeline.failure_budget import FailureBudget
from infer_app.pipeline.job import Job
from infer_app.pipeline.stop import Stop
from infer_app.settings.sections import rejection_budget
from infer_app.telemetry.bottleneck import Cost, advise, find_bottleneck, rate_limits
from infer_app.telemetry.log import bound
from infer_app.telemetry.tally import Tally

log = logging.getLogger(__name__)

WAIT_S = 2.0  # between two attempts to take a day that another run holds


class ModelRun:
    """Writes a model's results and counts its predictions and rejections."""

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
        """Return the reason why no more of its images should be run, or None."""
        return self._budget.stopped

    def commit(self, result: ChunkResult) -> None:
        """Write the part of the model's results of a chunk that the failure budget admits."""
        self._write(self._budget.admit(result.of_model(self.number)))

    def settle(self) -> None:
        """Write at the end of the day the results that were held until then."""
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


@contextmanager
def hold_day(job: Job, day: Day, stop: Stop) -> Iterator[list[ModelRun]]:
    """Take the lease of a day for every model of the job, and renew the leases until the end.

    Each run has a row in infer_runs, whose state is failed if the run fails. Raises DayHeld.
    """
    model_runs: list[ModelRun] = []
    database, run_store = job.project.database, job.project.run_store
    try:
        with ExitStack() as leases:
            # In the order of their ids: two runs that wait can't each hold what the other one waits for.
            for number, model in sorted(enumerate(job.models), key=lambda one: one[1].model_id):
                run_id = _open_run(job, day, model, stop)
                model_runs.append(ModelRun(number, model, run_id, database, job.max_rejected))
                leases.enter_context(run_store.lease_renewal([run_id]))  # taking the next lease may wait
            model_runs.sort(key=lambda model_run: model_run.number)
            leases.enter_context(bound(date=str(day), run_id=", ".join(one.run_id for one in model_runs)))
            yield model_runs
    except BaseException as error:
        exit_code = error.exit_code if isinstance(error, InferError) else EXIT_BUG
        for model_run in model_runs:
            run_store.fail_run(model_run.run_id, exit_code, _as_text(error))
        raise


def _open_run(job: Job, day: Day, model: RunModel, stop: Stop) -> str:
    """Open a run that holds the day and return its id; if the job waits, wait for the run that holds it now."""
    is_logged, run_id = False, new_run_id()
    open_run = partial(job.project.run_store.open_run, day, model, job.executor.name, job.executor.device, run_id)
    while True:
        try:
            return job.project.database.with_reconnect(open_run)
        except DayHeld as held:
            if not job.waits:
                raise
            stop.check(held)
            if not is_logged:
                log.info("waiting: %s", held)
                is_logged = True
            time.sleep(WAIT_S)


def _as_text(error: BaseException) -> str:
    return str(error) if isinstance(error, InferError) else f"{type(error).__name__}: {error}"


def make_report(job: Job, day: Day, model_run: ModelRun, tally: Tally, stop: Stop) -> RunReport:
    """Return the report of one model. Its day's counts are read from the database."""
    seconds, steady = tally.seconds, tally.steady_images_per_second
    cost = _cost(job.executor, tally)
    rates = rate_limits(cost)
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
        limited_by=find_bottleneck(cost),
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
