"""`infer pending`: lists the images that wait for a run, or the days that have any, each with the reason."""

import json
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import islice
from pathlib import Path

from infer_app.artifact.model_names import Version
from infer_app.ask.missing_prediction import Cause, explain_days
from infer_app.ask.pending_list import PendingList, last_failure
from infer_app.base.day import Day
from infer_app.base.printing import counted, one_line, printable, printed_options
from infer_app.base.settings.load import load_settings
from infer_app.cli.terminal.output import SHOWN_ROWS, print_csv, print_json_list, print_more, show_table, shown
from infer_app.tables.project_database import open_project_database
from infer_app.tables.queries.pending_images import PendingDays

Row = dict[str, object]
IMAGE_FIELDS = ("image_id", "location", "time", "model", "model_id", "state", "why", "message", "fix", "command")
DAY_FIELDS = ("date", "model", "model_id", "pending", "retried", "why", "message", "fix", "command")


def show_pending(date: str | None, model: str | None, as_csv: bool, as_json: bool, config: Path | None) -> None:
    """Print the pending images of a day, or without a day the days that have any."""
    loaded = load_settings(config, {"run": {"models": [model] if model else None}})
    with open_project_database(loaded, read_only=True) as project:
        pending = PendingList.of(loaded, project, model)
        versions = pending.versions(model)
        if date is None:
            _show_days(pending, versions, as_csv, as_json)
            return
        day = loaded.day(date)
        rows = (row for version in versions for row in _images(pending, day, version))
        if as_json:
            print_json_list({"date": str(day)}, "pending", rows)
        elif as_csv:
            print_csv(rows, IMAGE_FIELDS)
        else:
            for version in versions:
                _print_images(pending, day, version)


def what_to_do(cause: Cause) -> str:
    """Return the fix and the command of a cause as one line; empty if there is neither."""
    return ", then ".join(filter(None, [cause.fix, f"`{cause.command}`" if cause.command else ""]))


def _images(pending: PendingList, day: Day, version: Version) -> Generator[Row]:
    name, model_id = version
    with closing(pending.images(day, model_id)) as found:
        for image, cause in found:
            state = "pending" if image.failure is None else "rejected"
            row = {"image_id": image.image_id, "location": image.location, "time": image.time, "state": state}
            yield shown(row | {"model": name, "model_id": model_id} | asdict(cause))


def _day_row(pending: PendingList, version: Version, days: PendingDays) -> Row:
    row = {"date": days.first.isoformat(), "model": version[0], "model_id": version[1]}
    numbers = {"pending": days.num_images, "retried": days.num_retried}
    return row | numbers | asdict(explain_days(pending.next_run, days.first, days.last))


def _print_images(pending: PendingList, day: Day, version: Version) -> None:
    name, model_id = version
    with closing(pending.images(day, model_id)) as found:
        some = list(islice(found, SHOWN_ROWS))
    counts = pending.count(day, model_id)
    heading = f"{day}{' ' + name if name else ''}: {counts.pending:,} pending, {counts.retried:,} rejected for now"
    if some:
        rows = (shown({"id": image.image_id, "location": image.location}) for image, _ in some)
        cells = [
            (row["id"] or "", row["location"] or "", cause.message) for row, (_, cause) in zip(rows, some, strict=True)
        ]
        show_table(("id", "image", "why"), cells, printable(heading))
    else:
        print(printable(heading))
    print_more(counts.pending + counts.retried - len(some))
    if some and (failure := last_failure(pending.project, day, model_id)):
        print(one_line(failure))
    for line, count in Counter(what_to_do(cause) for _, cause in some).items():
        print(printable(f"to do for {counted(count, 'image')}: {line}"))
    if counts.final:
        lists = f"`infer rejects --date {day}{printed_options()}` lists them"
        print(f"{counted(counts.final, 'image')} rejected for good: {lists}")


def _show_days(pending: PendingList, versions: list[Version], as_csv: bool, as_json: bool) -> None:
    found = [(version, pending.days(version[1])) for version in versions]
    rows = [_day_row(pending, version, one) for version, days in found for one in days]
    num_timeless, cause = pending.without_time()
    if as_json:
        timeless = asdict(cause) if num_timeless else None
        print(json.dumps({"days": rows, "without_time": num_timeless, "without_time_cause": timeless}))
    elif as_csv:
        print_csv(rows, DAY_FIELDS)
    else:
        _print_days(rows)
        for (name, _), days in found:
            for cause_of_days, num_images in pending.ranges(days):
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
    to_do = what_to_do(cause)
    print(printable(f"{subject}: {cause.message}{'; ' if to_do else ''}{to_do}"))
