"""Reads what the pages of days say from the JSON files beside them: of each day, and of each camera day by day."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from infer_app.ask.day_report import CameraOfDay, DaySummary, IllCamera
from infer_app.base.printing import counted
from infer_app.tables.day.illness import SILENT

Record = TypeVar("Record", CameraOfDay, IllCamera)

NUM_CAMERA_DAYS = 60  # the newest pages, of which the cameras are shown
NUM_SHADES = 4


@dataclass(frozen=True, slots=True)
class IndexRow:
    """A day on the page of all days, and the page beside it that says the same."""

    day: DaySummary
    file: str
    made_at: datetime
    tried: tuple[str, ...] = ()  # NAME@ID of versions that it has besides those that did the day
    num_events: int = 0
    cameras: tuple[CameraOfDay, ...] = ()
    ill: tuple[IllCamera, ...] = ()

    @classmethod
    def read(cls, page: Path, day: date) -> IndexRow | None:
        """Return what the page of a day says; None if there is none."""
        try:
            data = json.loads(page.with_suffix(".json").read_bytes())
            known = {field.name: data[field.name] for field in fields(DaySummary)} | {"date": day}
            events = data.get("events") or {"num_events": 0, "cameras": ()}
            ill = (one | {"since": date.fromisoformat(one["since"])} for one in data.get("ill", ()))
            return cls(
                DaySummary(**known),
                page.name,
                datetime.fromisoformat(data["made_at"]),
                tuple(data.get("tried", ())),
                events["num_events"],
                tuple(_record(CameraOfDay, one) for one in events["cameras"]),
                tuple(_record(IllCamera, one) for one in ill),
            )
        except (OSError, ValueError, LookupError, TypeError):
            return None


class CameraCell(NamedTuple):
    """Tells what a camera has brought on a day, and what was wrong with it."""

    num_images: int
    shade: int  # up to NUM_SHADES, on the day with the most; 0: no images
    is_ill: bool
    title: str  # what the number does not say; may be empty


@dataclass(frozen=True, slots=True)
class CameraHistory:
    """Tells what the newest pages say of a camera together."""

    camera: str
    cells: tuple[CameraCell, ...]  # one for each page, the newest first
    num_images: int
    num_events: int
    labels: Mapping[str, Counter[str]]  # events by model and label
    ill: tuple[tuple[IndexRow, IllCamera], ...]  # the last time of each kind, with the last page that says so


def gather_cameras(rows: Sequence[IndexRow]) -> list[CameraHistory]:
    """Return the cameras of the newest NUM_CAMERA_DAYS rows, which come first, by name; what has no camera is the last.

    Returns nothing if no picture has a camera.
    """
    newest = rows[:NUM_CAMERA_DAYS]
    days = defaultdict[str, dict[date, CameraOfDay]](dict)
    ill = defaultdict[str, dict[tuple[str, date], tuple[IndexRow, IllCamera]]](dict)
    for row in reversed(newest):
        for one in row.cameras:
            days[one.camera][row.day.date] = one
        for spell in row.ill:
            ill[spell.camera][spell.kind, spell.since] = row, spell
    names = sorted(days.keys() | ill.keys(), key=lambda camera: (not camera, camera))
    dates = [row.day.date for row in newest]
    return [_history(camera, dates, days[camera], ill[camera].values()) for camera in names] if any(names) else []


def _history(
    camera: str, dates: Sequence[date], days: Mapping[date, CameraOfDay], ill: Collection[tuple[IndexRow, IllCamera]]
) -> CameraHistory:
    top = max((one.images for one in days.values()), default=0)
    cells, nothing = [], CameraOfDay(camera, 0, 0, 0)
    for day in dates:
        its = days.get(day, nothing)
        kinds = {one.kind for row, one in ill if one.since <= day <= row.day.date}
        if its.images:
            kinds -= {SILENT.name}  # since the day of the last ones
        rejected = [f"{counted(its.images, 'image')}, {its.rejected:,} rejected"] if its.rejected else []
        shade = math.ceil(NUM_SHADES * its.images / top) if top else 0
        cells.append(CameraCell(its.images, shade, bool(kinds), "; ".join([*rejected, *sorted(kinds)])))
    labels = defaultdict[str, Counter[str]](Counter)
    for model, counts in (item for one in days.values() for item in one.labels.items()):
        labels[model].update(counts)
    last = {one.kind: (row, one) for row, one in sorted(ill, key=lambda of: (of[0].day.date, of[1].since))}
    num_images, num_events = (sum(getattr(one, name) for one in days.values()) for name in ("images", "events"))
    return CameraHistory(camera, tuple(cells), num_images, num_events, labels, tuple(last.values()))


def _record(cls: type[Record], data: Mapping[str, Any]) -> Record:
    """Return a record of those of its fields that a page has; a former version wrote fewer."""
    return cls(**{field.name: data[field.name] for field in fields(cls) if field.name in data})
