"""Which cameras took pictures, and when, as exports say it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from typing import NamedTuple

from sqlalchemy import select

from infer_app.base.day import Day
from infer_app.tables.cameras.day_events import Event, read_camera_rows, read_events
from infer_app.tables.cameras.periods import CameraClocks, CameraPeriod, read_cameras
from infer_app.tables.engine.bulk import in_batches
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.schema import WITHOUT_EVENT, pictures


class Capture(NamedTuple):
    """What is known of the taking of a picture."""

    camera: str  # empty: none is known
    taken_at: datetime | None  # by the camera's clock, put right
    offset: int | None  # of that clock from UTC, in seconds, if the file states it
    event: int | None
    on_camera: datetime | None  # by the camera's clock as it was


@dataclass(frozen=True)
class Captures:
    """Finds the captures and events of the pictures of some days, and what is known of their cameras."""

    images: ListedImages
    days: Sequence[Day]

    @cached_property
    def periods(self) -> list[CameraPeriod]:
        """Return what was set of the cameras."""
        with self.images.database.read() as connection:
            return read_cameras(connection, self.images.source)

    @cached_property
    def clocks(self) -> CameraClocks:
        return CameraClocks(self.periods)

    @cached_property
    def ends(self) -> dict[str, tuple[datetime, datetime]]:
        """Return by camera when its first and its last picture were taken, of all days, by its clock put right."""
        found = dict[str, tuple[datetime, datetime]]()
        for one in read_camera_rows(self.images):
            if times := [self.clocks.put_right(one.camera, at) for at in (one.first, one.last) if at]:
                found[one.camera] = min(times), max(times)
        return found

    def read_events(self) -> Iterator[Event]:
        """Yield the events of the days."""
        for day in self.days:
            yield from read_events(self.images, day)[0]

    def read(self, numbers: Iterable[int]) -> dict[int, Capture]:
        """Return the captures of pictures by their numbers; of one that was forgotten meanwhile nothing is known."""
        columns = (pictures.c[name] for name in ("id", "camera", "taken_at", "taken_offset", "event"))
        wanted, found = select(*columns), defaultdict[int, Capture](partial(Capture, "", None, None, None, None))
        with self.images.database.read() as connection:
            for some in in_batches(numbers):
                for number, camera, at, offset, event in connection.execute(wanted.where(pictures.c.id.in_(some))):
                    right = at and self.clocks.put_right(camera or "", at)
                    known = event if event is not None and event > WITHOUT_EVENT else None
                    found[number] = Capture(camera or "", right, offset, known, at)
        return found
