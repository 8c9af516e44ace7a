"""`infer images changed`: lists the images whose files were replaced since they were predicted, or are missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from infer_app.cli.look.results import SHOWN_ROWS, print_csv, print_json_list, shown
from infer_app.cli.terminal.output import show_table
from infer_app.database.listing.watched_images import ChangedCounts, ChangedImage
from infer_app.database.project_database import open_project_database
from infer_app.day import find_zone
from infer_app.settings.load import load_settings
from infer_app.telemetry.printed_options import printed_options

FIELDS = ("image_id", "location", "date", "state", "missing_since")


def show_changed(as_csv: bool, as_json: bool, config: Path | None) -> None:
    """Print the images, by time; replaced since a version in use predicted them."""
    loaded = load_settings(config)
    with open_project_database(loaded, read_only=True) as project:
        model_ids = sorted(project.day_queries.ids_in_use())
        counts = project.day_queries.count_changed(model_ids)
        changed = project.day_queries.read_changed(model_ids)
        rows = (_row(one, loaded.run.time_zone) for one in changed)
        if as_json:
            print_json_list(asdict(counts), "images", rows)
        elif as_csv:
            print_csv(rows, FIELDS)
        else:
            _print(counts, list(islice(rows, SHOWN_ROWS)))


def _row(image: ChangedImage, zone: str) -> dict[str, Any]:
    row = asdict(image) | {"date": image.time.astimezone(find_zone(zone)).date(), "state": image.state}
    return shown({name: row[name] for name in FIELDS})


def _print(counts: ChangedCounts, rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        print("no registered image is known to have been replaced or to be missing")
        return
    title = f"{counts.replaced:,} replaced since they were predicted, {counts.missing:,} missing"
    cells = [[row[name] or "" for name in FIELDS] for row in rows]
    show_table(("id", "image", "day", "state", "missing since"), cells, title)
    if more := counts.replaced + counts.missing - len(rows):
        print(f"and {more:,} more: --csv or --json gives all of them")
    if counts.replaced:
        print(f"`infer retry --replaced{printed_options()}` has the replaced ones predicted again")
