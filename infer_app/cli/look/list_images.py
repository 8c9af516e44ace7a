"""`infer list`: lists the images in one state, each with its cause."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from itertools import chain, islice

from infer_app.ask.image_list import ImageRow, Unpredicted, last_failures, read_predicted
from infer_app.ask.missing_prediction import Cause, Why, explain_missing_file
from infer_app.base.day import Day, find_zone
from infer_app.base.errors import UsageError
from infer_app.base.locations import shown as shown_location
from infer_app.base.printing import counted, one_line, printable, printed_options
from infer_app.base.settings.load import LoadedSettings, load_settings
from infer_app.cli.commands.look_commands import ListOptions
from infer_app.cli.terminal.output import print_csv, print_json_list, show_table, shown
from infer_app.run.files.changed_files import find_changed
from infer_app.tables.project_database import ProjectDatabase, open_project_database

# Without --date: those of the days of the last run, and all.
OF_LAST_RUN, OF_ALL_DAYS = ("predicted", "rejected"), ("pending", "changed", "missing")
COLUMNS = {"date": "day", "version": "model", "state": "state"}  # left out where all rows have the same
FIELDS = [one.name for one in fields(ImageRow)]
SHOWN_ROWS = 50
READ_ROWS = 5000  # for a table, of which the first ones are shown and all are counted
SHOWN_COMMANDS = 10


def list_images(options: ListOptions) -> None:
    """Print the images, as CSV and JSON row by row: memory does not grow with their number."""
    state, model = options.state, options.model
    if state not in OF_LAST_RUN + OF_ALL_DAYS:
        raise UsageError(f"no such state: {state!r}", f"choose one of: {', '.join(OF_LAST_RUN + OF_ALL_DAYS)}")
    loaded = load_settings(options.config, {"run": {"models": [model] if model else None}})
    with open_project_database(loaded, read_only=True, camera=options.camera) as project:
        days = [loaded.day(options.date)] if options.date else []
        if not days and state in OF_LAST_RUN:
            last = [loaded.day(str(one)) for one in project.versions.days_of_last_run(model)]
            days = last or [loaded.day("yesterday")]
        day = days[0] if len(days) == 1 else None
        rows = _read(loaded, project, state, days, model)
        if options.as_json:
            head = {"state": state, "date": None if day is None else str(day)}
            print_json_list(head, "images", (shown(asdict(row)) for row in rows))
        elif options.as_csv:
            print_csv((shown(asdict(row)) for row in rows), FIELDS)
        else:
            some = list(islice(rows, READ_ROWS))
            _print_table(some, state, days, more=next(rows, None) is not None)
            told = days if state in ("rejected", "pending") else ()
            for failure in dict.fromkeys(chain.from_iterable(last_failures(project, one, model) for one in told)):
                print(one_line(failure))
            _print_to_do(some)
            table = None if project.source.not_asked or options.camera else project.source.table
            if state == "pending" and day is None and table and (number := table.count_without_time()):
                fix = f"give each a time in {loaded.source.time_column}"
                print(f"{counted(number, 'image')} without a time, which no run covers: {fix}")


def _read(
    loaded: LoadedSettings, project: ProjectDatabase, state: str, days: Sequence[Day], model: str | None
) -> Iterator[ImageRow]:
    """Yield the images of the days; without any, of all that are pending, changed or missing."""
    day = days[0] if days else None
    if state in ("changed", "missing"):
        if model:
            raise UsageError(f"--model: files are {state} whatever the model", "leave it out")
        return (row for row in _read_changed(loaded, project, day) if row.state == state)
    if state == "predicted":
        return chain.from_iterable(read_predicted(project, one, model) for one in days)
    unpredicted = Unpredicted.of(loaded, project, model)
    if state == "rejected":
        return chain.from_iterable(map(unpredicted.read_rejected, days))
    return unpredicted.read_pending(day)


def _read_changed(loaded: LoadedSettings, project: ProjectDatabase, day: Day | None) -> Iterator[ImageRow]:
    """Yield the images whose files were replaced since a version in use predicted them, or are missing, by time."""
    options = (f" --date {day}" if day else "") + printed_options()
    replaced = Cause(Why.FILE_CHANGED, "it was replaced since it was predicted", f"infer retry --replaced{options}")
    for one in find_changed(loaded, project, sorted(project.versions.ids_in_use()), day):
        date = one.time.astimezone(find_zone(loaded.run.time_zone)).date()
        if one.missing_since is None:
            yield ImageRow.of(one.image_id, one.location, date, None, "changed", replaced)
        else:
            yield ImageRow.of(
                one.image_id, one.location, date, None, "missing", explain_missing_file(one.missing_since)
            )


def _print_table(rows: Sequence[ImageRow], state: str, days: Sequence[Day], *, more: bool) -> None:
    """Print the first rows; what all of them have in common stands in the title."""
    if not rows:
        of_days = f"{days[0]} to {days[-1]}" if len(days) > 1 else days[0] if days else "any day"
        print(f"no image of {of_days} is {state}")
        return
    varied = [name for name in COLUMNS if len({getattr(row, name) for row in rows}) > 1]
    of_all = [str(getattr(rows[0], name) or "") for name in ("date", "version") if name not in varied]
    counts = (f"{number:,} {one}" for one, number in _count_images(rows, "state").items())
    title = f"{'at least ' if more else ''}{', '.join([*filter(None, of_all), *counts])}"
    cells = [
        (row.image_id or "", shown_location(row.location), *(getattr(row, name) for name in varied), row.message)
        for row in rows[:SHOWN_ROWS]
    ]
    headings = "id", "image", *(COLUMNS[name] for name in varied), "label" if state == "predicted" else "why"
    show_table(headings, cells, printable(title))
    if len(rows) > SHOWN_ROWS:
        print(f"and {len(rows) - SHOWN_ROWS:,}{' or' if more else ''} more: --csv or --json gives all of them")


def _print_to_do(rows: Sequence[ImageRow]) -> None:
    to_do = _count_images([row for row in rows if row.to_do], "to_do")
    for text, number in to_do.most_common(SHOWN_COMMANDS):
        print(printable(f"to do for {counted(number, 'image')}: {text}"))
    if len(to_do) > SHOWN_COMMANDS:
        print(f"and {len(to_do) - SHOWN_COMMANDS:,} other commands, in --json")


def _count_images(rows: Sequence[ImageRow], field: str) -> Counter[str]:
    """Count images by a field of their rows, each once, however many models its rows are of."""
    return Counter(
        value for value, *_ in dict.fromkeys((getattr(row, field), row.image_id, row.location) for row in rows)
    )
