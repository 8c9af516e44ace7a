"""`infer events`: shows how often something came, not on how many frames it is."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby

from infer_app.base.errors import UsageError
from infer_app.base.printing import counted, printable, printed_options
from infer_app.base.settings.load import LoadedSettings, load_settings
from infer_app.cli.commands.look_commands import EventsOptions
from infer_app.cli.terminal.output import print_csv, print_json_list, show_table
from infer_app.tables.cameras.day_events import Event, count_waiting, read_events
from infer_app.tables.project_database import open_project_database
from infer_app.tables.queries.thresholds import describe_unset
from infer_app.tables.results.schema import WITHOUT_EVENT

OF_EVENT = ("event", "camera", "started_at", "ended_at", "num_images")
OF_LABEL = ("model", "label", "count", "images", "score", "best_image")
SHOWN_ROWS = 50


def show_events(options: EventsOptions) -> None:
    """Print the events that begin on the days."""
    loaded = load_settings(options.config)
    check_events(loaded)
    found, continued, waiting = list[Event](), 0, 0
    with open_project_database(loaded, read_only=True, camera=options.camera) as project:
        days = loaded.days(options.date, options.until or options.date)
        for number, day in enumerate(days):
            of_day, others = project.ask(read_events, project, day)
            found += of_day
            continued = continued if number else others
            waiting += project.ask(count_waiting, project, WITHOUT_EVENT, day)
        unset = describe_unset(project.database, {one.model for event in found for one in event.labels})
    if options.as_json:
        head = {"date": str(days[0]), "until": str(days[-1]), "continued": continued, "waiting": waiting}
        print_json_list(head, "events", (_shown(event) for event in found))
    elif options.as_csv:
        print_csv(_rows(found), OF_EVENT + OF_LABEL)
    else:
        _print_table(found, continued)
        print_waiting(waiting, "an event")
        for sentence in unset:
            print(sentence)


def check_events(loaded: LoadedSettings) -> None:
    """Raise UsageError if the settings ask for no events."""
    if loaded.events.gap is None:
        raise UsageError("there are no events", 'say in infer.toml when one ends: [events] gap = "60s"')


def print_waiting(count: int, what: str) -> None:
    """Print a sentence about predicted images that wait for an event or their camera, if there are any."""
    if count:
        print(f"{counted(count, 'predicted image')} without {what} yet: `infer cameras update{printed_options()}`")


def _shown(event: Event) -> dict[str, object]:
    row = asdict(event)
    return row | {name: row[name] and row[name].isoformat() for name in ("started_at", "ended_at")}


def _rows(found: Sequence[Event]) -> Iterator[dict[str, object]]:
    """Yield a row for each event and label, one without a label for an event of which nothing is shown."""
    for event in found:
        shown = _shown(event)
        facts = {"event": event.id} | {name: shown[name] for name in OF_EVENT[1:]}
        for label in event.labels or (None,):
            yield facts | (asdict(label) if label else {})


def _print_table(found: Sequence[Event], continued: int) -> None:
    rows = []
    for event in found[:SHOWN_ROWS]:
        of_models = (its for _, its in groupby(event.labels, lambda one: one.model))
        labels = "; ".join(", ".join(f"{one.count} {one.label}" for one in its) for its in of_models)
        span = event.started_at.isoformat(" ", "seconds") if event.started_at else "no time"
        if event.started_at and event.ended_at and event.ended_at > event.started_at:
            span += f" to {event.ended_at:%H:%M:%S}"
        rows.append((event.id, event.camera, span, event.num_images, labels))
    if rows:
        show_table(("event", "camera", "time", "images", "at least"), rows)
    if len(found) > SHOWN_ROWS:
        print(f"and {len(found) - SHOWN_ROWS:,} more: --csv or --json gives all of them")
    more = f"; {continued} more continue from the day before" if continued else ""
    print(printable(f"{counted(len(found), 'event')}{more}"))
