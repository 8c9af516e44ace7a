"""`infer pending`: lists the images that wait for a run, or the days that have any, each with the reason."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from infer_app.cli.look.results import SHOWN_ROWS, print_csv, print_json_list, shown
from infer_app.cli.terminal.output import show_table
from infer_app.database.project_database import ProjectDatabase, open_project_database
from infer_app.database.queries.day_queries import PendingDays
from infer_app.day import Day, parse_date
from infer_app.errors import EXIT_OK
from infer_app.model_names import Version
from infer_app.plurals import counted
from infer_app.reporting.missing_prediction import (
    Cause,
    NextRun,
    explain_days,
    explain_image,
    find_pending,
    find_pending_days,
    time_column,
)
from infer_app.settings.load import LoadedSettings, load_settings
from infer_app.telemetry.printable import one_line, printable
from infer_app.telemetry.printed_options import printed_options

Row = dict[str, Any]
NO_MODEL = ("", "")
IMAGE_FIELDS = ("image_id", "location", "time", "model", "model_id", "state", "why", "message", "fix", "command")
DAY_FIELDS = ("date", "model", "model_id", "pending", "retried", "why", "message", "fix", "command")


@dataclass(frozen=True, slots=True)
class PendingList:
    """Lists what waits for the next run."""

    loaded: LoadedSettings
    project: ProjectDatabase
    next_run: NextRun

    def versions(self, wanted: str | None) -> list[Version]:
        """Return the models that the next run uses, or those that ran if no run is possible."""
        if self.next_run.models:
            return list(self.next_run.models)
        current: dict[str, str] = {}
        for name, model_id in self.project.day_queries.models_of(wanted):
            current.setdefault(name, model_id)
        return list(current.items()) or [NO_MODEL]

    def images(self, day: Day, version: Version) -> Generator[Row]:
        """Yield the images of a day with their causes, in order of time."""
        name, model_id = version
        with closing(find_pending(self.loaded, self.project, self.next_run, day, model_id)) as found:
            for image, cause in found:
                state = "pending" if image.failure is None else "rejected"
                row = {"image_id": image.image_id, "location": image.location, "time": image.time, "state": state}
                yield shown(row | {"model": name, "model_id": model_id} | asdict(cause))

    def last_failure(self, day: Day, version: Version) -> str | None:
        """Return how the day's last run failed, or None if it did not."""
        runs = self.project.day_queries.runs_of_day(day.date, version[1])
        if not runs or runs[0]["exit_code"] in (None, EXIT_OK):
            return None
        error = f": {runs[0]['error']}" if runs[0]["error"] else ""
        return f"the last run of {day} ended with exit code {runs[0]['exit_code']}{error}"

    def days(self, version: Version) -> list[PendingDays]:
        return list(find_pending_days(self.project, self.next_run, self.loaded.run.time_zone, version[1]))

    def day_row(self, version: Version, days: PendingDays) -> Row:
        name, model_id = version
        row = {"date": days.first.isoformat(), "model": name, "model_id": model_id}
        numbers = {"pending": days.num_images, "retried": days.num_retried}
        return row | numbers | asdict(explain_days(self.next_run, days.first, days.last))

    def without_time(self) -> tuple[int, Cause]:
        """Return the number of images without a time, which no list has, and what to do about them."""
        number = self.project.source.count_without_time()
        return number, explain_image(self.next_run, "", None, time_column(self.loaded))


def show_pending(date: str | None, model: str | None, as_csv: bool, as_json: bool, config: Path | None) -> None:
    """Print the pending images of a day, or without a day the days that have any."""
    loaded = load_settings(config, {"run": {"models": [model] if model else None}})
    with open_project_database(loaded, read_only=True) as project:
        pending = PendingList(loaded, project, NextRun.of(loaded, model).with_late(project, loaded.run.time_zone))
        versions = pending.versions(model)
        if date is None:
            _show_days(pending, versions, as_csv, as_json)
            return
        zone = loaded.run.time_zone
        day = Day.of(parse_date(date, zone), zone)
        rows = (row for version in versions for row in pending.images(day, version))
        if as_json:
            print_json_list({"date": str(day)}, "pending", rows)
        elif as_csv:
            print_csv(rows, IMAGE_FIELDS)
        else:
            for version in versions:
                _print_images(pending, day, version)


