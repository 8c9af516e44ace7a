"""`infer forget`: says what it will delete for good, asks, and does it."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import typer

from infer_app.artifact.model_names import short_name, versions_named
from infer_app.ask.figures.similarity import vector_of
from infer_app.base.atomic_file import new_content
from infer_app.base.errors import UsageError
from infer_app.base.printing import counted
from infer_app.base.settings.load import LoadedSettings, load_settings
from infer_app.cli.commands.maintain_commands import ForgetOptions
from infer_app.run.files.changed_files import are_missing
from infer_app.run.files.watched_folders import WatchedFolders
from infer_app.run.known_source import check_source
from infer_app.run.note_facts import place_again
from infer_app.tables.forgettable_results import (
    Forgettable,
    ForgettableCounts,
    count_only_these,
    count_results,
    forget,
    forget_versions,
    of_days_before,
    of_missing,
    of_versions,
    read_rows,
)
from infer_app.tables.project_database import ProjectDatabase, open_project_database
from infer_app.tables.results.model_versions import read_versions
from infer_app.tables.results.project_row import forget_before
from infer_app.tables.results.runs import refuse_during_runs
from infer_app.tables.results.schema import pictures


def forget_chosen(options: ForgetOptions) -> None:
    """Forget what one of the options names. Raises UsageError for none and for several."""
    given = {_missing: options.missing, _of_model: options.model is not None, _of_days: options.before is not None}
    if sum(given.values()) != 1:
        raise UsageError("say what to forget, one at a time", "--missing, --model NAME or --before DATE")
    [find] = [one for one, is_given in given.items() if is_given]
    loaded = load_settings(options.config)
    with open_project_database(loaded) as project:
        _forget(project, find(loaded, project, options), options)
        place_again(loaded, project)  # what is left of events whose pictures are gone


def _missing(loaded: LoadedSettings, project: ProjectDatabase, options: ForgetOptions) -> _ToForget:
    """Return the results of pictures that are gone.

    Raises StorageUnavailable if their storage may be away, and UsageError for another [source] than the last run had.
    """
    check_source(loaded, project, is_meant=False, read_only=True)
    if options.even_most and loaded.watched:
        WatchedFolders(loaded, project.database).mark_deleted()
    a_day_ago = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=1) if options.yes else None
    are_gone = partial(are_missing, loaded, options.even_most)
    find = partial(of_missing, project.database, project.source, are_gone, a_day_ago)
    missing = WatchedFolders(loaded, project.database).count_missing()
    said = "" if project.source.registered or not options.yes else _describe_kept(project, find)
    return _ToForget("pictures that are gone", find, consequence=said, missing=list(missing))


def _describe_kept(project: ProjectDatabase, find: Callable[[], Iterator[Forgettable]]) -> str:
    """Say how many results of rows that are gone stay, since they may only be away."""
    gone = of_missing(project.database, project.source, lambda paths: [True] * len(paths))
    kept = ForgettableCounts.of(gone).num_results - ForgettableCounts.of(find()).num_results
    what = f"{counted(kept, 'result')} of rows that runs have not missed for 24 hours"
    return f"{what} stay: without --yes it asks." if kept else ""


def _of_days(loaded: LoadedSettings, project: ProjectDatabase, options: ForgetOptions) -> _ToForget:
    """Return the results of days before a date, which are listed no more then. Raises UsageError for a future date."""
    assert options.before is not None
    day = loaded.day(options.before)
    if day.date > loaded.day("today").date:
        raise UsageError(f"{day} is in the future: no run would take today's images", "name today, or a day before it")
    find = partial(of_days_before, project.database, project.source, day)
    end = partial(forget_before, project.database, day.start)
    said = "Images of these days count as pending no more, and no run takes them, not even one registered later."
    return _ToForget(f"days before {day}", find, end, said, partial(_remove_pages, loaded, day.date))


def _remove_pages(loaded: LoadedSettings, first_kept: date) -> int:
    from infer_app.ask.page.reports import remove_reports  # loads what no other command here needs

    return remove_reports(loaded, first_kept)


def _of_model(loaded: LoadedSettings, project: ProjectDatabase, options: ForgetOptions) -> _ToForget:
    """Return the results of a version, or of all versions of a name. Raises UsageError if one is in use."""
    assert options.model is not None
    with project.database.read() as connection:
        known = read_versions(connection)
    versions = versions_named(options.model, [(one.name, one.model_id) for one in known])
    if not versions:
        raise UsageError(
            f"no model {options.model!r} has run on this database", "`infer model list` prints those that have"
        )
    in_use = [one.model_id for one in known if one.in_use_since]
    if used := [version for version in versions if version[1] in in_use]:
        raise UsageError(
            f"{short_name(*used[0])} is in use: its images would be predicted again",
            f"put another version in use before, `infer model use NAME`, or remove it: "
            f"`infer model remove {shlex.quote(short_name(*used[0]))} --force`",
        )
    model_ids = sorted({model_id for _, model_id in versions})
    only = count_only_these(project.database, model_ids, in_use)
    said = f"No model in use has a result of {counted(only, 'image')} of them: they are pending then. " if only else ""
    names = " and ".join(short_name(*version) for version in versions)
    end = partial(forget_versions, model_ids=model_ids)
    before = partial(project.database.transact, end)
    return _ToForget(names, partial(of_versions, project.database, model_ids), before, said, is_of_listed=False)


@dataclass(frozen=True, slots=True)
class _ToForget:
    """The results to forget: `find` yields them, once `before` was called."""

    what: str
    find: Callable[[], Iterator[Forgettable]]
    before: Callable[[], object] = lambda: None
    consequence: str = ""
    after: Callable[[], int] = int  # removes pages and returns their number
    missing: Sequence[tuple[int, int, str]] = ()  # of each watched folder: how many images are, of how many
    is_of_listed: bool = True  # its pictures are registered ones, or rows of the table, whichever is listed


def _forget(project: ProjectDatabase, one: _ToForget, options: ForgetOptions) -> None:
    """Ask whether it is to be deleted, delete it, and print how much it was."""
    project.database.transact(refuse_during_runs)
    found = ForgettableCounts.of(one.find())
    num_results, num_listed = (count_results(project.database, source) for source in (None, project.source))
    told = f"{one.what}: {_describe(found)} to be deleted for good. {one.consequence}"
    if one.is_of_listed and num_listed < num_results:
        kind = "a table that was listed" if project.source.registered else "registered photos"
        told = f"{told.rstrip()} {counted(num_results - num_listed, 'result')} of {kind} before stay."
    typer.echo(told.rstrip(), err=options.as_json)
    if not options.even_most:
        _refuse_most(found.num_results, num_listed if one.is_of_listed else num_results, "results")
        for num_missing, num_images, what in one.missing:
            _refuse_most(num_missing, num_images, what)
    if not options.yes:
        if not sys.stdin.isatty():
            raise UsageError("nothing was deleted: there is no terminal to ask on", "add --yes if this is meant")
        if not typer.confirm("Delete?", err=options.as_json):
            typer.echo("nothing was deleted", err=options.as_json)
            return
    if options.to is not None:
        rows = (row for part in one.find() for row in read_rows(project.database, part))
        _write_forgotten(options.to, rows)
    one.before()
    deleted = forget(project.database, one.find(), found)
    deleted.pages = one.after()
    print(json.dumps(asdict(deleted)) if options.as_json else f"deleted {_describe(deleted)}")


def _write_forgotten(path: Path, rows: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Write a new file of JSON lines, complete and on its disk at the end: of each row its table and all its columns.

    Raises UsageError where it exists or can't be written.
    """
    if path.exists():
        raise UsageError(f"--to {path} exists, nothing was deleted", "name a new file")
    written = set[object]()
    try:
        with new_content(path) as file:
            for table, row in rows:
                if table == pictures.name:
                    if row["id"] in written:
                        continue  # it has results of several models
                    written.add(row["id"])
                file.write(_line(table, row))
    except OSError as error:
        found = f"--to {path}: {error.strerror or error}; nothing was deleted"
        raise UsageError(found, "is there such a folder, with space left?") from None


