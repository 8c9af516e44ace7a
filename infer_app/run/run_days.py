"""Runs models over several days: models that take the same pixels together, the others one after another."""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from infer_app.artifact.artifact import Artifact
from infer_app.base.day import Day, between
from infer_app.base.domain import ImageRef, NewImage
from infer_app.base.errors import (
    OF_ONE_DAY,
    SIGNALLED,
    DatabaseUnavailable,
    DayHeld,
    InferError,
    Interrupted,
    ModelError,
    PrecisionUnavailable,
    StorageUnavailable,
    TimeIsOver,
    WorkersKilled,
    most_severe,
)
from infer_app.base.run_report import RunReport
from infer_app.base.settings.load import LoadedSettings
from infer_app.base.telemetry.display import Progress
from infer_app.base.telemetry.log import bind_models
from infer_app.base.telemetry.summary_line import Forecast, forecast
from infer_app.run.dry_run import dry_run
from infer_app.run.files.registration import SAMPLE, Registration
from infer_app.run.group_run import GroupRun, open_group
from infer_app.run.known_source import check_source
from infer_app.run.note_facts import note_facts
from infer_app.run.run_day import run_day
from infer_app.run.run_result import FailedModel, ModelResult, RunSummary
from infer_app.run.stop import Stop
from infer_app.tables.choose_models import group_by_pixels
from infer_app.tables.day.facts import DayReader
from infer_app.tables.day.notices import few_images, happened_in_run
from infer_app.tables.day.verdict import judge
from infer_app.tables.listing.stored_notices import Notice, record
from infer_app.tables.queries.late_days import end_late_queue, find_late_days

log = logging.getLogger(__name__)

