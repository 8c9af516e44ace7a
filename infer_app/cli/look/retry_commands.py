"""`infer retry`: makes images pending again."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from infer_app.artifact.model_names import Version, short_name
from infer_app.ask.image_report import find_place
from infer_app.ask.next_run import NextRun
from infer_app.base.day import find_zone
from infer_app.base.domain import Reason
from infer_app.base.errors import UsageError
from infer_app.base.printing import counted, printed_options
from infer_app.base.settings.load import LoadedSettings, load_settings
from infer_app.cli.commands.maintain_commands import RetryOptions
from infer_app.run.files.changed_files import compare_replaced, find_changed
from infer_app.tables.forget_results import forget_rejections, forget_results
from infer_app.tables.listing.image_registry import queue_images
from infer_app.tables.project_database import ProjectDatabase, open_project_database
from infer_app.tables.results.model_versions import second_networks_of
from infer_app.tables.rows.results import read_rejections


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
    day = loaded.day(date)
    with open_project_database(loaded) as project:
        retried = 0
        versions = project.versions.models_of_day(day, model)
        for model_id in {model_id for _, model_id in versions}:
            rejected = read_rejections(project, day, model_id)
            numbers = [one.picture for one in rejected if not reasons or one.reason in reasons]
            retried += forget_rejections(project.database, numbers, model_id)
        in_use = project.versions.ids_in_use()
        seconds = _others_of_detectors(project, versions)
    if as_json:
        print(json.dumps({"date": str(day), "retried": retried, "second_networks": seconds}))
    else:
        tried = [short_name(*version) for version in versions if version[1] not in in_use]
        images = f"`infer run --date {day}{printed_options(*tried)}` tries again"
        too = _too(seconds) if retried else ""
        print(f"{day}: {counted(retried, 'rejection')} removed{too}{f'; {images}' if retried else ''}")


def retry_images(image_ids: list[str], date: str | None, model: str | None, as_json: bool, config: Path | None) -> None:
    """Delete the results of single images by the models that runs use, and print what predicts them again.

    Raises UsageError, before anything is deleted, for an image that no run would predict again, and DayHeld while a run
    holds the day of one.
    """
    loaded, next_run = _load(model, config)
    day = None if date is None else loaded.day(date)
    models = next_run.named(model)
    wanted = list(dict.fromkeys(image_ids))
    with open_project_database(loaded) as project:
        places = {image_id: find_place(loaded, project, image_id, day) for image_id in wanted}
        days = sorted({its_day for _, its_day in places.values()})
        numbers = (project.source.find_picture(image_id, location) for image_id, (location, _) in places.items())
        own = [number for number in numbers if number is not None]
        retried = forget_results(project.database, dict.fromkeys(models, own), days)
        seconds = _others_of_detectors(project, models) if retried else []
    _print_retried(wanted, retried, next_run.commands(days), seconds, as_json)


def retry_replaced(date: str | None, model: str | None, as_json: bool, config: Path | None) -> None:
    """Delete the results that are of a replaced file, by the models that runs use, and queue the images.

    Results of the files as they are now stay. Raises DayHeld, before anything is deleted, while a run holds a day.
    """
    loaded, next_run = _load(model, config)
    day, zone = None if date is None else loaded.day(date), find_zone(loaded.run.time_zone)
    with open_project_database(loaded) as project:
        find = partial(find_changed, loaded, project, day=day)
        if loaded.lists_own_images:
            compare_replaced(loaded, project.database, find([model_id for _, model_id in next_run.models]))
        by_version = {
            version: [one for one in find([version[1]]) if one.state == "replaced"] for version in next_run.models
        }
        every = (one for some in by_version.values() for one in some)
        found = {one.picture: one for one in sorted(every, key=lambda one: (one.time, one.picture))}
        days = sorted({one.time.astimezone(zone).date() for one in found.values()})
        if loaded.lists_own_images:
            project.database.transact(lambda connection: queue_images(connection, list(found)))
        results = {version: [one.picture for one in some] for version, some in by_version.items()}
        retried = forget_results(project.database, results, days) if found else 0
        # Of a file that was not read no checksum says whether it was the former one.
        retried += sum(forget_rejections(project.database, list(found), model_id) for _, model_id in next_run.models)
        commands = next_run.with_late(project, loaded.run.time_zone).commands(days)
        seconds = _others_of_detectors(project, next_run.models) if retried else []
    _print_retried([one.image_id for one in found.values()], retried, commands, seconds, as_json)


def _load(model: str | None, config: Path | None) -> tuple[LoadedSettings, NextRun]:
    """Return the settings with the next run, which is of `model` if there is one. Raises why no run is possible."""
    loaded = load_settings(config, {"run": {"models": [model] if model else None}})
    next_run = NextRun.of(loaded, model)
    if next_run.error is not None:
        raise next_run.error
    return loaded, next_run


def _print_retried(
    images: Sequence[str], retried: int, commands: Sequence[str], second_networks: Sequence[str], as_json: bool
) -> None:
    """Print how many results of images were removed, and of which second networks, and what predicts them again."""
    if as_json:
        found = {"images": images, "retried": retried, "commands": commands, "second_networks": second_networks}
        print(json.dumps(found))
        return
    then = " and ".join(f"`{command}`" for command in commands)
    removed = f"{counted(retried, 'result')} of {counted(len(images), 'image')} removed{_too(second_networks)}"
    print(f"{removed}; {then} predicts again" if commands else removed)


def _too(second_networks: Sequence[str]) -> str:
    return f", those of {', '.join(second_networks)} with them" if second_networks else ""


def _others_of_detectors(project: ProjectDatabase, versions: Sequence[Version]) -> list[str]:
    """Return the second networks, other than these models themselves, that take the objects of one of these models."""
    names = {name for name, _ in versions}
    with project.database.read() as connection:
        return [one for one in second_networks_of(connection, names) if one not in names]
