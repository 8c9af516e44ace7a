"""One model's part of a run over a day: its row in infer_runs, its failure budget and its sink."""

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
from infer_app.domain import ChunkResult
from infer_app.errors import EXIT_BUG, DayHeld, InferError
from infer_app.pipeline.failure_budget import FailureBudget
from infer_app.pipeline.job import Job
from infer_app.pipeline.stop import Stop
from infer_app.telemetry.log import bound

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
