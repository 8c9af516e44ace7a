"""`infer cameras`: lists cameras, states facts of them, and looks again which camera took a picture, and when."""

import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

from infer_app.base.errors import UsageError
from infer_app.base.printing import counted
from infer_app.base.settings.load import LoadedSettings, load_settings
from infer_app.cli.terminal.output import show_table
from infer_app.run.note_facts import fill_all_facts, place_again
from infer_app.run.stop import Stop
from infer_app.tables.cameras.day_events import find_jumps, read_camera_rows
from infer_app.tables.cameras.periods import CameraClocks, read_cameras, read_table, set_cameras
from infer_app.tables.project_database import open_project_database

FIRST_YEAR = 2000  # a picture of an earlier year was taken by a clock that was never set


def list_cameras(config: Path | None, as_json: bool) -> None:
    """Print the cameras, with what the clock of each says that can't be right."""
    loaded = _load(config)
    with open_project_database(loaded, read_only=True) as project:
        rows = project.ask(read_camera_rows, project)
        periods = project.database.ask(lambda connection: read_cameras(connection, project.source))
        clocks, retired = CameraClocks(periods), {one.camera for one in periods if one.retired}
        jumps = project.ask(find_jumps, project, clocks)
    told = []
    for row in rows:
        ends = [clocks.put_right(row.camera, time) for time in (row.first, row.last) if time]
        right = {"first": min(ends, default=None), "last": max(ends, default=None)}
        wrong = {"clock": _wrong(ends, jumps.get(row.camera)), "retired": row.camera in retired}
        told.append(asdict(row) | right | wrong)
    if as_json:
        print(json.dumps({"cameras": told}, default=datetime.isoformat))
        return
    headings = "camera", "images", "not read", "first", "last", "days with images", "without a time", ""
    cells = [
        (
            one["camera"] or "(none)",
            f"{one['num_images']:,}",
            f"{one['num_unread']:,}",
            *(f"{one[name]:%Y-%m-%d %H:%M}" if one[name] else "" for name in ("first", "last")),
            one["num_days"],
            one["num_without_time"],
            "; ".join(filter(None, (one["clock"], "retired" if one["retired"] else ""))),
        )
        for one in told
    ]
    show_table(headings, cells)
    total, without = sum(row.num_images for row in rows), sum(row.num_without_time for row in rows)
    print(f"{without:,} of {counted(total, 'image')} have no time of their own" if without else counted(total, "image"))


def set_table(table: Path, config: Path | None) -> None:
    """Replace what is known of all cameras by a CSV file."""
    loaded, periods = _load(config), read_table(table)
    with open_project_database(loaded) as project:
        known = {row.camera for row in project.ask(read_camera_rows, project)}
        changed = set_cameras(project.database, project.source, periods)
        if changed:
            place_again(loaded, project)
    print(f"{counted(len(periods), 'line')} of {counted(len({one.camera for one in periods}), 'camera')} set")
    if changed:
        print(f"events made anew of {', '.join(sorted(changed))}, whose clocks are put right otherwise")
    if unknown := sorted({one.camera for one in periods} - known):
        print(f"no image yet of {', '.join(unknown)}")


def update(config: Path | None) -> None:
    """Look at all pictures again."""
    loaded = _load(config)
    with open_project_database(loaded) as project, Stop() as stop:
        stored = fill_all_facts(loaded, project, stop)
    unreadable = stored.pop("", 0)
    origins = ", ".join(f"{number:,} {origin}" for origin, number in stored.most_common())
    print(f"{counted(stored.total(), 'image')} brought up to date" + (f": {origins}" if origins else ""))
    if unreadable:
        print(f"{counted(unreadable, 'image')} can't be read, and will be looked at again by this command")


def _load(config: Path | None) -> LoadedSettings:
    loaded = load_settings(config)
    if not loaded.wants_facts:
        hint = 'say in infer.toml what names them: [source] camera = "folder:1", or a column'
        raise UsageError("cameras are not recorded", hint)
    return loaded


def _wrong(ends: list[datetime], jump: datetime | None) -> str:
    """Return what is wrong with a clock whose first and last pictures are of these times, and which has jumped back."""
    if any(end.year < FIRST_YEAR for end in ends):
        return f"its clock was before {FIRST_YEAR}"
    if any(end > datetime.now(UTC).replace(tzinfo=None) + timedelta(days=1) for end in ends):
        return "its clock was in the future"
    if jump:
        return f"its clock has jumped back to {jump:%Y-%m-%d %H:%M}"
    return ""