def _line(table: str, row: dict[str, Any]) -> bytes:
    if row.get("vector") is not None:
        row["vector"] = vector_of(row["vector"], row["vector_dtype"]).astype(float).tolist()
    return json.dumps({"table": table} | row, default=str).encode() + b"\n"


def _refuse_most(num_deleted: int, num_all: int, what: str) -> None:
    """Raise UsageError for more than half: a storage may be away, a table be loaded anew, a date be mistyped."""
    if 2 * num_deleted > num_all:
        raise UsageError(
            f"nothing was deleted: it is most of what there is, {num_deleted:,} of {num_all:,} {what}",
            "is all there, the storage and the table that lists the images? If it is meant, add --even-most",
        )


def _describe(amount: ForgettableCounts) -> str:
    objects = f" with {counted(amount.objects, 'object')}" if amount.objects else ""
    images = f" and {counted(amount.images, 'registered image')}" if amount.images else ""
    num_made = amount.of_second_networks
    made = f" ({counted(num_made, 'result')} of second networks among them)" if num_made else ""
    pages = f" and {counted(amount.pages, 'page')} of reports" if amount.pages else ""
    rejections = counted(amount.rejections, "rejection")
    return f"{counted(amount.predictions, 'prediction')}{objects}, {rejections}{made}{images}{pages}"
