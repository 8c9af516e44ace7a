"""`infer status`: shows the last days and their state."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.text import Text

from infer_app.answers.day_row import DayRow, read_last_days
from infer_app.answers.next_run import NextRun
from infer_app.cli.terminal.output import show_table, shown
from infer_app.database.project_database import open_project_database
from infer_app.model_names import SHOWN_ID
from infer_app.plurals import counted
from infer_app.settings.load import load_settings

STATES = {  # symbol and colour
    "done": ("✓", "green"),
    "pending": ("…", "yellow"),
    "running": ("▶", "cyan"),
    "failed": ("✗", "bold red"),
    "never run": ("○", "dim"),
    "no images": ("○", "dim"),  # and a run that found none
    "forgotten": ("○", "dim"),
}


def show_status(days: int, as_json: bool, config: Path | None) -> None:
    """Show the last days of each model, by the version that did the day: images, results and the last run."""
    loaded = load_settings(config)
    with open_project_database(loaded, read_only=True) as project:
        next_run = NextRun.of(loaded).with_late(project, loaded.run.time_zone)
        found = read_last_days(project, loaded.day("today"), days, loaded.run.max_rejected, next_run)
    if as_json:
        rows = [_to_json(row) for row in found.rows]
        print(json.dumps({"days": rows, "attention": found.attention} | asdict(found.changed)))
        return
    cells, seen = [], set[str]()
    for row in found.rows:
        cells.append(_cells(row.without_older() if row.model in seen else row))  # told once, for the newest day
        seen.add(row.model)
    if cells:
        show_table(("day", "model", "state", "images", "predicted", "rejected", "pending", "remarks"), cells)
    else:
        print(f"no images and no runs in the last {counted(days, 'day')}")
    for text in found.attention:
        print(f"attention: {text}")


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
