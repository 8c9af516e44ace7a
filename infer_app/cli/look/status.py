"""`infer status`: shows the last days and their state."""

from __future__ import annotations

import json
import sys
from collections.abc import Container
from pathlib import Path
from typing import Any

from rich.text import Text

from infer_app.cli.look.results import shown
from infer_app.cli.terminal.output import show_table
from infer_app.database.project_database import open_project_database
from infer_app.day import Day, parse_date
from infer_app.domain import DayCounts
from infer_app.settings.load import load_settings

STATES = {  # symbol and colour
    "done": ("✓", "green"),
    "pending": ("…", "yellow"),
    "running": ("▶", "cyan"),
    "failed": ("✗", "bold red"),
    "never run": ("○", "dim"),
}


def show_status(days: int, as_json: bool, config: Path | None) -> None:
    """Show the last days of each model's current version: images, results and the last run."""
    loaded = load_settings(config)
    zone = loaded.run.time_zone
    today = Day.of(parse_date("today", zone), zone)
    with open_project_database(loaded, read_only=True) as project:
        current: dict[str, str] = {}
        for name, model_id in project.day_queries.models_of():
            current.setdefault(name, model_id)
        current = current or {"(no model has run)": ""}
        runs = project.day_queries.last_runs(1000)
        living = project.run_store.living_runs()
        rows = []
        for day in (today.before(n) for n in range(days)):
            for name, model_id in current.items():
                counts = project.day_queries.count_day(day, model_id)
                last = next((run for run in runs if run["day"] == day.date and run["model_id"] == model_id), None)
                if counts.eligible or last:
                    rows.append((day, name, counts, last, state_of(counts, last, living)))
    if as_json:
        found = [
            {
                "date": str(day),
                "model": name,
                "state": state,
                "eligible": counts.eligible,
                "predicted": counts.predicted,
                "rejected": counts.rejected,
                "pending": counts.pending,
                "last_run": None if last is None else shown(last),
            }
            for day, name, counts, last, state in rows
        ]
        print(json.dumps({"days": found}))
        return
    cells = [
        (day, name, _shown_state(state), *_numbers(counts), _describe_run(last, state))
        for day, name, counts, last, state in rows
    ]
    if cells:
        show_table(("day", "model", "state", "images", "predicted", "rejected", "pending", "last run"), cells)
    else:
        print(f"no images and no runs in the last {days} days")


def state_of(counts: DayCounts, last: dict[str, Any] | None, living: Container[str]) -> str:
    """Return a key of STATES; `last` is the day's last run, if any, and `living` holds the ids of the active runs.

    Rows take precedence: a day without pending images is done, however its last run ended.
    """
    if last is None:
        return "never run"
    if last["id"] in living:
        return "running"
    if not counts.pending:
        return "done"
    return "pending" if last["state"] == "done" else "failed"


def _shown_state(state: str) -> Text:
    symbol, style = STATES[state]
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    return Text(f"{symbol} {state}" if is_unicode else state, style)


def _numbers(counts: DayCounts) -> tuple[str, ...]:
    return tuple(f"{number:,}" for number in (counts.eligible, counts.predicted, counts.rejected, counts.pending))


def _describe_run(run: dict[str, Any] | None, state: str) -> str:
    if run is None:
        return ""
    if state == "running":
        return f"since {run['started_at']:%H:%M} UTC"
    if run["state"] == "running":
        return f"died, begun {run['started_at']:%H:%M} UTC"
    code = run["exit_code"]
    return f"exit code {code}" if code is not None else str(run["error"])