RECENT = 100_000  # rows before the days of a run, among which are those that came late


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a command wants to run."""

    loaded: LoadedSettings
    artifacts: Sequence[Artifact]
    days: Sequence[Day]  # oldest first
    limit: int | None = None  # images of each model, of all days together
    with_late: bool = False  # then also the days of images that were registered late
    not_found: Mapping[str, ModelError] = field(default_factory=dict)  # by name: models that should run too
    other_source: bool = False  # [source] may list other images than in the last run
    lists_each_day: bool = False  # before it is run, and no rows before: those of a backfill may be many


def run_days(request: RunRequest, stop: Stop, progress: Progress) -> RunSummary:
    """Run the models over the days; a model that can't run or whose day is held doesn't stop the others.

    Raises the most severe error if none was run, and Interrupted if a signal came before one was.
    """
    days, with_late = request.days, request.with_late
    results: list[ModelResult] = []
    failures = [FailedModel(name, error) for name, error in request.not_found.items()]
    nearest = None
    hidden = list[int]()  # numbers of pictures, as `update_list` returns them
    left, is_listed = deque(group_by_pixels(request.artifacts)), request.lists_each_day
    while left and not stop.exit_code:
        models = left.popleft()
        artifacts = models.artifacts
        bind_models((artifact.manifest.name, artifact.manifest.model_id) for artifact in artifacts)
        try:
            with open_group(request.loaded, models, stop, progress) as group:
                check_source(request.loaded, group.project, is_meant=request.other_source, read_only=False)
                project = group.project
                if not is_listed:
                    hidden.append(project.update_list(between(days), RECENT))
                    is_listed = True
                each_day = hidden if request.lists_each_day else None
                ran = run_group(group, days, request.limit, with_late=with_late, hidden=each_day)
                results += [result for result in ran if result.last.model not in {one.last.model for one in results}]
                if not results[-1].last.day.eligible:
                    nearest = project.ask(project.source.nearest_date, days[-1])
                if with_late and not (left or failures) and all(result.all_late_tried for result in results):
                    end_late_queue(project.database, project.source, days[0])
        except (*OF_ONE_DAY, ModelError) as error:
            if models.may_split and isinstance(error, DayHeld | ModelError):  # one of them: run each by itself
                left.extendleft(reversed(models.split()))
            else:
                known = {one.last.model for one in results} | {failure.name for failure in failures}
                failures += [FailedModel(name, error) for name in models.names if name not in known]
    if not results:
        stop.raise_if_signalled()
    over = TimeIsOver("the time limit passed before it was started", "its images stay pending for the next run")
    not_started = dict.fromkeys(name for models in left for name in models.names)
    why = Interrupted(stop.exit_code - SIGNALLED) if stop.exit_code > SIGNALLED else over
    failures += [FailedModel(name, why) for name in not_started]
    if not results:
        worst = most_severe([failure.error.exit_code for failure in failures])
        raise next(failure.error for failure in failures if failure.error.exit_code == worst)
    return RunSummary(results, failures, nearest, sum(hidden))


def dry_run_days(
    request: RunRequest, stop: Stop, progress: Progress, registration: Registration
) -> list[tuple[list[RunReport], Forecast]]:
    """Run a sample of the days without writing; return the reports of each group of models and a forecast.

    `registration`: of a dry run; what it would register is in the forecast, and the sample begins with it.
    """
    days, measured = request.days, []
    for models in group_by_pixels(request.artifacts):
        indices = tuple(range(len(models.artifacts)))
        with open_group(request.loaded, models, stop, progress, read_only=True) as group:
            check_source(request.loaded, group.project, is_meant=request.other_source, read_only=True)
            if why := group.project.source.not_asked:
                raise DatabaseUnavailable(why)
            late = _find_late(group, days) if request.with_late else []
            refs = (ImageRef(row.image_id, row.location) for row in group.project.source.read_unlisted(between(days)))
            unlisted = list(islice(refs, SAMPLE))
            num_new = registration.to_run + len(unlisted) + sum(1 for _ in refs)
            sample = [NewImage(ref, indices) for ref in (*registration.sample, *unlisted)]
            reports = dry_run(group, [*late, *days], request.limit, sample)
            measured.append((reports, forecast(reports[0], _count_pending(group, days) + num_new)))
    return measured


@dataclass(slots=True)
class DaysRun:
    """The days that a group of models was run over, and those that it could not be."""

    group: GroupRun
    days: Sequence[Day]  # oldest first, without late ones
    limit: int | None  # images of each model, of all days together
    reports: dict[Day, list[RunReport]] = field(default_factory=dict)
    errors: dict[Day, InferError] = field(default_factory=dict)

    @property
    def images_left(self) -> int | None:
        num_run = sum(max(one.selected for one in reports) for reports in self.reports.values())
        return None if self.limit is None else self.limit - num_run

    @property
    def is_over(self) -> bool:
        return bool(self.group.stop.exit_code) or self.images_left == 0

    @property
    def of_last_day(self) -> InferError | None:
        return self.errors.get(self.days[-1])

    @property
    def other_errors(self) -> list[InferError]:
        """Return why other days than the last one could not be run."""
        return [error for day, error in self.errors.items() if day is not self.days[-1]]

    def to_run(self, *, with_late: bool) -> Iterator[Day]:
        """Yield the days, then, until the run is to end, the late ones, which are looked for only then.

        An error that all days share keeps late days from being run.
        """
        yield from self.days
        if not with_late or isinstance(self.of_last_day, StorageUnavailable | WorkersKilled):
            return
        for day in _find_late(self.group, self.days):
            if self.is_over:
                return
            yield day

    def of_model(self, number: int) -> dict[Day, RunReport]:
        return {day: reports[number] for day, reports in self.reports.items()}


def run_group(
    group: GroupRun,
    days: Sequence[Day],
    limit: int | None,
    *,
    with_late: bool,
    hidden: list[int] | None = None,
    run: Callable[[GroupRun, Day, int | None], list[RunReport]] = run_day,
) -> list[ModelResult]:
    """Run the days and return how each model ended. Raises the error of the last day, once the late days were run.

    With `hidden` each day is listed before it is run, and what `update_list` returns is added to it. Raises Interrupted
    instead if a signal came.
    """
    ran = DaysRun(group, days, limit)
    for day in ran.to_run(with_late=with_late):
        try:
            if hidden is not None:
                hidden.append(group.project.update_list(day, recent=0))
            ran.reports[day] = run(group, day, ran.images_left)
            _record(group, happened_in_run(ran.reports[day]))
        except OF_ONE_DAY as error:
            if isinstance(error, PrecisionUnavailable) and group.may_split:
                raise  # the models are run one by one then
            ran.errors[day] = error
            if day is not days[-1]:
                log.warning("%s left out: %s (%s)", day, error, error.hint)
    changed = [day for day, reports in ran.reports.items() if any(one.selected for one in reports)]
    note_facts(group.loaded, group.project, [*changed, days[-1]] if ran.of_last_day else changed)
    if ran.of_last_day:
        group.stop.raise_if_signalled()
        raise ran.of_last_day
    states = DayReader(group.project, group.loaded.run.max_rejected)
    _record(group, group.project.ask(lambda: [notice for day in days for notice in few_images(states, day)]))
    return [_result(ran, number, states) for number in range(len(group.plan.models))]


def _record(group: GroupRun, happened: Sequence[Notice]) -> None:
    if happened:
        group.project.database.transact(partial(record, found=happened))


def _find_late(group: GroupRun, days: Sequence[Day]) -> list[Day]:
    project = group.project
    return project.ask(find_late_days, project.database, project.source, days[0], group.plan.model_ids)


def _result(ran: DaysRun, number: int, states: DayReader) -> ModelResult:
    """Return how the model of this number ended."""
    group, days, of_days = ran.group, ran.days, ran.of_model(number)
    project = group.project
    reports = [of_days[day] for day in days if day in of_days]
    last = reports[-1]
    older = project.ask(states.find_older_pending, days[0], last.model_id)
    facts = project.ask(states.read_facts, days[-1], last.model_id, last.day)
    ended_early = ran.is_over or any(report.stopped for report in of_days.values())
    tried = list(dict.fromkeys([*days, *of_days]))  # those left out too
    codes = [error.exit_code for error in ran.other_errors] + [report.exit_code for report in of_days.values()]
    return ModelResult(
        reports=reports,
        late=[report for day, report in of_days.items() if day not in days],
        older=older,
        rest=_forecast_rest(group, tried, list(of_days.values())) if ended_early else None,
        exit_code=most_severe(codes),
        day_state=judge(facts),
        all_late_tried=not (ended_early or any(isinstance(error, DayHeld) for error in ran.other_errors)),
    )


def _forecast_rest(group: GroupRun, days: Sequence[Day], reports: Sequence[RunReport]) -> Forecast | None:
    """Forecast a run over the images left pending, by the speed of the day with the most images."""
    pending = group.project.count_new_of_days(days, [reports[-1].model_id])
    return forecast(max(reports, key=lambda report: report.selected), pending) if pending else None


def _count_pending(group: GroupRun, days: Sequence[Day]) -> int:
    """Count the images that this run and a backfill of the days before would run for at least one of the models."""
    project, model_ids = group.project, group.plan.model_ids
    older = project.pending.find_all_older(days[0], model_ids).values()
    return project.count_new_of_days(days, model_ids) + max(one.num_images if one else 0 for one in older)
