"""`infer report`, and the report after a run."""

import json
import logging
from collections.abc import Callable

from infer_app.artifact.model_names import plain_name
from infer_app.ask.page.reports import write_reports
from infer_app.base.errors import SIGNALLED, InferError, OtherProject, UsageError
from infer_app.base.printing import named, printable, told_once
from infer_app.base.run_report import LEVELS
from infer_app.base.settings.load import load_settings
from infer_app.cli.commands.look_commands import ReportOptions
from infer_app.cli.commands.run_commands import RunOptions
from infer_app.predict.workers.fork_server import start_early

log = logging.getLogger(__name__)


def report_days(options: ReportOptions) -> None:
    """Write the report of each day and print where they are."""
    start_early()  # thumbnails are made in another process, which starts while this one counts
    loaded = load_settings(options.config)
    days = loaded.days(options.date, options.until or options.date)
    if options.until and options.out:
        raise UsageError("--out is one file", "leave --until out")
    written = write_reports(loaded, days, out=options.out)
    if options.as_json:
        print(json.dumps({"reports": [one.to_json() for one in written]}))
        return
    for one in written:
        if one.report.notes:
            print(f"{LEVELS[one.report.state]}: {'; '.join(one.report.notes)}")
        verdicts = told_once({name: [model.verdict] for name, model in one.report.by_name.items()})
        for verdict, names in verdicts.items():
            print(printable(named(verdict, names)))
        print(f"wrote {printable(str(one.html))}")


def run_and_report(run: Callable[[], int], options: RunOptions) -> int:
    """Run, write the report even if the run failed, and return the exit code of the run."""
    try:
        exit_code = run()
    except OtherProject:  # whose days they are
        raise
    except InferError as error:
        _report_after(error.exit_code, options)
        raise
    _report_after(exit_code, options)
    return exit_code


def _report_after(exit_code: int, options: RunOptions) -> None:
    if exit_code >= SIGNALLED:
        return  # the sender of the signal waits
    try:
        loaded = load_settings(options.config, {"run": {"max_rejected": options.max_rejected}})
        tried = [name for name in options.model or () if name != plain_name(name)]
        (written,) = write_reports(loaded, [loaded.day(options.date)], tried, after_run=True)
    except Exception as error:  # the run is done and committed: not even a bug here may change its exit code
        log.warning("no report: %s", error, exc_info=not isinstance(error, InferError))
        return
    log.info("report: %s", written.html)
