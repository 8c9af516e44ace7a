"""`infer cameras`: lists cameras, states facts of them, and looks again which camera took a picture, and when."""

import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

from infer_app.base.errors import UsageError
from infer_app.base.printing import counted
from infer_app.base.settings.load import LoadedSettings, load_settings
from infer_app.cli.look.show_events import print_waiting
from infer_app.cli.terminal.output import show_table
from infer_app.run.note_facts import fill_all_facts, place_again
from infer_app.run.stop import Stop
from infer_app.tables.cameras.copies import read_copies
from infer_app.tables.cameras.day_events import count_waiting, find_jumps, read_camera_rows, read_ends
from infer_app.tables.cameras.periods import CameraClocks, CameraPeriod, read_cameras, read_table, set_cameras
from infer_app.tables.project_database import open_project_database
from infer_app.tables.results.schema import WITHOUT_CAMERA

FIRST_YEAR = 2000  # a picture of an earlier year was taken by a clock that was never set


def list_cameras(config: Path | None, as_json: bool) -> None:
    """Print the cameras, with what the clock of each says that can't be right."""
    loaded = load_with_cameras(config)
    with open_project_database(loaded, read_only=True) as project:
        rows = project.ask(read_camera_rows, project)
        periods = project.database.ask(read_cameras)
        clocks = CameraClocks(periods)
        jumps = project.ask(find_jumps, project, clocks)
        spans = project.ask(read_ends, project)
        waiting = project.ask(count_waiting, project, WITHOUT_CAMERA)
        copied = {one.camera: one for one in project.ask(read_copies, project)}
    told, cells = [], []
    for row in rows:
        its = [one for one in periods if one.camera == row.camera]
        ends = [time for (camera, _), times in spans.items() for time in times if camera == row.camera]
        first, last = min(ends, default=None), max(ends, default=None)
        wrong = _wrong(ends, jumps.get(row.camera))
        known = {"first": first, "last": last, "clock": wrong, "retired": any(one.retired for one in its)}
        copies = copied.get(row.camera)
        stated = [one.model_dump(mode="json", by_alias=True) for one in its]
        told.append(asdict(row) | known | {"copies": copies.num_images if copies else 0, "set": stated})
        shown = (row.camera or "(none)", f"{row.num_images:,}", f"{row.num_unread:,}")
        shown_ends = (time.date() if time else "" for time in (first, last))
        doubles = f"{copies.num_images:,} are copies of {copies.former}'s" if copies else ""
        remarks = "; ".join(filter(None, (wrong, doubles, *map(_describe, its))))
        cells.append((*shown, *shown_ends, row.num_days, row.num_without_time, remarks))
    if as_json:
        print(json.dumps({"cameras": told, "waiting": waiting}, default=datetime.isoformat))
        return
    headings = "camera", "images", "no result", "first", "last", "days", "no time", "remarks"
    show_table(headings, cells)
    total, without = sum(row.num_images for row in rows), sum(row.num_without_time for row in rows)
    print(f"{without:,} of {counted(total, 'image')} have no time of their own" if without else counted(total, "image"))
    print_waiting(waiting, "their camera and time")


def set_table(table: Path, config: Path | None) -> None:
    """Replace what is known of all cameras by a CSV file."""
    loaded, periods = load_with_cameras(config), read_table(table)
    with open_project_database(loaded) as project:
        known = {row.camera for row in project.ask(read_camera_rows, project)}
        before = project.database.ask(read_cameras)
        changed = set_cameras(project.database, periods)
        if changed:
            place_again(loaded, project)
    print(f"{counted(len(periods), 'line')} of {counted(len({one.camera for one in periods}), 'camera')} set")
    if gone := sorted({one.camera for one in before} - {one.camera for one in periods}):
        print(f"nothing is set any more of {', '.join(gone)}, of which the file has no line")
    if changed:
        print(f"events made anew of {', '.join(sorted(changed))}, whose shifts have changed")
    if unknown := sorted({one.camera for one in periods} - known):
        print(f"no image yet of {', '.join(unknown)}")


def update(config: Path | None) -> None:
    """Look at all pictures again."""
    loaded = load_with_cameras(config)
    with open_project_database(loaded) as project, Stop() as stop:
        stored = fill_all_facts(loaded, project, stop)
    unreadable = stored.pop("", 0)
    origins = ", ".join(f"{number:,} {origin}" for origin, number in stored.most_common())
    print(f"{counted(stored.total(), 'image')} brought up to date" + (f": {origins}" if origins else ""))
    if unreadable:
        print(f"{counted(unreadable, 'image')} can't be read, and will be looked at again by this command")


def load_with_cameras(config: Path | None) -> LoadedSettings:
    """Load the settings. Raises UsageError if they name no cameras."""
    loaded = load_settings(config)
    if not loaded.wants_facts:
        hint = 'say in infer.toml what names them: [source] camera = "folder:1", or a column'
        raise UsageError("cameras are not recorded", hint)
    return loaded


def _describe(period: CameraPeriod) -> str:
    """Return what was set of a camera's time in a few words."""
    hours = period.shift.total_seconds() / 3600
    place = None if None in (period.latitude, period.longitude) else f"at {period.latitude}, {period.longitude}"
    known = f"clock put right by {hours:+g} h" if hours else "", place, "retired" if period.retired else ""
    until = f" until {period.until:%Y-%m-%d %H:%M}" if period.until else ""
    return ", ".join(filter(None, known)) + until if any(known) else ""


def _wrong(ends: list[datetime], jump: datetime | None) -> str:
    """Return what is wrong with a clock whose first and last pictures are of these times, and which has jumped back."""
    latest = datetime.now(UTC).replace(tzinfo=None) + timedelta(days=1)
    faults = {
        f"its clock was before {FIRST_YEAR}": any(end.year < FIRST_YEAR for end in ends),
        "its clock was in the future": any(end > latest for end in ends),
        f"images of {jump and jump.date()} came after later ones: was its clock reset?": jump is not None,
    }
    return "; ".join(text for text, holds in faults.items() if holds)
