"""`infer predictions`, `rejects`, `retry` and `verify`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

from infer_app.cli.commands.maintain_commands import RetryOptions
from infer_app.cli.terminal.output import show_table
from infer_app.database.listing.image_registry import queue_images
from infer_app.database.project_database import ProjectDatabase, open_project_database
from infer_app.database.queries.image_history import read_history
from infer_app.database.results.forget_results import forget_rejections, forget_results
from infer_app.day import Day, each_date, find_zone, parse_date
from infer_app.domain import Reason
from infer_app.errors import UsageError
from infer_app.export.tables import csv_line
from infer_app.locations import as_location
from infer_app.locations import shown as shown_location
from infer_app.model_names import short_name
from infer_app.model_variants import variant_facts, words_of
from infer_app.pipeline.files.changed_files import compare_replaced, find_changed
from infer_app.plurals import counted
from infer_app.reporting.image_report import find_place
from infer_app.reporting.missing_prediction import NextRun
from infer_app.settings.load import LoadedSettings, load_settings
from infer_app.telemetry.printed_options import printed_options

SHOWN_ROWS = 50
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
    first = _day(loaded, date)
    last = first if until is None else _day(loaded, until)
    dates = each_date(first.date, last.date, ("--date", "--until"))
    with open_project_database(loaded, read_only=True) as project:
        versions = project.day_queries.models_in_use(model)
        rows = (
            {"date": str(day)} | variant_facts(row["variant"]) | shown(row)
            for day in (Day.of(one, first.zone) for one in dates)
            for row in project.day_queries.read_current_predictions(day, versions)
        )
        if as_json:
            print_json_list({"date": str(first), "until": str(last)}, "predictions", rows)
        elif as_csv:
            print_csv((row | {"output": json.dumps(row["output"])} for row in rows), PREDICTION_FIELDS)
        else:
            _print_predictions(rows, str(first) if first == last else f"{first} to {last}")


def show_rejections(date: str, model: str | None, as_json: bool, config: Path | None) -> None:
    loaded = load_settings(config)
    day = _day(loaded, date)
    with open_project_database(loaded, read_only=True) as project:
        names = {
            model_id: short_name(name, model_id) for name, model_id in project.day_queries.models_of_day(day, model)
        }
        rows = (shown(row) for row in project.day_queries.read_rejections(day) if row["model_id"] in names)
        if as_json:
            print_json_list({"date": str(day)}, "rejections", rows)
            return
        keys = ["image_id", "location", *(["model_id"] if len(names) > 1 else []), "reason", "attempts", "detail"]
        cells = [[names[row[key]] if key == "model_id" else row[key] or "" for key in keys] for row in rows]
    if cells:
        heads = {"image_id": "id", "location": "image", "model_id": "model"}
        show_table([heads.get(key, key) for key in keys], cells, f"{day}: {len(cells):,} rejected")
    else:
        print(f"{day}: nothing rejected")


def retry(options: RetryOptions) -> None:
    """Make images pending again: the named ones, the replaced ones, or a day's rejected ones."""
    given = {"--image": options.image, "--replaced": options.replaced, "--reason": options.reason}
    if len(both := [flag for flag, value in given.items() if value]) > 1:
        raise UsageError(f"{both[0]} and {both[1]} exclude each other", "leave one of them out")
    date, model, as_json, config = options.date, options.model, options.as_json, options.config
    if options.image:
        retry_images(options.image, date, model, as_json, config)
    elif options.replaced:
        retry_replaced(date, model, as_json, config)
    else:
        retry_rejected(date or "yesterday", model, options.reason or [], as_json, config)


def retry_rejected(date: str, model: str | None, reasons: list[str], as_json: bool, config: Path | None) -> None:
    """Delete the rejections of a day's images, which makes them pending again, and print what predicts them."""
    unknown = sorted(set(reasons) - {reason.value for reason in Reason})
    if unknown:
        raise UsageError(f"no such reason: {unknown[0]}", f"there are {', '.join(reason.value for reason in Reason)}")
    loaded = load_settings(config)
    day = _day(loaded, date)
    with open_project_database(loaded) as project:
        retried = 0
        versions = project.day_queries.models_of_day(day, model)
        for model_id in {model_id for _, model_id in versions}:
            rows = project.day_queries.read_rejections(day, model_id)
            ids = [row["image_id"] for row in rows if not reasons or row["reason"] in reasons]
            retried += forget_rejections(project.database, ids, model_id)
        in_use = project.day_queries.ids_in_use()
    if as_json:
        print(json.dumps({"date": str(day), "retried": retried}))
    else:
        tried = [short_name(*version) for version in versions if version[1] not in in_use]
        images = f"`infer run --date {day}{printed_options(*tried)}` tries again"
        print(f"{day}: {counted(retried, 'rejection')} removed{f'; {images}' if retried else ''}")


