"""`infer status`: shows the last days and their state."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.text import Text

from infer_app.cli.look.results import shown
from infer_app.cli.terminal.output import show_table
from infer_app.database.project_database import open_project_database
from infer_app.database.queries.day_state import DayFacts, DayStates, judge_day
from infer_app.day import Day, parse_date
from infer_app.model_names import SHOWN_ID
from infer_app.model_variants import variant_facts
from infer_app.plurals import counted
from infer_app.run_report import DayCounts, DayState
from infer_app.settings.load import load_settings
from infer_app.telemetry.summary_line import describe_missing, describe_replaced

STATES = {  # symbol and colour
    "done": ("✓", "green"),
    "pending": ("…", "yellow"),
    "running": ("▶", "cyan"),
    "failed": ("✗", "bold red"),
    "never run": ("○", "dim"),
    "no images": ("○", "dim"),  # and a run that found none
}


def show_status(days: int, as_json: bool, config: Path | None) -> None:
    """Show the last days of each model, by the version that did the day: images, results and the last run."""
    loaded = load_settings(config)
    zone = loaded.run.time_zone
    today = Day.of(parse_date("today", zone), zone)
    with open_project_database(loaded, read_only=True) as project:
        in_use = project.day_queries.ids_in_use()
        states = DayStates(project.day_queries, project.run_store, loaded.run.max_rejected)
        rows = []
        for day in (today.before(n) for n in reversed(range(days))):
            for name, model_id in reversed(project.day_queries.models_of_day(day) or [("(no model has run)", "")]):
                facts = states.read_facts(day, name, model_id)
                last = next(iter(facts.runs), None)
                if facts.counts.eligible or last:
                    rows.append((day, name, model_id, facts, last, judge_day(facts), _begun_in(facts)))
        rows.reverse()  # the newest day first
        gap = project.day_queries.find_gap(today.before(1))
        changed = project.day_queries.count_changed(sorted(in_use))
    attention = [str(gap)] if gap else []
    attention += [describe_replaced(changed.replaced)] if changed.replaced else []
    attention += [describe_missing(changed.missing)] if changed.missing else []
    if as_json:
        found = [
            {
                "date": str(day),
                "model": name,
                "model_id": model_id or None,
                "in_use": model_id in in_use,
                "state": state.state,
                **asdict(facts.counts),
                **begun_in,
                "last_run": None if last is None else shown(last),
                "day_state": asdict(state),
            }
            for day, name, model_id, facts, last, state, begun_in in rows
        ]
        print(json.dumps({"days": found, "attention": attention} | asdict(changed)))
        return
    cells, seen = [], set[str]()
    for day, name, model_id, facts, last, _, _ in rows:
        state = judge_day(replace(facts, older_pending=0) if name in seen else facts)  # told once, for the newest day
        seen.add(name)
        word = _shown_state(state, facts.counts, model_id in in_use or last is None, model_id)
        cells.append((day, name, word, *_numbers(facts.counts), _remarks(last, state)))
    if cells:
        show_table(("day", "model", "state", "images", "predicted", "rejected", "pending", "remarks"), cells)
    else:
        print(f"no images and no runs in the last {counted(days, 'day')}")
    for text in attention:
        print(f"attention: {text}")


def _begun_in(facts: DayFacts) -> Mapping[str, str | None]:
    """Return what is told of the variant that the day was begun in, each None before any prediction."""
    begun = next((run for run in reversed(facts.runs) if run["predicted"]), None)
    return variant_facts(begun["variant"]) if begun else dict.fromkeys(variant_facts(""))


def _shown_state(state: DayState, counts: DayCounts, is_in_use: bool, model_id: str) -> Text:
    """Return the state with its symbol and colour; a day that is done and has remarks is not shown as a good one."""
    word = "no images" if state.state == "done" and not counts.eligible else state.state
    symbol, style = STATES[word]
    if state.state == "done" and state.level != "good":
        symbol, style = ("!", "yellow") if state.level == "attention" else ("✗", "bold red")
    shown_state = word + ("" if is_in_use else f" with version {model_id[:SHOWN_ID]}")
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    return Text(f"{symbol} {shown_state}" if is_unicode else shown_state, style)


def _numbers(counts: DayCounts) -> tuple[str, ...]:
    return tuple(f"{number:,}" for number in (counts.eligible, counts.predicted, counts.rejected, counts.pending))


def _remarks(last: dict[str, Any] | None, state: DayState) -> str:
    since = [f"since {last['started_at']:%H:%M} UTC"] if last and state.state == "running" else []
    return "; ".join([*since, *state.notes])
