"""`infer status`: shows the last days and their state."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.text import Text

from infer_app.artifact.model_names import SHOWN_ID
from infer_app.ask.next_run import NextRun
from infer_app.base.day import Day, between
from infer_app.base.model_variants import variant_facts
from infer_app.base.printing import counted
from infer_app.base.run_report import DayObjects, Verdict
from infer_app.base.settings.load import load_settings
from infer_app.cli.terminal.output import show_table, shown
from infer_app.tables.day.facts import DayFacts, DayReader
from infer_app.tables.day.told import current_notices
from infer_app.tables.day.verdict import judge
from infer_app.tables.known_database import describe_failure
from infer_app.tables.listing.stored_notices import Notice
from infer_app.tables.project_database import ProjectDatabase, open_project_database
from infer_app.tables.queries.day_objects import count_day_objects

STATES = {  # symbol and colour
    "done": ("✓", "green"),
    "pending": ("…", "yellow"),
    "running": ("▶", "cyan"),
    "failed": ("✗", "bold red"),
    "never run": ("○", "dim"),
    "no images": ("○", "dim"),  # and a run that found none
    "forgotten": ("○", "dim"),
}
NO_MODEL = ("(no model has run)", "")


@dataclass(frozen=True, slots=True)
class DayRow:
    """A day and a model, by the version that did the day."""

    day: Day
    model: str
    model_id: str
    is_in_use: bool
    facts: DayFacts
    objects: DayObjects | None = None
    is_forgotten: bool = False  # by `infer forget --before`
    num_again: int = 0  # images that another version has done, and the next run predicts with the one in use

    @property
    def state(self) -> Verdict:
        return judge(self.facts)

    @property
    def begun_in(self) -> Mapping[str, str | None]:
        """Return what is told of the variant that the day was begun in, each None before any prediction."""
        begun = next((run for run in reversed(self.facts.runs) if run["predicted"]), None)
        return variant_facts(begun["variant"]) if begun else dict.fromkeys(variant_facts(""))


def show_status(days: int, camera: str | None, as_json: bool, config: Path | None) -> None:
    """Show the last days of each model, by the version that did the day: images, results and the last run."""
    loaded = load_settings(config)
    with open_project_database(loaded, read_only=True, camera=camera) as project:
        next_run = NextRun.of(loaded).with_late(project, loaded.run.time_zone)
        today = loaded.day("today")
        project.ask(project.source.note_unlisted, between([today.before(days - 1), today]))
        rows = read_last_days(project, today, days, loaded.run.max_rejected, next_run)
        notices = current_notices(project, today.before(1 + loaded.run.lookback), today.before(1))
        if failure := describe_failure(loaded):
            notices.insert(0, Notice("failed night", failure, level="failed"))
        if why := project.source.not_asked:
            notices.insert(0, Notice("table not asked", f"the images' table was not asked: {why}"))
    if as_json:
        print(json.dumps({"days": [*map(_to_json, rows)], "notices": [one.to_json() for one in notices]}))
        return
    cells, seen = [], set[str]()
    for row in rows:
        older = None if row.model in seen else row.facts.older  # told once, for the newest day
        cells.append(_cells(replace(row, facts=replace(row.facts, older=older))))
        seen.add(row.model)
    if cells:
        show_table(("day", "model", "state", "images", "predicted", "rejected", "pending", "remarks"), cells)
    else:
        print(f"no images and no runs in the last {counted(days, 'day')}")
    for notice in notices:
        print(notice.line)


def _to_json(row: DayRow) -> dict[str, object]:
    return {
        "date": str(row.day),
        "model": row.model,
        "model_id": row.model_id or None,
        "in_use": row.is_in_use,
        "state": row.state.state,
        "forgotten": row.is_forgotten,
        **asdict(row.facts.counts),
        "again": row.num_again,
        "objects": row.objects and asdict(row.objects),
        **row.begun_in,
        "last_run": None if row.facts.last_run is None else shown(row.facts.last_run),
        "day_state": asdict(row.state),
    }


def _cells(row: DayRow) -> tuple[object, ...]:
    counts, state, last = row.facts.counts, row.state, row.facts.last_run
    numbers = (f"{number:,}" for number in (counts.eligible, counts.predicted, counts.rejected, counts.pending))
    since = [f"since {last['started_at']:%H:%M} UTC"] if last and state.state == "running" else []
    again = [f"{row.num_again:,} pending for the version in use"] if row.num_again else []
    return row.day, row.model, _shown_state(row), *numbers, "; ".join([*since, *state.notes, *again])


def _shown_state(row: DayRow) -> Text:
    """Return the state with its symbol and colour; a day that is done and has remarks is not shown as a good one."""
    state = row.state
    word = "no images" if state.state == "done" and not row.facts.counts.eligible else state.state
    word = "forgotten" if row.is_forgotten and not row.facts.counts.eligible else word
    symbol, style = STATES[word]
    if state.state == "done" and state.level != "good":
        symbol, style = ("!", "yellow") if state.level == "attention" else ("✗", "bold red")
    is_usual = row.is_in_use or row.facts.last_run is None
    shown_state = word + ("" if is_usual else f" with version {row.model_id[:SHOWN_ID]}")
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    return Text(f"{symbol} {shown_state}" if is_unicode else shown_state, style)


def read_last_days(
    project: ProjectDatabase, today: Day, num_days: int, max_rejected: str, next_run: NextRun
) -> list[DayRow]:
    """Read the days up to today that have images or runs, the newest first."""
    in_use, used_next = project.versions.ids_in_use(), dict(next_run.models)
    states = DayReader(project, max_rejected)
    rows = []
    for day in (today.before(n) for n in reversed(range(num_days))):
        for model, model_id in reversed(project.versions.models_of_day(day) or [NO_MODEL]):
            planned = used_next.get(model, model_id)
            is_done_again = planned != model_id and next_run.era(day.date) != "older"
            again = project.count_new(day, planned) if is_done_again else 0
            facts, is_forgotten = states.read_facts(day, model_id), project.source.has_forgotten(day.start)
            objects = count_day_objects(project, day, model_id)
            row = DayRow(day, model, model_id, model_id in in_use, facts, objects, is_forgotten, again)
            if row.facts.counts.eligible or row.facts.last_run:
                rows.append(row)
    return rows[::-1]
