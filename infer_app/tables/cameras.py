"""Facts of cameras that the user states: where each stood from when to when, and how wrong its clock was."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import Connection, delete, insert, select

from infer_app.base.errors import UsageError
from infer_app.tables.engine.column_types import MAX_ID
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.events import dissolve_cameras
from infer_app.tables.results.schema import cameras

_A_DATE = len("2026-11-20")


def _check_naive(time: datetime) -> datetime:
    if time.tzinfo is not None:
        raise ValueError("a time by the camera's own clock has no offset")
    return time


ClockTime = Annotated[datetime, AfterValidator(_check_naive)]


class CameraPeriod(BaseModel):
    """What is true of a camera during a time: the columns of a table of cameras."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True)

    camera: str = Field(min_length=1, max_length=MAX_ID)
    since: ClockTime | None = Field(None, alias="from")  # by the camera's clock as it was; None: its first picture
    until: ClockTime | None = Field(None, alias="to")  # the first time that is no longer covered; None: for ever
    shift: timedelta = timedelta(0)  # what puts its clock right
    latitude: float | None = Field(None, ge=-90, le=90)  # degrees north
    longitude: float | None = Field(None, ge=-180, le=180)  # degrees east
    retired: bool = False  # it brings no more pictures

    def covers(self, at: datetime) -> bool:
        return (self.since is None or self.since <= at) and (self.until is None or at < self.until)

    def overlaps(self, other: CameraPeriod) -> bool:
        ends_first = [
            one.until is not None and two.since is not None and one.until <= two.since
            for one, two in ((self, other), (other, self))
        ]
        return self.camera == other.camera and not any(ends_first)


HEADER = [field.alias or name for name, field in CameraPeriod.model_fields.items()]


class CameraClocks:
    """The clocks of the cameras of a source."""

    def __init__(self, periods: Iterable[CameraPeriod]) -> None:
        self._wrong = defaultdict[str, list[CameraPeriod]](list)
        for one in periods:
            if one.shift:
                self._wrong[one.camera].append(one)

    def put_right(self, camera: str, at: datetime) -> datetime:
        """Return what the camera's clock should have shown when it showed this."""
        return at + next((one.shift for one in self._wrong.get(camera, ()) if one.covers(at)), timedelta(0))

    def differing(self, other: CameraClocks) -> set[str]:
        """Return the cameras whose clocks are put right otherwise by the other ones."""
        either = self._wrong.keys() | other._wrong.keys()
        return {camera for camera in either if self._spans(camera) != other._spans(camera)}

    def _spans(self, camera: str) -> list[object]:
        return [(one.since, one.until, one.shift) for one in self._wrong.get(camera, ())]


def read_cameras(connection: Connection, source_id: int) -> list[CameraPeriod]:
    """Return what was set of the cameras of a source, in the order of the table that set it."""
    rows = connection.execute(select(cameras).where(cameras.c.source_id == source_id).order_by(cameras.c.place))
    return [CameraPeriod(**{name: row._mapping[name] for name in CameraPeriod.model_fields}) for row in rows]


def set_cameras(database: Database, source_ids: Sequence[int], periods: Sequence[CameraPeriod]) -> set[str]:
    """Replace what is known of all cameras of a source; return those whose events have to be made anew."""
    return database.transact(partial(_set, source_ids=source_ids, periods=periods))


def _set(connection: Connection, source_ids: Sequence[int], periods: Sequence[CameraPeriod]) -> set[str]:
    source_id = source_ids[0]
    changed = CameraClocks(read_cameras(connection, source_id)).differing(CameraClocks(periods))
    connection.execute(delete(cameras).where(cameras.c.source_id == source_id))
    rows = [
        one.model_dump() | {"shift": one.shift.total_seconds(), "retired": int(one.retired), "place": place}
        for place, one in enumerate(periods)
    ]
    if rows:
        connection.execute(insert(cameras), [row | {"source_id": source_id} for row in rows])
    if changed:
        dissolve_cameras(connection, source_ids, changed)
    return changed


def read_table(path: Path) -> list[CameraPeriod]:
    """Read a CSV file with columns of HEADER, of which all but the first may be missing or empty.

    Raises UsageError for what can't be read, and for two lines that are of one camera at the same time.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file, restkey="more values than columns")
            periods = [_period(row, f"{path}, line {table.line_num}") for row in table]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} can't be read: {error}", "a CSV file in UTF-8 is needed") from None
    for number, one in enumerate(periods):
        if any(map(one.overlaps, periods[:number])):
            raise UsageError(f"{path}: two lines of {one.camera} are of the same time", "end the first by `to`")
    return periods


def _period(row: Mapping[str, str | None], where: str) -> CameraPeriod:
    given = {name: text.strip() if isinstance(text, str) else text for name, text in row.items() if text}
    given = {name: text for name, text in given.items() if text}
    try:
        period = CameraPeriod.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        name = first["loc"][0] if first["loc"] else "the line"
        raise UsageError(f"{where}: {name}: {first['msg']}", f"columns: {', '.join(HEADER)}") from None
    if period.until and len(str(given["to"])) == _A_DATE:  # until the end of that day
        return period.model_copy(update={"until": period.until + timedelta(days=1)})
    return period
