"""`infer report`, and the report after a run."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

from infer_app.ask.page.reports import write_index, write_reports
from infer_app.base.errors import SIGNALLED, InferError
from infer_app.base.printing import printable
from infer_app.base.settings.load import load_settings
from infer_app.base.telemetry.summary_line import describe_state
from infer_app.cli.commands.look_commands import ReportOptions
from infer_app.cli.commands.run_commands import RunOptions
from infer_app.predict.workers.fork_server import start_early

log = logging.getLogger(__name__)


def report_day(options: ReportOptions) -> None:
    """Write the reports, or the overview, and print where they are."""
    if options.index:
        show_index(options.as_json, options.config)
        return
    start_early()  # thumbnails are made in another process, which starts while this one counts
    written = write_reports(load_settings(options.config), options.date, options.model, options.trace, options.out)
    if options.as_json:
        print(json.dumps({"date": str(written[0].report.date), "reports": [one.to_json() for one in written]}))
        return
    for one in written:
        if one.report.day_state.notes:
            print(describe_state(one.report.day_state))
        print(printable(one.report.verdict))
        print(f"wrote {printable(str(one.html))}")


def show_index(as_json: bool, config: Path | None) -> None:
    file, num_days = write_index(load_settings(config))
    print(json.dumps({"file": str(file), "days": num_days}) if as_json else f"wrote {printable(str(file))}")


def run_and_report(run: Callable[[], int], options: RunOptions) -> int:
    """Run, write the reports even if the run failed, and return the exit code of the run."""
    try:
        exit_code = run()
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
        trace = options.trace if options.trace is not None and options.trace.is_file() else None
        written = write_reports(loaded, options.date, options.model, trace)
        write_index(loaded)
    except Exception as error:  # the run is done and committed: not even a bug here may change its exit code
        log.warning("no report: %s", error, exc_info=not isinstance(error, InferError))
        return
    for one in written:
        log.info("report: %s", one.html)