def retry_images(image_ids: list[str], date: str | None, model: str | None, as_json: bool, config: Path | None) -> None:
    """Delete the results of single images by the models that runs use, and print what predicts them again.

    Raises UsageError, before anything is deleted, for an image that no run would predict again, and DayHeld while a run
    holds the day of one.
    """
    loaded = load_settings(config, {"run": {"models": [model] if model else None}})
    next_run = NextRun.of(loaded, model)
    if next_run.error is not None:
        raise next_run.error
    day = None if date is None else _day(loaded, date)
    wanted = list(dict.fromkeys(image_ids))
    with open_project_database(loaded) as project:
        places = {image_id: find_place(loaded, project, image_id, day) for image_id in wanted}
        days = sorted({its_day for _, its_day in places.values()})
        own = [
            image_id for image_id, (location, _) in places.items() if _has_result(project, next_run, image_id, location)
        ]
        retried = forget_results(project.database, own, days, next_run.models)
    _print_retried(wanted, retried, next_run.commands(days), as_json)


def retry_replaced(date: str | None, model: str | None, as_json: bool, config: Path | None) -> None:
    """Delete the results of the images that were replaced since, by the models that runs use, and queue these images.

    Raises DayHeld, before anything is deleted, while a run holds the day of one.
    """
    loaded = load_settings(config, {"run": {"models": [model] if model else None}})
    next_run = NextRun.of(loaded, model)
    if next_run.error is not None:
        raise next_run.error
    day, zone = None if date is None else _day(loaded, date), find_zone(loaded.run.time_zone)
    with open_project_database(loaded) as project:
        find = partial(find_changed, loaded, project, [model_id for _, model_id in next_run.models], day)
        if loaded.lists_own_images:
            compare_replaced(loaded, project.database, find())
        found = [one for one in find() if one.state == "replaced"]
        ids, days = [one.image_id for one in found], sorted({one.time.astimezone(zone).date() for one in found})
        if loaded.lists_own_images:
            project.database.transact(lambda connection: queue_images(connection, list(map(int, ids))))
        retried = forget_results(project.database, ids, days, next_run.models) if ids else 0
        commands = next_run.with_late(project, loaded.run.time_zone).commands(days)
    _print_retried(ids, retried, commands, as_json)


def _print_retried(image_ids: Sequence[str], retried: int, commands: Sequence[str], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"images": image_ids, "retried": retried, "commands": commands}))
        return
    then = " and ".join(f"`{command}`" for command in commands)
    removed = f"{counted(retried, 'result')} of {counted(len(image_ids), 'image')} removed"
    print(f"{removed}; {then} predicts again" if commands else removed)


def _has_result(project: ProjectDatabase, next_run: NextRun, image_id: str, location: str) -> bool:
    """Return whether a model that runs use has a result of this image, and not of another one that had its id."""
    picture = project.source.picture_of(image_id, location)
    return any(one.state != "pending" for one in read_history(project.database, next_run.models, picture))


def _day(loaded: LoadedSettings, text: str) -> Day:
    zone = loaded.run.time_zone
    return Day.of(parse_date(text, zone), zone)


def shown(row: dict[str, Any]) -> dict[str, Any]:
    return {key: _plain(key, value) for key, value in row.items()}


def _plain(key: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC).isoformat()  # our tables hold UTC without a zone
    if isinstance(value, date):
        return value.isoformat()
    return shown_location(as_location(value)) if key == "location" and value else value


def _print_predictions(rows: Iterator[dict[str, Any]], days: str) -> None:
    shown = [row for _, row in zip(range(SHOWN_ROWS), rows, strict=False)]
    more = sum(1 for _ in rows)
    if not shown:
        print(f"{days}: no predictions")
        return
    of_objects = any(row["num_objects"] is not None for row in shown)
    cells = [
        (
            row["image_id"],
            row["location"] or "",
            row["model"],
            row["model_id"],
            row["label"] or "",
            _number(row["score"]),
            *([_whole(row["num_objects"])] if of_objects else []),
        )
        for row in shown
    ]
    title = f"{days}, {words_of(row['variant'] for row in shown)}"
    objects = ["objects stored"] if of_objects else []
    show_table(("id", "image", "model", "version", "label", "score", *objects), cells, title)
    if more:
        print(f"and {more:,} more: --csv or --json gives all of them")


def _number(score: float | None) -> str:
    return "" if score is None else f"{score:.3f}"


def _whole(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def print_csv(rows: Iterable[dict[str, Any]], fields: Sequence[str]) -> None:
    sys.stdout.write(csv_line(fields))
    sys.stdout.writelines(csv_line(map(row.get, fields)) for row in rows)


def print_json_list(head: dict[str, Any], key: str, rows: Iterator[dict[str, Any]]) -> None:
    """Print one object, row by row: a day may have more rows than fit in memory."""
    lines = (json.dumps(row) for row in rows)
    first = next(lines, "")  # before anything is written: an error here prints its own JSON object
    sys.stdout.write(f'{json.dumps(head)[:-1]}, "{key}": [{first}')
    sys.stdout.writelines(f",\n{line}" for line in lines)
    sys.stdout.write("]}\n")
