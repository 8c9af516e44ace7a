"""`infer images changed`: lists the images whose files were replaced since they were predicted, or are missing."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from infer_app.base.day import find_zone
from infer_app.base.printing import printed_options
from infer_app.base.settings.load import load_settings
from infer_app.cli.terminal.output import SHOWN_ROWS, print_csv, print_json_list, print_more, show_table, shown
from infer_app.run.files.changed_files import find_changed
from infer_app.tables.listing.watched_images import ChangedImage
from infer_app.tables.project_database import open_project_database

FIELDS = ("image_id", "location", "date", "state", "missing_since")


def show_changed(date: str | None, as_csv: bool, as_json: bool, config: Path | None) -> None:
    """Print the images, by time; replaced since a version in use predicted them."""
    loaded = load_settings(config)
    day = None if date is None else loaded.day(date)
    with open_project_database(loaded, read_only=True) as project:
        changed = find_changed(loaded, project, sorted(project.versions.ids_in_use()), day)
        rows = (_row(one, loaded.run.time_zone) for one in changed)
        if as_json:
            print_json_list({"date": date and str(day)}, "images", rows)
        elif as_csv:
            print_csv(rows, FIELDS)
        else:
            _print(rows, f" --date {day}" if day else "")


def _row(image: ChangedImage, zone: str) -> dict[str, object]:
    row = asdict(image) | {"date": image.time.astimezone(find_zone(zone)).date(), "state": image.state}
    return shown({name: row[name] for name in FIELDS})


def _print(rows: Iterator[dict[str, Any]], options: str) -> None:
    cells: list[list[str]] = []
    states = Counter[str]()
    for row in rows:
        states[row["state"]] += 1
        if len(cells) < SHOWN_ROWS:
            cells.append([row[name] or "" for name in FIELDS])
    if not cells:
        print("no image is known to have been replaced or to be missing")
        return
    title = f"{states['replaced']:,} replaced since they were predicted, {states['missing']:,} missing"
    show_table(("id", "image", "day", "state", "missing since"), cells, title)
    print_more(states.total() - len(cells))
    if states["replaced"]:
        print(f"`infer retry --replaced{options}{printed_options()}` has the replaced ones predicted again")
