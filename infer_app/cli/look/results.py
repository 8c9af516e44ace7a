"""`infer predictions`, `rejects`, `retry` and `verify`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from infer_app.cli.terminal.output import show_table
from infer_app.database.project_database import ProjectDatabase, open_project_database
from infer_app.database.queries.figures import days_run
from infer_app.database.queries.image_history import read_history
from infer_app.database.results.forget_results import forget_rejections, forget_results
from infer_app.day import Day, each_date, parse_date
from infer_app.domain import Reason
from infer_app.errors import EXIT_BUG, EXIT_OK, UsageError
from infer_app.export.tables import csv_line
from infer_app.locations import as_location
from infer_app.locations import shown as shown_location
from infer_app.model_names import Version, short_name
from infer_app.plurals import counted
from infer_app.reporting.image_report import find_place
from infer_app.reporting.missing_prediction import NextRun
from infer_app.run_report import DayCounts, precision_name
from infer_app.settings.load import LoadedSettings, load_settings
from infer_app.telemetry.printed_options import printed_options
from infer_app.telemetry.summary_line import balance

SHOWN_ROWS = 50
MAX_VERSIONS = 1000  # of a day
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
    "precision",
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
            {"date": str(day), "precision": precision_name(row["variant"])} | shown(row)
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
    commands = next_run.commands(days)
    if as_json:
        print(json.dumps({"images": wanted, "retried": retried, "commands": commands}))
        return
    then = " and ".join(f"`{command}`" for command in commands)
    print(f"{counted(retried, 'result')} of {counted(len(wanted), 'image')} removed; {then} predicts again")


def _has_result(project: ProjectDatabase, next_run: NextRun, image_id: str, location: str) -> bool:
    """Return whether a model that runs use has a result of this image, and not of another one that had its id."""
    picture = project.source.picture_of(image_id, location)
    return any(one.state != "pending" for one in read_history(project.database, next_run.models, picture))


@dataclass(frozen=True, slots=True)
class VerifiedCounts:
    """The counts of one model on one day; without a model when none has run yet."""

    model: str | None
    model_id: str | None
    counts: DayCounts
    problems: list[str]
    in_use: bool = True  # the version in use of its name

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "model_id": self.model_id,
            "in_use": self.in_use,
            **asdict(self.counts),
            "balanced": self.counts.balanced and not self.problems,
            "problems": self.problems,
        }

    def __str__(self) -> str:
        model = f"{self.model} {self.model_id}" if self.model else "(no model has run)"
        model += "" if self.in_use else " (not in use)"
        return "\n  wrong: ".join([f"{model}: {balance(self.counts)}", *self.problems])


def verify_counts(date: str, model: str | None, as_json: bool, config: Path | None) -> int:
    """Print the counts of a day; return 0 if they add up for every model that was asked for, else 1."""
    loaded = load_settings(config)
    day = _day(loaded, date)
    with open_project_database(loaded, read_only=True) as project:
        day_queries = project.day_queries
        in_use = day_queries.ids_in_use()
        checked = [
            VerifiedCounts(
                name,
                model_id,
                day_queries.count_day(day, model_id),
                day_queries.find_problems(day, model_id),
                model_id in in_use,
            )
            for name, model_id in _versions_to_verify(project, day, model)
        ]
        checked = checked or [VerifiedCounts(None, None, day_queries.count_day(day, ""), [])]
    balanced = not any(one.problems for one in checked)
    if as_json:
        print(json.dumps({"date": str(day), "balanced": balanced, "models": [one.to_json() for one in checked]}))
    else:
        for one in checked:
            print(f"{day} {one}")
        print("the counts add up" if balanced else "the counts do not add up, or rows can have no result: see above")
    return EXIT_OK if balanced else EXIT_BUG


def _day(loaded: LoadedSettings, text: str) -> Day:
    zone = loaded.run.time_zone
    return Day.of(parse_date(text, zone), zone)


def _versions_to_verify(project: ProjectDatabase, day: Day, wanted: str | None) -> list[Version]:
    """Return the version that each name did the day with and, unless one is wanted, the others that ran on the day."""
    did_day = project.day_queries.models_of_day(day, wanted)
    if wanted is not None:
        return did_day
    ran = [(name, model_id) for _, name, model_id in days_run(project.database, MAX_VERSIONS, day.date)]
    return list(dict.fromkeys([*did_day, *ran]))


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
    precisions = sorted({row["precision"] for row in shown})
    title = f"{days}, {' and '.join(precisions)} precision"
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
