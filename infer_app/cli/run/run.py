"""`infer run` and `infer backfill`: read the settings, run the days, print how they ended."""

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.model_names import plain_name
from infer_app.base.day import Day, parse_date
from infer_app.base.errors import DayHeld, InferError, Interrupted, ModelError, TimeIsOver, most_severe
from infer_app.base.settings.load import LoadedSettings, load_settings
from infer_app.base.telemetry.display import Progress
from infer_app.base.telemetry.log import bind_models, log_to_stderr
from infer_app.cli.commands.run_commands import BackfillOptions, DaysOptions, RunOptions
from infer_app.cli.run.last_run import mark_as_told, read_due_notices, record_failure, update_notices
from infer_app.cli.run.notifications import RunSession, notifying
from infer_app.cli.run.run_output import RunOutput, print_dry_run_summary, print_notices
from infer_app.cli.terminal.failures import tolerate_closed_stream
from infer_app.run.files.registration import Registration
from infer_app.run.files.watched_folders import register_new
from infer_app.run.run_days import RunRequest, dry_run_days, run_days
from infer_app.run.stop import Stop, seconds_until
from infer_app.tables.choose_models import choose_artifacts, choose_names, with_detectors
from infer_app.tables.dry_run_database import temporary_folder
from infer_app.tables.engine.connect import Database
from infer_app.tables.known_database import owner_of, wait_for_servers
from infer_app.tables.listing.stored_notices import MAIL
from infer_app.tables.project_database import read_in_use
from infer_app.tables.results.migrate import upgrade

log = logging.getLogger(__name__)

NO_TIME_LEFT = TimeIsOver(
    "the time limit passed while the watched folders were looked at", "what was registered stays, the next run goes on"
)


def run_and_report(options: RunOptions) -> int:
    """Run the day and, with --report, write its report; return the exit code."""
    if not options.report or options.dry_run:
        return run(options)
    from infer_app.cli.look import report  # which a run without one need not load

    return report.run_and_report(lambda: run(options), options)


def run(options: RunOptions) -> int:
    """Run one day and the look-back days before it, oldest first; return the exit code."""
    loaded = _load(options)
    with notifying(loaded, notify=not options.dry_run) as session:
        days = _days_of_run(loaded, options.date)
        if options.dry_run:
            return _dry_run(loaded, days, options)
        return _run_days(loaded, days, options, session)


def backfill(options: BackfillOptions) -> int:
    """Run every day of the range, oldest first; return the most severe exit code."""
    loaded = _load(options)
    days = loaded.days(options.first, options.last, ("--from", "--to"))
    with notifying(loaded, notify=False) as session:
        return _run_days(loaded, days, options, session)


def _load(options: DaysOptions) -> LoadedSettings:
    """Return the settings, with logging set up; errors in the settings are logged in the format asked for too."""
    log_format = options.log_format or os.environ.get("INFER_LOG__FORMAT", "text")
    log_to_stderr(log_format, options.quiet, options.verbose)
    loaded = load_settings(options.config, options.settings())
    log_to_stderr(loaded.log.format, options.quiet, options.verbose)
    return loaded


def _run_days(loaded: LoadedSettings, days: Sequence[Day], options: DaysOptions, session: RunSession) -> int:
    session.day = days[-1]
    session.models = list(map(plain_name, choose_names(loaded)))  # for the message if no run can begin
    wait_for_servers(loaded)
    not_found: dict[str, ModelError] = {}
    artifacts = with_detectors(loaded, choose_artifacts(loaded, failures=not_found), not_found)
    models = [(artifact.manifest.name, artifact.manifest.model_id) for artifact in artifacts]
    session.start(days, [*models, *((name, "") for name in not_found)], loaded.shown_url)
    with_late = isinstance(options, RunOptions) and _takes_late(loaded, days[-1], options, artifacts)
    request = RunRequest(
        loaded,
        artifacts,
        days,
        options.limit,
        with_late,
        not_found,
        options.other_source,
        lists_each_day=isinstance(options, BackfillOptions),
    )
    with _stop(options) as stop:
        try:
            registration = _register(loaded, days, stop)
            summary = run_days(request, stop, Progress(options.quiet))
        except InferError as error:
            _tell_changes(loaded, options, error.exit_code)  # what was found before may be found no more
            raise
        is_backfill = isinstance(options, BackfillOptions)
        nights = _days_of_run(loaded, "yesterday") if is_backfill else days
        notices = update_notices(loaded, nights, summary, artifacts, is_backfill=is_backfill)
    for failure in summary.failures:
        if not isinstance(failure.error, DayHeld | Interrupted | TimeIsOver):
            record_failure(loaded, days[-1], [failure.name], failure.error.exit_code, str(failure.error))
    output = RunOutput(summary, days, options, registration, notices)
    session.end(output.to_json(), summary.outcomes, summary.exit_code)
    bind_models(models)
    _tell_changes(loaded, options, None)
    with tolerate_closed_stream(sys.stdout):  # at once: notifications are sent next, which may take seconds
        output.print()
    return summary.exit_code


