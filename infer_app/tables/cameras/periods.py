"""Facts of cameras that the user states: where each stood from when to when, and how wrong its clock was."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from sqlalchemy import Connection, delete, insert, select

from infer_app.base.errors import UsageError
from infer_app.base.settings.csv_table import read_lines
from infer_app.tables.engine.column_types import MAX_ID
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.events import let_wait, lock_events
from infer_app.tables.results.schema import cameras, pictures


def _check_naive(time: datetime) -> datetime:
    if time.tzinfo is not None:
        raise ValueError("a time by the camera's own clock has no offset")
    return time


def _end_of_day(value: object) -> object:
    """Return the midnight after a date without a time of day; other values as they are."""
    if not isinstance(value, str) or len(value) != len("2026-11-20"):
        return value
    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(value) + timedelta(days=1)
    return value


def _as_number(value: object) -> object:
    return value.replace(",", ".") if isinstance(value, str) else value


def _as_span(value: object) -> object:
    """Return the seconds of a text such as 1h, -30min, 2d or -01:00:00; other values as they are."""
    if not isinstance(value, str) or value.lstrip("+-").startswith("P"):  # ISO 8601
        return value
    if found := _SPAN.fullmatch(value):
        return float(f"{found[1]}{found[2]}") * _UNITS[found[3]]
    if found := _CLOCK.fullmatch(value):
        hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
        return (-1 if found[1] == "-" else 1) * (3600 * hours + 60 * minutes + seconds)
    raise ValueError(f"{value!r} is no time span such as 1h, -30min, 365d or -01:00:00")


_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"([+-]?)(\d+(?:\.\d+)?) ?(s|min|h|d)")
_CLOCK = re.compile(r"([+-]?)(\d+):(\d\d)(?::(\d\d))?")
_HOW = "write it as 2026-11-20, or 2026-11-20 11:00"
ClockTime = Annotated[datetime, AfterValidator(_check_naive)]
Degrees = Annotated[float, BeforeValidator(_as_number)]
MAX_SHIFT = timedelta(days=36_525)


class CameraPeriod(BaseModel):
    """State what is true of a camera during a time: the columns of a table of cameras."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True)

    camera: str = Field(min_length=1, max_length=MAX_ID)
    # By the camera's clock as it was; None: its first picture.
    since: ClockTime | None = Field(None, alias="from", description=_HOW)
    # The first time that is no longer covered; None: for ever.
    until: Annotated[ClockTime | None, BeforeValidator(_end_of_day)] = Field(None, alias="to", description=_HOW)
    # What puts its clock right: more than 0 for one that is slow.
    shift: Annotated[timedelta, BeforeValidator(_as_span)] = Field(timedelta(0), ge=-MAX_SHIFT, le=MAX_SHIFT)
    latitude: Degrees | None = Field(None, ge=-90, le=90)  # degrees north
    longitude: Degrees | None = Field(None, ge=-180, le=180)  # degrees east
    retired: bool = False  # it brings no more pictures
    location_id: str | None = Field(None, max_length=MAX_ID)  # of its place, which several cameras may share
    location_name: str | None = Field(None, max_length=MAX_ID)
    expect: Literal["daily"] | None = None  # how often it is to bring pictures; None: as [events] says, or as before

    @model_validator(mode="after")
    def _check_order(self) -> CameraPeriod:
        if self.since and self.until and self.since >= self.until:
            raise ValueError("`to` is not after `from`")
        return self

    def put_right(self, at: datetime) -> datetime:
        """Return what the camera's clock should have shown when it showed this."""
        try:
            return at + self.shift
        except OverflowError:  # of a year that no clock shows
            return at

    def covers(self, at: datetime) -> bool:
        return (self.since is None or self.since <= at) and (self.until is None or at < self.until)

    def overlaps(self, other: CameraPeriod) -> bool:
        ends_first = [
            one.until is not None and two.since is not None and one.until <= two.since
            for one, two in ((self, other), (other, self))
        ]
        return self.camera == other.camera and not any(ends_first)


class CameraClocks:
    """The clocks of the cameras of a source."""

    def __init__(self, periods: Iterable[CameraPeriod]) -> None:
        self._wrong = defaultdict[str, list[CameraPeriod]](list)
        for one in periods:
            if one.shift:
                self._wrong[one.camera].append(one)

    def put_right(self, camera: str, at: datetime) -> datetime:
        """Return what the camera's clock should have shown when it showed this."""
        period = next((one for one in self._wrong.get(camera, ()) if one.covers(at)), None)
        return period.put_right(at) if period else at

    def differing(self, other: CameraClocks) -> set[str]:
        """Return the cameras whose clocks are put right otherwise by the other ones."""
        either = self._wrong.keys() | other._wrong.keys()
        return {camera for camera in either if self._spans(camera) != other._spans(camera)}

    def _spans(self, camera: str) -> list[object]:
        return [(one.since, one.until, one.shift) for one in self._wrong.get(camera, ())]


def read_cameras(connection: Connection) -> list[CameraPeriod]:
    """Return what was set of the cameras, in the table's order."""
    rows = connection.execute(select(cameras).order_by(cameras.c.place))
    names = CameraPeriod.model_fields
    return [CameraPeriod.model_validate({name: row._mapping[name] for name in names}, by_name=True) for row in rows]


def set_cameras(database: Database, periods: Sequence[CameraPeriod]) -> set[str]:
    """Replace what is known of all cameras; return those whose events have to be made anew."""

    def replace(connection: Connection) -> set[str]:
        lock_events(connection)
        changed = CameraClocks(read_cameras(connection)).differing(CameraClocks(periods))
        connection.execute(delete(cameras))
        rows = [
            one.model_dump() | {"shift": one.shift.total_seconds(), "retired": int(one.retired), "place": place}
            for place, one in enumerate(periods)
        ]
        if rows:
            connection.execute(insert(cameras), rows)
        if changed:
            let_wait(connection, pictures.c.camera.in_(changed))
        return changed

    return database.transact(replace)


def read_table(path: Path) -> list[CameraPeriod]:
    """Read a CSV file, whose numbers may have a decimal comma.

    Raises UsageError as `read_lines` does, for one coordinate alone, and for two lines of one camera at the same time.
    """
    periods = [one for _, one in read_lines(path, CameraPeriod)]
    of_camera = defaultdict[str, list[CameraPeriod]](list)
    for one in periods:
        if (one.latitude is None) != (one.longitude is None):
            raise UsageError(
                f"{path}: a line of {one.camera} has one coordinate", "give latitude and longitude, or none"
            )
        if any(map(one.overlaps, of_camera[one.camera])):
            raise UsageError(f"{path}: two lines of {one.camera} are of the same time", "end the first by `to`")
        of_camera[one.camera].append(one)
    return periods
