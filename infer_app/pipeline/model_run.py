"""One model's part of a run over a day: its row in infer_runs, its failure budget, its sink and its report."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from infer_app.database.engine.connect import Database
from infer_app.database.listing.recorded_sources import SourceIdentity, record_source
from infer_app.database.results.runs import RunModel, new_run_id
from infer_app.database.results.sink import Sink
from infer_app.day import Day
from infer_app.domain import TRANSIENT_REASONS, Broken, ChunkResult, ReasonFact
from infer_app.errors import EXIT_BUG, EXIT_TOO_MANY_REJECTED, DayHeld, as_known
from infer_app.pipeline.executors import Executor
from infer_app.pipeline.job import Job
from infer_app.pipeline.stop import Stop
from infer_app.run_report import RunReport
from infer_app.settings.sections import rejection_budget
from infer_app.telemetry.bottleneck import Cost, advise, find_bottleneck, judged, rank, rate_limits
from infer_app.telemetry.log import bound, names_and_ids
from infer_app.telemetry.tally import Tally

log = logging.getLogger(__name__)

WAIT_S = 2.0  # between two attempts to take a day that another run holds
PROBATION_IMAGES = 300  # a share of a few percent can't be estimated from fewer
FEW_FAILURES = 10  # so many may be the images' fault, whatever share that is, if most images succeed
FEW_ALIKE = 3  # so many files that are refused alike are their own fault, even if nothing else is there
MOST = 0.5  # of a day's images
_ANY_NUMBER = 10**9


@dataclass(slots=True)
class _Probation:
    """Failures that are held, and the number of images since the first of them."""

    failures: list[Broken] = field(default_factory=list)
    num_since: int = 0

    def add(self, failures: Sequence[Broken], num_images: int) -> None:
        self.failures += failures
        self.num_since += num_images if self.failures else 0

    @property
    def is_over(self) -> bool:
        return self.num_since >= PROBATION_IMAGES


class FailureBudget:
    """Decides which of one model's failures on one day may be rejected, and stops a day that rejects too many images.

    A failure of the model or of the preprocess function may not be the image's fault, nor what is found in a file that
    a decoder refuses. Such failures are held until enough images have been processed, or to the end of the day. If the
    model failed on most of these, or if most images of the day are refused for one reason, it is one fault: none of
    them is rejected, the run ends with exit code 3, and the images stay pending.
    """

    def __init__(self, max_rejected: str, count_predicted: Callable[[], int] = int) -> None:
        """Take `max_rejected` as in the settings: "5%" (at least 10) or "25".

        `count_predicted` returns how many images of the day have a prediction, of this run or an earlier one.
        """
        self.stopped: str | None = None  # why no more images should be taken
        self._max_rejected = max_rejected
        self._count_predicted = count_predicted
        self._share = rejection_budget(max_rejected, _ANY_NUMBER) / _ANY_NUMBER
        self._num_images = 0
        self._num_counted = 0  # rejections that are not retried automatically
        self._of_model = _Probation()
        self._of_files = _Probation()

    def admit(self, result: ChunkResult) -> Iterator[ChunkResult]:
        """Yield what may be written by now; images that are never yielded stay pending."""
        of_model = [broken for broken in result.broken if broken.may_be_models_fault]
        final = [broken for broken in result.broken if not broken.may_be_models_fault and _is_final(broken)]
        self._num_images += result.num_images
        self._num_counted += len(of_model) + len(final)
        if self._num_images >= PROBATION_IMAGES and self._num_counted > self._allowed(self._num_images):
            yield from self._settle_files()
            failed, self._of_model = [*self._of_model.failures, *of_model], _Probation()
            what = f"{self._num_counted:,} of {self._num_images:,} images were rejected or failed"
            self._stop(f"{what}, more than --max-rejected {self._max_rejected} allows", failed)
        if self.stopped is not None:
            yield _without(result, [*of_model, *final])
            return
        of_files = [broken for broken in final if ReasonFact.IN_CONTENT in broken.reason.facts]
        yield _without(result, [*of_model, *of_files])
        self._of_model.add(of_model, result.num_images)
        self._of_files.add(of_files, result.num_images)
        if self._of_model.is_over:
            yield from self._settle_model()
        if self._of_files.is_over:
            yield from self._settle_files()

    def settle(self) -> Iterator[ChunkResult]:
        """Yield the failures on probation if they are the images' fault; otherwise stop."""
        yield from self._settle_model()
        yield from self._settle_files()

    def _settle_model(self) -> Iterator[ChunkResult]:
        held, self._of_model = self._of_model, _Probation()
        if self._is_models_fault(len(held.failures), held.num_since):
            what = f"{len(held.failures):,} of {held.num_since:,} images failed in the model or its preprocessing"
            self._stop(what, held.failures)
        else:
            yield ChunkResult(0, (), tuple(held.failures))

    def _settle_files(self) -> Iterator[ChunkResult]:
        held, self._of_files = self._of_files.failures, _Probation()
        counts = Counter(broken.reason for broken in held)
        one_fault = {reason for reason, count in counts.items() if self._is_decoders_fault(count)}
        for reason in sorted(one_fault):
            what = f"{counts[reason]:,} of {self._num_images:,} images are {reason}, which may be one fault"
            hint = "; if these files are broken, reject them by --max-rejected 100%"
            self._stop(what, [broken for broken in held if broken.reason is reason], hint)
        yield ChunkResult(0, (), tuple(broken for broken in held if broken.reason not in one_fault))

    def _is_models_fault(self, num_failed: int, num_since: int) -> bool:
        """Return whether so many failures are a fault of the model: more than the day or its last part may have."""
        if self._share >= 1:
            return False
        few = FEW_FAILURES if 2 * num_failed < self._num_images else 1
        return num_failed > max(few, num_since // 2) or num_failed > self._allowed(self._num_images)

    def _is_decoders_fault(self, num_alike: int) -> bool:
        """Return whether most images of the run are refused alike, and most of its day, of which it may be the rest."""
        most = num_alike > max(FEW_ALIKE, max(MOST, self._share) * self._num_images)
        return most and num_alike > self._count_predicted()

    def _allowed(self, num_images: int) -> int:
        return max(FEW_FAILURES, rejection_budget(self._max_rejected, num_images))

    def _stop(self, why: str, failed: Sequence[Broken], hint: str = "") -> None:
        example = f" (the last: {failed[-1].detail}; none was rejected for it{hint})" if failed else ""
        self.stopped = self.stopped or f"{why}: the rest stays pending{example}"


def _is_final(broken: Broken) -> bool:
    return broken.reason not in TRANSIENT_REASONS


def _without(result: ChunkResult, left_out: Sequence[Broken]) -> ChunkResult:
    if not left_out:
        return result
    out = frozenset(left_out)
    return replace(result, broken=tuple(broken for broken in result.broken if broken not in out))


class ModelRun:
    """Writes a model's results and counts its predictions and rejections."""

    def __init__(self, number: int, model: RunModel, run_id: str, database: Database, budget: FailureBudget) -> None:
        self.number = number  # of the model, among the job's
        self.model = model
        self.run_id = run_id
        self.predicted = 0
        self.nearly_black = 0
        self.reasons: Counter[str] = Counter()
        self._sink = Sink(database, model.model_id, model.variant, run_id)
        self.budget = budget

    @property
    def rejected(self) -> int:
        return self.reasons.total()

    @property
    def selected(self) -> int:
        return self.predicted + self.rejected

    @property
    def stopped(self) -> str | None:
        """Return the reason why no more of its images should be run, or None."""
        return self.budget.stopped

    def commit(self, result: ChunkResult) -> None:
        """Write the part of the model's results of a chunk that the failure budget admits."""
        own = result.of_model(self.number)
        self.nearly_black += own.num_dim
        self._write(self.budget.admit(own))

    def settle(self) -> None:
        """Write at the end of the day the results that were held until then."""
        self._write(self.budget.settle())

    def _write(self, admitted: Iterable[ChunkResult]) -> None:
        was_stopped = self.stopped is not None
        for result in admitted:
            if result.num_images:
                written = self._sink.commit_chunk(result)
                self.predicted += len(written.predictions)
                self.reasons.update(broken.reason.value for broken in written.broken)
        if self.stopped and not was_stopped:
            of_model = names_and_ids([(self.model.name, self.model.model_id)])
            log.error("%s: %s", self.model.name, self.stopped, extra=of_model)


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
                budget = FailureBudget(job.max_rejected, partial(_count_predicted, job, day, model))
                model_runs.append(ModelRun(number, model, run_id, database, budget))
                leases.enter_context(run_store.lease_renewal([run_id]))  # taking the next lease may wait
            model_runs.sort(key=lambda model_run: model_run.number)
            leases.enter_context(bound(date=str(day), run_id=", ".join(one.run_id for one in model_runs)))
            yield model_runs
    except BaseException as error:
        known = as_known(error)
        text = known.message if known else f"{type(error).__name__}: {error}"
        for model_run in model_runs:
            run_store.fail_run(model_run.run_id, known.exit_code if known else EXIT_BUG, text)
        raise


def _count_predicted(job: Job, day: Day, model: RunModel) -> int:
    day_queries = job.project.day_queries
    return job.project.database.with_reconnect(lambda: day_queries.count_day(day, model.model_id)).predicted


def continue_runs(job: Job, held: Sequence[ModelRun]) -> list[ModelRun]:
    """Return the runs that hold a day as runs of the job's variants, and record these in their rows."""
    return [_continued(job, model_run, model) for model_run, model in zip(held, job.models, strict=True)]


def _continued(job: Job, held: ModelRun, model: RunModel) -> ModelRun:
    start = partial(job.project.run_store.start_run, held.run_id, model, job.executor.name, job.executor.device)
    job.project.database.with_reconnect(start)
    return ModelRun(held.number, model, held.run_id, job.project.database, held.budget)


def _open_run(job: Job, day: Day, model: RunModel, stop: Stop) -> str:
    """Open a run that holds the day and return its id; if the job waits, wait for the run that holds it now."""
    is_logged, run_id = False, new_run_id()
    source = job.project.source
    source_id = record_source(job.project.database, SourceIdentity.of(source, job.project.database), source.base)
    open_run = partial(job.project.run_store.open_run, day, model, run_id, source_id)
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


def make_report(job: Job, day: Day, model_run: ModelRun, tally: Tally, stop: Stop) -> RunReport:
    """Return the report of one model. Its day's counts are read from the database."""
    seconds, steady = tally.seconds, tally.steady_images_per_second
    cost = _cost(job.executor, tally)
    rates = rate_limits(cost)
    limit = min(rates.values(), default=None)
    alternatives = rank(cost, job.alternatives)
    too_many = model_run.stopped is not None or model_run.rejected > rejection_budget(
        job.max_rejected, model_run.selected
    )
    report = RunReport(
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
        advice=advise(alternatives),
        alternatives=alternatives,
        num_cores=job.executor.num_cores,
        num_workers=job.executor.num_workers + bool(job.executor.device_stages),
        passed_over=model_run.model.passed_over,
        nodes=tally.nodes(),
        stopped=model_run.stopped,
        nearly_black=model_run.nearly_black,
    )
    return judged(report)


def _cost(executor: Executor, tally: Tally) -> Cost:
    device_ms = {stage: ms for stage, ms in tally.wall_ms().items() if stage in executor.device_stages}
    return Cost(
        tally.cpu_ms(), tally.wait_ms(), executor.num_cores, executor.num_workers, executor.num_threads, device_ms
    )
