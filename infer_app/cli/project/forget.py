"""`infer forget`: says what it will delete for good, asks, and does it."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import typer

from infer_app.cli.commands.maintain_commands import ForgetOptions
from infer_app.database.forgettable_results import (
    Forgettable,
    ForgettableCounts,
    count_only_these,
    forget,
    forget_versions,
    of_days_before,
    of_missing,
    of_versions,
)
from infer_app.database.listing.recorded_sources import SourceIdentity, forget_before
from infer_app.database.project_database import ProjectDatabase, open_project_database
from infer_app.database.results.model_versions import read_versions
from infer_app.database.results.runs import refuse_during_runs
from infer_app.errors import UsageError
from infer_app.model_names import short_name, versions_named
from infer_app.pipeline.files.changed_files import are_missing
from infer_app.plurals import counted
from infer_app.settings.load import load_settings


def forget_chosen(options: ForgetOptions) -> None:
    """Forget what one of the options names. Raises UsageError for none and for several."""
    if sum((options.missing, options.model is not None, options.before is not None)) != 1:
        raise UsageError("say what to forget, one at a time", "--missing, --model NAME or --before DATE")
    if options.model is not None:
        forget_model(options.model, options.yes, options.as_json, options.config)
    elif options.before is not None:
        forget_days(options.before, options.yes, options.as_json, options.config)
    else:
        forget_missing(options.yes, options.as_json, options.config)


def forget_missing(is_sure: bool, as_json: bool, config: Path | None) -> None:
    loaded = load_settings(config)
    with open_project_database(loaded) as project:
        find = partial(of_missing, project.database, project.source, partial(are_missing, loaded))
        _forget(project, _ToForget("pictures that are gone", find), is_sure, as_json)


def forget_days(before: str, is_sure: bool, as_json: bool, config: Path | None) -> None:
    """Forget the results of days before a date, and list their images no more. Raises UsageError for a future date."""
    loaded = load_settings(config)
    day = loaded.day(before)
    if day.date > loaded.day("today").date:
        raise UsageError(f"{day} is in the future: no run would take today's images", "name today, or a day before it")
    with open_project_database(loaded) as project:
        identity = SourceIdentity.of(project.source, project.database)
        find = partial(of_days_before, project.database, project.source, day)
        end = partial(forget_before, project.database, identity, day.start)
        said = "Images of these days count as pending no more, and no run takes them, not even one registered later."
        _forget(project, _ToForget(f"days before {day}", find, end, said), is_sure, as_json)


def forget_model(model: str, is_sure: bool, as_json: bool, config: Path | None) -> None:
    """Forget the results of a version, or of all versions of a name. Raises UsageError if one is in use."""
    loaded = load_settings(config)
    with open_project_database(loaded) as project:
        with project.database.read() as connection:
            known = read_versions(connection)
        versions = versions_named(model, [(one.name, one.model_id) for one in known])
        if not versions:
            raise UsageError(
                f"no model {model!r} has run on this database", "`infer model list` prints those that have"
            )
        in_use = [one.model_id for one in known if one.in_use_since]
        if used := [version for version in versions if version[1] in in_use]:
            raise UsageError(
                f"{short_name(*used[0])} is in use: its images would be predicted again",
                f"put another version in use before, `infer model use NAME`, or remove it: "
                f"`infer model remove {shlex.quote(short_name(*used[0]))} --force`",
            )
        model_ids = sorted({model_id for _, model_id in versions})
        find = partial(of_versions, project.database, model_ids)
        only = count_only_these(project.database, model_ids, in_use)
        pending = (
            f"No model in use has a result of {counted(only, 'image')} of them: they are pending then." if only else ""
        )
        names = " and ".join(short_name(*version) for version in versions)
        before = partial(project.database.transact, partial(forget_versions, model_ids=model_ids))
        _forget(project, _ToForget(names, find, before, pending), is_sure, as_json)


@dataclass(frozen=True, slots=True)
class _ToForget:
    """The results to forget: `find` yields them, once `before` was called."""

    what: str
    find: Callable[[], Iterator[Forgettable]]
    before: Callable[[], object] = lambda: None
    consequence: str = ""


def _forget(project: ProjectDatabase, one: _ToForget, is_sure: bool, as_json: bool) -> None:
    """Ask whether it is to be deleted, delete it, and print how much it was."""
    project.database.transact(refuse_during_runs)
    found = ForgettableCounts.of(one.find())
    typer.echo(f"{one.what}: {_describe(found)} to be deleted for good. {one.consequence}".rstrip(), err=as_json)
    if not is_sure:
        if not sys.stdin.isatty():
            raise UsageError("nothing was deleted: there is no terminal to ask on", "add --yes if this is meant")
        if not typer.confirm("Delete?", err=as_json):
            typer.echo("nothing was deleted", err=as_json)
            return
    one.before()
    deleted = forget(project.database, one.find())
    print(json.dumps(asdict(deleted)) if as_json else f"deleted {_describe(deleted)}")


def _describe(amount: ForgettableCounts) -> str:
    objects = f" with {counted(amount.objects, 'object')}" if amount.objects else ""
    images = f" and {counted(amount.images, 'registered image')}" if amount.images else ""
    num_made = amount.of_second_networks
    made = f" ({counted(num_made, 'result')} of second networks among them)" if num_made else ""
    rejections = counted(amount.rejections, "rejection")
    return f"{counted(amount.predictions, 'prediction')}{objects}, {rejections}{images}{made}"