def what_to_do(fix: str, command: str | None) -> str:
    """Return the fix and the command of a cause as one line; empty if there is neither."""
    return ", then ".join(filter(None, [fix, f"`{command}`" if command else ""]))


def _print_images(pending: PendingList, day: Day, version: Version) -> None:
    name, model_id = version
    with closing(pending.images(day, version)) as rows:
        some = list(islice(rows, SHOWN_ROWS))
    day_queries = pending.project.day_queries
    counts, num_new = day_queries.count_day(day, model_id), day_queries.count_new(day, model_id)
    num_retried, num_pending = max(0, num_new - counts.pending), counts.pending
    if pending.next_run.era(day.date) == "older":  # then it is not done again after a switch of versions
        num_pending = day_queries.count_pending(day, *day_queries.versions_of(model_id))
    heading = f"{day}{' ' + name if name else ''}: {num_pending:,} pending, {num_retried:,} rejected for now"
    if some:
        cells = [(row["image_id"] or "", row["location"] or "", row["message"]) for row in some]
        show_table(("id", "image", "why"), cells, printable(heading))
    else:
        print(printable(heading))
    if num_pending + num_retried > len(some):
        print(f"and {num_pending + num_retried - len(some):,} more: --csv or --json gives all of them")
    if some and (failure := pending.last_failure(day, version)):
        print(one_line(failure))
    to_do = Counter(what_to_do(row["fix"], row["command"]) for row in some)
    for line, count in to_do.items():
        print(printable(f"to do for {counted(count, 'image')}: {line}"))
    if num_final := max(0, counts.rejected - num_retried):
        lists = f"`infer rejects --date {day}{printed_options()}` lists them"
        print(f"{counted(num_final, 'image')} rejected for good: {lists}")


def _show_days(pending: PendingList, versions: list[Version], as_csv: bool, as_json: bool) -> None:
    found = [(version, pending.days(version)) for version in versions]
    rows = [pending.day_row(version, one) for version, days in found for one in days]
    num_timeless, cause = pending.without_time()
    if as_json:
        timeless = asdict(cause) if num_timeless else None
        print(json.dumps({"days": rows, "without_time": num_timeless, "without_time_cause": timeless}))
    elif as_csv:
        print_csv(rows, DAY_FIELDS)
    else:
        _print_days(rows)
        for (name, _), days in found:
            for cause_of_days, num_images in _ranges(pending.next_run, days):
                of = f" of {name}" if len(found) > 1 else ""
                _print_to_do(f"{counted(num_images, 'image')}{of}", cause_of_days)
        if num_timeless:
            _print_to_do(f"{counted(num_timeless, 'image')} without a time", cause)


def _print_days(rows: Sequence[Row]) -> None:
    if not rows:
        print("no image of any day is pending")
        return
    cells = [(row["date"], row["model"], f"{row['pending']:,}", f"{row['retried']:,}", row["message"]) for row in rows]
    show_table(("day", "model", "pending", "rejected for now", "why"), cells[-SHOWN_ROWS:])
    if len(cells) > SHOWN_ROWS:
        print(f"and {len(cells) - SHOWN_ROWS:,} earlier rows: --csv or --json gives all of them")


def _print_to_do(subject: str, cause: Cause) -> None:
    to_do = what_to_do(cause.fix, cause.command)
    print(printable(f"{subject}: {cause.message}{'; ' if to_do else ''}{to_do}"))


def _ranges(next_run: NextRun, days: Sequence[PendingDays]) -> Iterator[tuple[Cause, int]]:
    """Yield the cause of each range of days that one command predicts, with the number of its images."""
    for _, group in groupby(days, lambda one: next_run.era(one.first)):
        ranged = list(group)
        num_images = sum(one.num_images + one.num_retried for one in ranged)
        yield explain_days(next_run, ranged[0].first, ranged[-1].last), num_images
