"""Writes the reports: an HTML page and a JSON file for each model of a day, and an overview of all days."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

from infer_app.artifact.model_names import SHOWN_ID, Version
from infer_app.ask.day_report import DayReport, gather
from infer_app.ask.page.page import IndexRow, pictured, render_day, render_index
from infer_app.ask.page.thumbnails import MAX_BYTES, SIZE_WITH_BOXES, ThumbnailLimits, make_thumbnails
from infer_app.ask.run_figures import read_timeline
from infer_app.base.atomic_file import replace_file
from infer_app.base.day import Day
from infer_app.base.errors import UsageError, os_errors_as
from infer_app.base.settings.load import LoadedSettings
from infer_app.tables.project_database import ProjectDatabase, open_project_database, read_limits
from infer_app.tables.queries.day_state import DayStates, judge_day

INDEX = "index.html"
MAX_DAYS = 366  # in the overview


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A report and the files it was written to."""

    report: DayReport
    html: Path
    data: Path

    def to_json(self) -> dict[str, object]:
        return {
            "model": self.report.model,
            "state": self.report.state,
            "verdict": self.report.verdict,
            "day_state": asdict(self.report.day_state),
            "file": str(self.html),
            "data": str(self.data),
        }


def write_reports(
    loaded: LoadedSettings,
    date: str,
    models: Sequence[str] | None = None,
    trace: Path | None = None,
    out: Path | None = None,
) -> list[WrittenReport]:
    """Write a report for each of the named models, or for all that ran on the day; at least one."""
    day = loaded.day(date)
    timeline = read_timeline(trace) if trace else None
    with open_project_database(loaded, read_only=True) as project:
        chosen = usual = choose_models(project, day, models)
        if out and len(chosen) > 1:
            raise UsageError(f"--out is one file, and {len(chosen)} models have run", "name one with --model")
        if models:
            usual = choose_models(project, day, [name for name, _ in chosen])
        states = DayStates(project, loaded.run.max_rejected)
        gathered = [gather(project, states, day, version, timeline) for version in chosen]
    return [_write(loaded, one, out or _file_of(loaded, one, dict(usual))) for one in gathered]


def write_index(loaded: LoadedSettings) -> tuple[Path, int]:
    """Write the overview with a link to each report beside it; return its file and its number of days."""
    file = loaded.reports_folder / INDEX
    with open_project_database(loaded, read_only=True) as project:
        dates = sorted({run_date for run_date, _, _ in project.versions.days_run(MAX_DAYS)})
        in_use = project.versions.ids_in_use()
        states = DayStates(project, loaded.run.max_rejected)
        oldest_first = [row for run_date in dates for row in _index_rows(loaded, project, states, run_date, in_use)]
    rows = sorted(oldest_first, key=lambda row: (-row.date.toordinal(), row.model))
    rows = [row for row in rows if row.counts.eligible or row.state != "good"]
    _save(file, render_index(rows, datetime.now(UTC).isoformat(timespec="seconds")).encode())
    return file, len(rows)


def remove_reports(loaded: LoadedSettings, first_kept: date, versions: Iterable[Version]) -> int:
    """Remove the versions' reports of days before a date, with their JSON files; return the number of pages."""
    of_versions = {
        default_file(loaded, first_kept, name).stem[10:] for one in versions for name in (one[0], "-".join(one))
    }
    files = [file for file in loaded.reports_folder.glob("????-??-??-*") if file.name[:10] < str(first_kept)]
    written = [file for file in files if file.stem[10:] in of_versions and file.suffix in (".html", ".json")]
    for file in written:
        file.unlink(missing_ok=True)
    if written and (loaded.reports_folder / INDEX).exists():
        write_index(loaded)  # which has links to them
    return sum(file.suffix == ".html" for file in written)


def choose_models(project: ProjectDatabase, day: Day, wanted: Sequence[str] | None) -> list[Version]:
    """Return each wanted model: for a name the version that did the day.

    If none is wanted, return those that ran on the day, else all. Raises UsageError if no model has run.
    """
    if wanted:
        return list(dict.fromkeys(version for name in wanted for version in project.versions.models_of_day(day, name)))
    known = project.versions.models_of_day(day)
    ran = {name for _, name, _ in project.versions.days_run(MAX_DAYS, day.date)}
    chosen = [version for version in known if version[0] in ran] or known
    if not chosen:
        raise UsageError("no model has run on this database", "`infer run` first")
    return sorted(chosen)


def _file_of(loaded: LoadedSettings, report: DayReport, usual: Mapping[str, str]) -> Path:
    """Return the file of a report; it is named by the model id unless it is of the `usual` version."""
    is_usual = usual[report.model] == report.model_id
    return default_file(loaded, report.date, report.model if is_usual else f"{report.model}-{report.model_id}")


def default_file(loaded: LoadedSettings, day: date, model: str) -> Path:
    return loaded.reports_folder / f"{day}-{re.sub(r'[^A-Za-z0-9._-]+', '-', model)}.html"


def _write(loaded: LoadedSettings, report: DayReport, file: Path) -> WrittenReport:
    limits = ThumbnailLimits(read_limits(loaded), loaded.images.max_pixels)
    if report.with_boxes:
        limits = replace(limits, size=SIZE_WITH_BOXES, max_bytes=2 * MAX_BYTES)
    thumbnails = make_thumbnails(pictured(report), limits)
    data = file.with_suffix(".json")
    if data == file:
        raise UsageError(f"--out {file} is the name of the JSON file", "give the page a name that ends in .html")
    _save(data, json.dumps(report.to_json(), default=_plain, indent=1).encode())
    _save(file, render_day(report, thumbnails, data.name, (file.parent / INDEX).exists()).encode())
    return WrittenReport(report, file, data)


def _index_rows(
    loaded: LoadedSettings, project: ProjectDatabase, states: DayStates, run_date: date, in_use: set[str]
) -> list[IndexRow]:
    """Return a row for each name that ran on the day, by the version that did the day."""
    day, rows = Day.of(run_date, loaded.run.time_zone), []
    for model, model_id in sorted(project.versions.models_of_day(day)):
        facts = states.read_facts(day, model, model_id)
        if not facts.runs:
            continue
        state, file = judge_day(facts), default_file(loaded, run_date, model)
        with_version = "" if model_id in in_use else f" with version {model_id[:SHOWN_ID]}"
        shown_file = file.name if file.exists() else None
        rows.append(IndexRow(run_date, model, facts.counts, state.level, state.outcome + with_version, shown_file))
    return rows


def _save(file: Path, data: bytes) -> None:
    with os_errors_as(UsageError, f"can't write {file}", "name another file with --out"):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, data)


def _plain(value: object) -> str:
    if isinstance(value, date):  # a datetime is one
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} can't be written as JSON")