def _tell_changes(loaded: LoadedSettings, options: DaysOptions, exit_code: int | None) -> None:
    """With --quiet print what no mail has told, and mark it as told."""
    if options.quiet and not options.as_json and sys.stdout.name != os.devnull:  # as if it was closed
        due = read_due_notices(loaded, MAIL, exit_code)
        with tolerate_closed_stream(sys.stdout):
            print_notices(due)
            sys.stdout.flush()
            mark_as_told(loaded, MAIL, due)


def _days_of_run(loaded: LoadedSettings, date: str) -> list[Day]:
    """Return a day and its look-back, oldest first."""
    return [loaded.day(date).before(n) for n in range(loaded.run.lookback, -1, -1)]


def _dry_run(loaded: LoadedSettings, days: Sequence[Day], options: RunOptions) -> int:
    not_found: dict[str, ModelError] = {}
    artifacts = with_detectors(loaded, choose_artifacts(loaded, failures=not_found), not_found)
    for name, error in not_found.items():
        log.warning("%s would not run: %s (%s)", name, error, error.hint)
    with _stop(options) as stop, _with_database(loaded, options) as loaded:
        registration = _register(loaded, days, stop, dry_run=True)
        with_late, other = _takes_late(loaded, days[-1], options, artifacts), options.other_source
        request = RunRequest(loaded, artifacts, days, options.limit, with_late, other_source=other)
        measured = dry_run_days(request, stop, Progress(options.quiet), registration)
    exit_codes = [report.exit_code for reports, _ in measured for report in reports]
    exit_code = most_severe([*exit_codes, *(error.exit_code for error in not_found.values())])
    print_dry_run_summary(measured, exit_code, options.as_json, registration, days)
    return exit_code


def _register(loaded: LoadedSettings, days: Sequence[Day], stop: Stop, *, dry_run: bool = False) -> Registration:
    """Register what is new; at a terminal, wait for photos that were copied just now."""
    check = partial(stop.check, NO_TIME_LEFT)
    return register_new(loaded, days, check, dry_run=dry_run, may_wait=sys.stderr.isatty())


def _takes_late(loaded: LoadedSettings, day: Day, options: RunOptions, artifacts: Sequence[Artifact]) -> bool:
    """Return whether a run takes what was registered late: not one of an earlier day, nor one that tries a version."""
    if day.date < parse_date("yesterday", day.zone):
        return False
    names = {artifact.manifest.name for artifact in artifacts}
    if names.issuperset(options.model or ()):
        return True
    return {artifact.manifest.model_id for artifact in artifacts}.issubset(read_in_use(loaded).values())


@contextmanager
def _with_database(loaded: LoadedSettings, options: RunOptions) -> Iterator[LoadedSettings]:
    """Yield the settings; those of a new project, whose file a run would create, with an empty temporary database."""
    with Database(loaded.database_url) as database:
        file = database.file
    if file is None or file.exists() or not loaded.lists_own_images:
        yield loaded
        return
    with temporary_folder() as folder:
        url = f"sqlite:///{folder}/infer.db"
        loaded = load_settings(options.config, {**options.settings(), "database": {"url": url}})
        with Database(url) as database:
            upgrade(database, owner_of(loaded))
        yield loaded


def _stop(options: DaysOptions) -> Stop:
    """Return what ends the run at the earlier of its two time limits, if it has any."""
    until = None if options.finish_by is None else seconds_until(options.finish_by)
    return Stop(min((limit for limit in (options.max_duration, until) if limit is not None), default=None))
