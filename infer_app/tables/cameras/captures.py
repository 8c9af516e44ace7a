"""Which cameras took pictures, and when, as exports say it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from typing import NamedTuple

from sqlalchemy import select

from infer_app.tables.cameras.day_events import read_ends
from infer_app.tables.cameras.periods import CameraClocks, CameraPeriod, read_cameras
from infer_app.tables.engine.bulk import in_batches
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.schema import IS_COPY, WITHOUT_EVENT, pictures


class Capture(NamedTuple):
    """Tells what is known of the taking of a picture."""

    camera: str  # empty: none is known
    taken_at: datetime | None  # by the camera's clock, put right
    offset: int | None  # of that clock from UTC, in seconds, if the file states it
    event: int | None
    on_camera: datetime | None  # by the camera's clock as it was
    is_copy: bool = False  # of a picture of another camera, which counts


@dataclass(frozen=True)
class Captures:
    """Finds the captures of pictures that a source lists, and what is known of their cameras."""

    images: ListedImages
    zone: str  # in which days begin: that of clocks that state none

    @cached_property
    def periods(self) -> list[CameraPeriod]:
        """Return what was set of the cameras."""
        with self.images.database.read() as connection:
            known = read_cameras(connection)
        only = self.images.source.camera
        return [one for one in known if only in (None, one.camera)]

    @cached_property
    def clocks(self) -> CameraClocks:
        return CameraClocks(self.periods)

    @property
    def ends(self) -> dict[tuple[str, CameraPeriod | None], tuple[datetime, datetime]]:
        """Return what `read_ends` does, of all days that were not forgotten."""
        return read_ends(self.images)

    def read(self, numbers: Iterable[int]) -> dict[int, Capture]:
        """Return the captures of pictures by their numbers; of one that was forgotten meanwhile nothing is known."""
        columns = (pictures.c[name] for name in ("id", "camera", "taken_at", "taken_offset", "event"))
        wanted, found = select(*columns), defaultdict[int, Capture](partial(Capture, "", None, None, None, None))
        with self.images.database.read() as connection:
            for some in in_batches(numbers):
                for number, camera, at, offset, event in connection.execute(wanted.where(pictures.c.id.in_(some))):
                    right = at and self.clocks.put_right(camera or "", at)
                    known = event if event is not None and event > WITHOUT_EVENT else None
                    found[number] = Capture(camera or "", right, offset, known, at, event == IS_COPY)
        return found
