"""How a run ended: the report of a day, the result of a model over its days, the summary of all models."""

from dataclasses import asdict, dataclass
from datetime import date

from infer_app.base.day import Day
from infer_app.base.errors import EXIT_TOO_MANY_REJECTED, InferError, UsageError, most_severe
from infer_app.base.run_report import ModelOutcome, RunReport, Verdict
from infer_app.base.telemetry.bottleneck import Cost, find_bottleneck, rate_limits, with_bottleneck
from infer_app.base.telemetry.summary_line import Forecast
from infer_app.base.telemetry.tally import Tally
from infer_app.predict.executors import Executor
from infer_app.run.flow.flow import ModelRun
from infer_app.run.group_run import GroupRun
from infer_app.tables.day.notices import is_too_many
from infer_app.tables.queries.day_objects import count_day_objects
from infer_app.tables.queries.pending_images import PendingDays


@dataclass(frozen=True, slots=True)
class ModelResult:
    """The reports and the exit code of one model in a run over several days."""

    reports: list[RunReport]  # of each day that was run, oldest first
    late: list[RunReport]  # of the days run after them, for images that were registered late
    older: PendingDays | None  # with pending images, before those
    rest: Forecast | None  # for the images that an early end left pending
    exit_code: int
    day_state: Verdict  # of the last day
    all_late_tried: bool  # neither an early end nor another run kept it from a late day

    @property
    def last(self) -> RunReport:
        return self.reports[-1]

    @property
    def outcome(self) -> ModelOutcome:
        reports, late_pending = [*self.late, *self.reports], sum(report.day.pending for report in self.late)
        older = max(0, self.num_older - late_pending)  # which are among those
        return ModelOutcome(self.last.model, self.exit_code, reports, older, self.day_state)

    @property
    def num_older(self) -> int:
        return self.older.num_images if self.older else 0

    def to_json(self) -> dict[str, object]:
        more = {
            "exit_code": self.exit_code,
            "lookback": [report.to_json() for report in self.reports[:-1]],
            "late": [report.to_short_json() for report in self.late],  # may be years
            "older_pending": self.num_older,
            "older_pending_dates": [str(self.older.first), str(self.older.last)] if self.older else None,
            "forecast": asdict(self.rest) if self.rest else None,
            "day_state": asdict(self.day_state),
        }
        return self.last.to_json() | more


@dataclass(frozen=True, slots=True)
class FailedModel:
    """Why one of several models was not run."""

    name: str
    error: InferError

    @property
    def outcome(self) -> ModelOutcome:
        return ModelOutcome(self.name, self.error.exit_code)

    def to_json(self) -> dict[str, object]:
        reason = {"error": str(self.error), "hint": self.error.hint}
        return {"model": self.name, "exit_code": self.error.exit_code} | reason


@dataclass(frozen=True, slots=True)
class RunSummary:
    """How a run over several models and days ended."""

    results: list[ModelResult]  # at least one
    failures: list[FailedModel]
    nearest: date | None  # the nearest day with images, if the last day has none
    num_hidden: int = 0  # pictures in a column that have the id and time of another one: none is predicted

    @property
    def outcomes(self) -> list[ModelOutcome]:
        """Return those of all models, also of those that were not started."""
        return [one.outcome for one in self.results] + [one.outcome for one in self.failures]

    @property
    def exit_code(self) -> int:
        return most_severe([one.exit_code for one in self.outcomes] + [UsageError.exit_code] * bool(self.num_hidden))

    def to_json(self) -> dict[str, object]:
        """Return what `infer run --json` prints: the first model's figures, and all models if there are several."""
        models = [result.to_json() for result in self.results] + [failure.to_json() for failure in self.failures]
        several = {"models": models} if len(models) > 1 else {}
        return self.results[0].to_json() | {"exit_code": self.exit_code} | several


def make_report(group: GroupRun, day: Day, executor: Executor, model_run: ModelRun, tally: Tally) -> RunReport:
    """Return the report of one model. Its day's counts are read from the database."""
    project, model, max_rejected = group.project, model_run.model, group.loaded.run.max_rejected
    seconds, steady = tally.seconds, tally.steady_images_per_second
    device_ms = {stage: ms for stage, ms in tally.wall_ms().items() if stage in executor.device_stages}
    servers = (executor.num_cores, executor.num_workers, executor.handler.num_threads)
    cost = Cost(tally.cpu_ms(), tally.wait_ms(), *servers, device_ms, max(1, executor.num_devices))
    rates = rate_limits(cost)
    limit = min(rates.values(), default=None)
    too_many = model_run.budget.stopped is not None
    if model_run.failed and not too_many:
        too_many = is_too_many(max_rejected, project.ask(project.count_asked, day, model.model_id))
    report = RunReport(
        date=day.date,
        model=model.name,
        model_id=model.model_id,
        variant=model.variant,
        run_id=model_run.run_id,
        executor=executor.name,
        device=executor.device,
        selected=model_run.selected,
        predicted=model_run.predicted,
        rejected=model_run.rejected,
        reasons=dict(sorted(model_run.reasons.items())),
        day=project.ask(project.count_day, day, model.model_id),
        objects=project.ask(count_day_objects, project, day, model.model_id),
        seconds=seconds,
        images_per_second=model_run.selected / seconds,
        steady_images_per_second=steady,
        limit_images_per_second=limit,
        stages=tally.cpu_ms(),
        exit_code=most_severe([group.stop.exit_code, *([EXIT_TOO_MANY_REJECTED] if too_many else [])]),
        walls=tally.wall_ms(),
        waits=tally.wait_ms(),
        limits=rates,
        limited_by=find_bottleneck(cost),
        share_of_limit=steady / limit if steady and limit else None,
        num_cores=executor.num_cores,
        num_workers=executor.num_workers + executor.num_devices,
        passed_over=model.passed_over,
        nodes=tally.nodes(),
        stopped=model_run.budget.stopped,
        nearly_black=model_run.nearly_black,
    )
    return with_bottleneck(report)
