"""Print how `infer run` ended, as text or as one JSON object."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from infer_app.base.day import Day
from infer_app.base.printing import counted, named, printed_options, told_once, with_config
from infer_app.base.run_report import RunReport
from infer_app.base.telemetry.summary_line import (
    Forecast,
    describe_state,
    late_line,
    node_costs,
    speed,
    stage_costs,
    summary_line,
    summary_parts,
)
from infer_app.cli.commands.run_commands import DaysOptions
from infer_app.run.files.registration import Registration
from infer_app.run.run_result import ModelResult, RunSummary
from infer_app.tables.listing.stored_notices import Notice

log = logging.getLogger(__name__)

SHOWN_LATE = 3  # late days whose rejections are printed


@dataclass(frozen=True, slots=True)
class RunOutput:
    """Prints the end of `infer run` and `infer backfill`."""

    summary: RunSummary
    days: Sequence[Day]
    options: DaysOptions
    registration: Registration
    notices: Sequence[Notice] = ()  # what somebody should look at

    def to_json(self) -> dict[str, object]:
        registered = {"registered": self.registration.to_json()}
        return self.summary.to_json() | registered | {"notices": [one.to_json() for one in self.notices]}

    def print(self) -> None:
        """Print the results of each model, or one JSON object; log the models that were not run."""
        summary = self.summary
        for failure in summary.failures:
            log.error("%s was not run: %s (%s)", failure.name, failure.error, with_config(failure.error.hint))
        if self.options.as_json:
            print(json.dumps(self.to_json()))
            return
        if not self.options.quiet:  # else those that no mail has told were printed
            print_notices(self.notices)
        elif summary.exit_code == 0:
            return
        self._print_results()
        for text in self.registration.describe_rest(self.days):
            print(text)

    def _print_results(self) -> None:
        """Print the results of all models as one block, in which what is equal stands once."""
        num_models = len(self.summary.results) + len(self.summary.failures)

        def tell(lines_of: Callable[[ModelResult], Iterator[str]]) -> None:
            lines = told_once({one.last.model: lines_of(one) for one in self.summary.results}, num_models)
            for line, names in lines.items():
                print(named(line, names))

        tell(_late)
        for day in self.days[:-1]:
            reports = [report for one in self.summary.results for report in one.reports[:-1] if report.date == day.date]
            _print_sums([report for report in reports if report.selected or report.day.pending], num_models)
        for lines_of in (_last_day, self._without_images, _rest):
            tell(lines_of)
        _print_sums([result.last for result in self.summary.results], num_models)

    def _without_images(self, result: ModelResult) -> Iterator[str]:
        if not result.last.day.eligible:
            no_images = f"no images on {self.days[-1]}; the nearest day that has any is {self.summary.nearest}"
            yield no_images if self.summary.nearest else "there are no images at all"


def print_notices(notices: Iterable[Notice]) -> None:
    """Print what somebody should look at, which jobs/daily.sh mails."""
    for notice in notices:
        print(notice.line)


def _late(result: ModelResult) -> Iterator[str]:
    worst_first = sorted((report for report in result.late if report.reasons), key=lambda report: -report.exit_code)
    for report in worst_first[: max(SHOWN_LATE, sum(report.exit_code > 0 for report in worst_first))]:
        yield from _rejected(report)
        if report.exit_code:
            yield summary_line(report)
    if result.late:
        yield late_line(result.late)


def _print_sums(reports: Sequence[RunReport], num_models: int) -> None:
    """Print the counts and the speed of a day; what holds for all models comes last."""
    for line, names in told_once({report.model: _rejected(report) for report in reports}, num_models).items():
        print(named(line, names))
    parts_of: dict[tuple[str, ...], list[str]] = {}
    for part, names in told_once({report.model: summary_parts(report) for report in reports}, num_models).items():
        parts_of.setdefault(names, []).append(part)
    for names in sorted(parts_of, key=lambda names: not names):
        print(named(" · ".join(parts_of[names]), names))


def _last_day(result: ModelResult) -> Iterator[str]:
    if result.day_state.notes:
        yield describe_state(result.day_state)
    if result.last.selected:
        yield from _costs(result.last)


def _rest(result: ModelResult) -> Iterator[str]:
    if result.rest:
        yield f"if it goes on now: {result.rest.describe(_now())}"


def _rejected(report: RunReport) -> Iterator[str]:
    """Yield what was rejected, with the command that lists it: the day may be one of the look-back."""
    if report.reasons:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in report.reasons.items())
        yield f"rejected: {reasons}; `infer list --state rejected --date {report.date}{printed_options()}` lists them"


def _costs(report: RunReport) -> Iterator[str]:
    yield stage_costs(report)
    yield from (f"{node}: {costs}" for node, costs in node_costs(report).items())


def _now() -> datetime:
    return datetime.now(UTC).astimezone()


def print_dry_run_summary(
    measured: Sequence[tuple[Sequence[RunReport], Forecast]],
    exit_code: int,
    as_json: bool,
    registration: Registration,
    days: Sequence[Day],
) -> None:
    """Print the reports and the forecast of each group of models, or one JSON object."""
    if as_json:
        models = [
            report.to_json() | {"dry_run": True, "forecast": asdict(rest)}
            for reports, rest in measured
            for report in reports
        ]
        several = {"models": models} if len(models) > 1 else {}
        registered = {"registered": registration.to_json()}
        print(json.dumps(models[0] | {"exit_code": exit_code} | registered | several))
        return
    if registration.added:
        new = counted(registration.to_run, "new image")
        print(f"dry run, nothing registered: {new} in the watched folders, which the forecast includes")
    for text in registration.describe_rest(days):
        print(text)
    print_notices((*registration.happened(), *registration.holding()))
    for reports, rest in measured:
        if len(measured) > 1:
            print(f"{' and '.join(report.model for report in reports)}:")
        if reports[0].selected:
            _print_measured(reports)
        print(rest.describe(_now()))


def _print_measured(reports: Sequence[RunReport]) -> None:
    """Print what a dry run measured of models that share their images: the costs and the rates."""
    for line in _costs(reports[0]):
        print(line)
    for report in reports:
        name = f"{report.model}: " if len(reports) > 1 else ""
        counts = f"{report.predicted:,} would be predicted, {report.rejected:,} rejected"
        print(f"dry run, nothing written: {name}{counts} · {speed(report)}")
