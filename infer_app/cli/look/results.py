"""`infer predictions`, `infer rejects` and `infer images changed`: lists of images with what became of them."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from infer_app.artifact.model_names import short_name
from infer_app.ask.pending_list import last_failure
from infer_app.base.day import find_zone
from infer_app.base.model_variants import variant_facts, words_of
from infer_app.base.printing import one_line, printed_options
from infer_app.base.settings.load import load_settings
from infer_app.cli.terminal.output import SHOWN_ROWS, print_csv, print_json_list, print_more, show_table, shown
from infer_app.run.files.changed_files import find_changed
from infer_app.tables.listing.watched_images import ChangedImage
from infer_app.tables.project_database import open_project_database

CHANGED_FIELDS = ("image_id", "location", "date", "state", "missing_since")
PREDICTION_FIELDS = (
    "image_id",
    "location",
    "model",
    "model_id",
    "variant",
    "label",
    "score",
    "output",
    "sha256",
    "created_at",
    "date",
    *variant_facts(""),
    "width",
    "height",
    "num_objects",
)


def show_predictions(
    date: str, model: str | None, as_csv: bool, as_json: bool, config: Path | None, until: str | None = None
) -> None:
    """Print the predictions of a day or of all days to `until`, row by row: memory does not grow with their number."""
    loaded = load_settings(config)
    days = loaded.days(date, until or date)
    first, last = str(days[0]), str(days[-1])
    with open_project_database(loaded, read_only=True) as project:
        versions = project.versions.models_in_use(model)
        rows = (
            {"date": str(day)} | variant_facts(row["variant"]) | shown(row)
            for day in days
            for row in project.rows.read_current_predictions(day, versions)
        )
        if as_json:
            print_json_list({"date": first, "until": last}, "predictions", rows)
        elif as_csv:
            print_csv((row | {"output": json.dumps(row["output"])} for row in rows), PREDICTION_FIELDS)
        else:
            _print_predictions(rows, first if first == last else f"{first} to {last}")


def show_rejections(date: str, model: str | None, as_json: bool, config: Path | None) -> None:
    loaded = load_settings(config)
    day = loaded.day(date)
    with open_project_database(loaded, read_only=True) as project:
        names = {version[1]: short_name(*version) for version in project.versions.models_of_day(day, model)}
        rows = (shown(row) for row in project.rows.read_rejections(day) if row["model_id"] in names)
        if as_json:
            print_json_list({"date": str(day)}, "rejections", rows)
            return
        heads = {"image_id": "id", "location": "image", "model_id": "model"}
        keys = ["image_id", "location", *(["model_id"] if len(names) > 1 else []), "reason", "attempts", "detail"]
        failures = [last_failure(project, day, model_id) for model_id in names]
        cells = [[names[row[key]] if key == "model_id" else row[key] or "" for key in keys] for row in rows]
    if cells:
        show_table([heads.get(key, key) for key in keys], cells, f"{day}: {len(cells):,} rejected")
    else:
        print(f"{day}: nothing rejected")
    for failure in dict.fromkeys(filter(None, failures)):
        print(one_line(failure))


def _print_predictions(rows: Iterator[dict[str, Any]], days: str) -> None:
    some = list(islice(rows, SHOWN_ROWS))
    more = sum(1 for _ in rows)
    if not some:
        print(f"{days}: no predictions")
        return
    of_objects = any(row["num_objects"] is not None for row in some)
    headings = ["id", "image", "model", "version", "label", "score", *(["objects stored"] if of_objects else [])]
    cells = [_cells(row)[: len(headings)] for row in some]
    show_table(headings, cells, f"{days}, {words_of(row['variant'] for row in some)}")
    print_more(more)


def _cells(row: dict[str, Any]) -> list[str]:
    texts = [row[key] or "" for key in ("image_id", "location", "model", "model_id", "label")]
    numbers = ((row["score"], "{:.3f}"), (row["num_objects"], "{:,}"))
    return texts + ["" if number is None else as_text.format(number) for number, as_text in numbers]


def show_changed(date: str | None, as_csv: bool, as_json: bool, config: Path | None) -> None:
    """Print the images, by time; replaced since a version in use predicted them."""
    loaded = load_settings(config)
    day = None if date is None else loaded.day(date)
    with open_project_database(loaded, read_only=True) as project:
        changed = find_changed(loaded, project, sorted(project.versions.ids_in_use()), day)
        rows = (_changed_row(one, loaded.run.time_zone) for one in changed)
        if as_json:
            print_json_list({"date": date and str(day)}, "images", rows)
        elif as_csv:
            print_csv(rows, CHANGED_FIELDS)
        else:
            _print_changed(rows, f" --date {day}" if day else "")


def _changed_row(image: ChangedImage, zone: str) -> dict[str, object]:
    row = asdict(image) | {"date": image.time.astimezone(find_zone(zone)).date(), "state": image.state}
    return shown({name: row[name] for name in CHANGED_FIELDS})


def _print_changed(rows: Iterator[dict[str, Any]], options: str) -> None:
    cells: list[list[str]] = []
    states = Counter[str]()
    for row in rows:
        states[row["state"]] += 1
        if len(cells) < SHOWN_ROWS:
            cells.append([row[name] or "" for name in CHANGED_FIELDS])
    if not cells:
        print("no image is known to have been replaced or to be missing")
        return
    title = f"{states['replaced']:,} replaced since they were predicted, {states['missing']:,} missing"
    show_table(("id", "image", "day", "state", "missing since"), cells, title)
    print_more(states.total() - len(cells))
    if states["replaced"]:
        print(f"`infer retry --replaced{options}{printed_options()}` has the replaced ones predicted again")
