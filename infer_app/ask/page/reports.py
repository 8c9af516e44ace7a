"""Writes the reports: an HTML page and a JSON file for each day, and the page of all days."""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

from infer_app.artifact.model_names import Version
from infer_app.ask.day_report import DayReport, gather
from infer_app.ask.figures.object_figures import ImageObjects
from infer_app.ask.page.index_rows import IndexRow
from infer_app.ask.page.page import pictured, render_day, render_index
from infer_app.ask.page.thumbnails import MAX_BYTES, SIZE_WITH_BOXES, ThumbnailLimits, make_thumbnails
from infer_app.base.atomic_file import replace_file
from infer_app.base.day import Day
from infer_app.base.errors import UsageError, os_errors_as
from infer_app.base.settings.load import LoadedSettings
from infer_app.tables.day.facts import DayReader
from infer_app.tables.project_database import ProjectDatabase, open_project_database, read_limits

log = logging.getLogger(__name__)

INDEX = "index.html"
MAX_DAYS = 366  # in the page of all days
KEPT_UP_TO_DATE = 14  # the newest days, whose pages are written anew after a later run of the day


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A report and the files it was written to."""

    report: DayReport
    html: Path
    data: Path

    def to_json(self) -> dict[str, object]:
        models = [
            {"model": one.model, "model_id": one.model_id, "verdict": one.verdict, "day_state": asdict(one.day_state)}
            for one in self.report.models
        ]
        files = {"file": str(self.html), "data": str(self.data)}
        return self.report.summary() | {"date": str(self.report.date)} | files | {"models": models}


def write_reports(
    loaded: LoadedSettings,
    days: Sequence[Day],
    tried: Sequence[str] = (),
    out: Path | None = None,
    *,
    after_run: bool = False,
) -> list[WrittenReport]:
    """Write the report of each day, oldest first, and the page of all days; of several those that had images.

    A page has the models that ran on the day and the versions that were `tried`, as NAME@ID. Pages of the last days are
    written anew, with what was tried, if their day was run since; after a run the newest days that it had images of
    get a page, as those of a card that came late. Raises UsageError if no model has run.
    """
    with open_project_database(loaded, read_only=True) as project:
        states = DayReader(project, loaded.run.max_rejected)
        wanted = [day for day in days if len(days) == 1 or project.count(day)]
        written = [_write(loaded, project, states, day, tried, out) for day in wanted]
        for page_of, names in _pages_to_renew(loaded, project, tried, after_run=after_run) if out is None else ():
            try:
                _write(loaded, project, states, loaded.day(str(page_of)), _still_known(project, names))
            except UsageError as error:
                log.warning("the report of %s stays as it was: %s", page_of, error)
    if out is None:
        write_index(loaded)
    return written


def _pages_to_renew(
    loaded: LoadedSettings, project: ProjectDatabase, tried: Sequence[str], *, after_run: bool
) -> Iterator[tuple[date, list[str]]]:
    """Yield the days whose pages are older than their last run, each with the versions that its page has besides."""
    changed = project.versions.days_changed(KEPT_UP_TO_DATE)
    of_run = dict([*project.versions.days_of_last_run().items()][-KEPT_UP_TO_DATE:]) if after_run else {}
    for run_date, ended_at in sorted((changed | of_run).items()):
        row = IndexRow.read(_page_of(loaded, run_date), run_date)
        has_page, was_run_now = row is not None, run_date in of_run
        if ended_at and (has_page or was_run_now) and _is_older(row, ended_at):
            yield run_date, [*(tried if was_run_now else ()), *(row.tried if row else ())]


def write_index(loaded: LoadedSettings) -> None:
    """Write the page of all days, which says of the newest days what their pages say."""
    days = filter(None, map(_day_of, loaded.reports_folder.glob("????-??-??.html")))
    newest = sorted(days, reverse=True)[:MAX_DAYS]
    rows = filter(None, (IndexRow.read(_page_of(loaded, day), day) for day in newest))
    _save(loaded.reports_folder / INDEX, render_index(list(rows), datetime.now(UTC)).encode())


def remove_reports(loaded: LoadedSettings, first_kept: date) -> int:
    """Remove the reports of days before a date, with their JSON files; return the number of pages.

    Of a name with more than a date, as DATE-MODEL, only a page and its JSON file side by side are a report.
    """
    files = loaded.reports_folder.glob("????-??-??*")
    written = [file for file in files if _is_report(file) and (_day_of(file) or first_kept) < first_kept]
    for file in written:
        file.unlink(missing_ok=True)
    if written and (loaded.reports_folder / INDEX).exists():
        write_index(loaded)  # which has links to them
    return sum(file.suffix == ".html" for file in written)


def choose_models(project: ProjectDatabase, day: Day, tried: Sequence[str] = ()) -> list[Version]:
    """Return of each name that ran on the day the version that did it, and what is named; if none ran, of all names.

    Raises UsageError if no model has run.
    """
    known, ran = project.versions.models_of_day(day), dict(project.versions.versions_run(day))
    chosen = [version for version in known if version[0] in ran] or known
    chosen += [version for name in tried for version in project.versions.models_of_day(day, name)]
    if not chosen:
        raise UsageError("no model has run on this database", "`infer run` first")
    return sorted(set(chosen))


def _write(
    loaded: LoadedSettings,
    project: ProjectDatabase,
    states: DayReader,
    day: Day,
    tried: Sequence[str] = (),
    out: Path | None = None,
) -> WrittenReport:
    file = out or _page_of(loaded, day.date)
    data = file.with_suffix(".json")
    if data == file:
        raise UsageError(f"--out {file} is the name of the JSON file", "give the page a name that ends in .html")
    versions = choose_models(project, day, tried)
    report = gather(project, states, day, versions, wants_facts=loaded.wants_facts)
    limits = ThumbnailLimits(read_limits(loaded), loaded.images.max_pixels)
    if any(isinstance(image, ImageObjects) for model in report.models for image in model.predicted):
        limits = replace(limits, size=SIZE_WITH_BOXES, max_bytes=2 * MAX_BYTES)
    thumbnails = make_thumbnails(pictured(report), limits)
    _save(file, render_day(report, thumbnails, data.name, out is None).encode())
    content = report.to_json() | {"tried": [*tried]}
    _save(data, json.dumps(content, default=_plain, indent=1).encode())  # last: then the page of all days says the same
    return WrittenReport(report, file, data)


def _page_of(loaded: LoadedSettings, day: date) -> Path:
    return loaded.reports_folder / f"{day}.html"


def _day_of(file: Path) -> date | None:
    """Return the day that a file's name begins with."""
    with suppress(ValueError):
        return date.fromisoformat(file.name[:10])
    return None


def _is_report(file: Path) -> bool:
    both = [file.with_suffix(".html"), file.with_suffix(".json")]
    return file in both and (len(file.stem) == 10 or all(one.exists() for one in both))


def _still_known(project: ProjectDatabase, tried: Sequence[str]) -> list[str]:
    """Return the versions that are still recorded."""
    found = []
    for name in tried:
        with suppress(UsageError):
            project.versions.models_of(name)
            found.append(name)
    return found


def _is_older(row: IndexRow | None, ended_at: datetime) -> bool:
    """Return whether there is no page, or one that was made before a run ended, in UTC."""
    return row is None or row.made_at < ended_at.replace(tzinfo=UTC)


def _save(file: Path, data: bytes) -> None:
    with os_errors_as(UsageError, f"can't write {file}", "name another file with --out"):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, data)


def _plain(value: object) -> str:
    if isinstance(value, date):  # a datetime is one
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} can't be written as JSON")
