"""Reads the days of the cameras, and finds which are ill."""

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from infer_app.base.day import Day, between, find_zone
from infer_app.tables.cameras.camera_days import NUM_DAYS, Arrival, CameraDays, count_blank, read_arrivals
from infer_app.tables.cameras.periods import CameraClocks, read_cameras
from infer_app.tables.day.illness import CLOCK, FLOODED, LASTING, PICTURES, RESULTS, Illness, find_illness, find_silence
from infer_app.tables.listing.stored_notices import Notice, read_current
from infer_app.tables.queries.listed_images import ListedImages

MOSTLY = 0.6  # of the pictures of a flood


@dataclass(frozen=True, slots=True)
class IllCameras:
    """Tells which cameras are ill, of how many."""

    found: Sequence[Illness]
    num_cameras: int  # that have brought pictures lately


NONE_ILL = IllCameras((), 0)


class IllCameraReader:
    """Finds the cameras that are ill on some days; the days of these that they share, and arrivals, are read once."""

    def __init__(self, images: ListedImages) -> None:
        self.images, self._days = images, CameraDays(images)
        self._arrivals: dict[date | None, dict[str, list[Arrival]]] = {}  # by the day that they end with

    def find(self, last: Day, model_ids: Sequence[str]) -> IllCameras:
        """Return the cameras that are ill by the days up to the last one, or the last that is over; no retired ones."""
        while last.end > datetime.now(UTC):
            last = last.before(1)
        with self.images.database.read() as connection:
            periods = sorted(read_cameras(connection), key=lambda one: one.since or datetime.min)
            current = [one for one in read_current(connection) if one.until is None]
        told = [one for one in current if one.kind in LASTING]
        stated = {one.camera: one for one in periods}  # the last that is known of each
        clocks = CameraClocks(periods)
        arrivals = _read_with_earlier(lambda since: self._read_arrivals(clocks, last.zone, since), last, told)
        days = _read_with_earlier(lambda since: self._days.read(since or last, model_ids), last, told)
        all_days, is_daily = {one.ago for its in arrivals.values() for one in its}, self.images.source.expects_daily
        known = {one.subject for one in current if one.kind == RESULTS.name}
        unlike, found = self._find_unlike(last, model_ids, known), list[Illness | None]()
        for camera in sorted((days.keys() | arrivals.keys()) - {one for one, its in stated.items() if its.retired}):
            if its := arrivals.get(camera):
                expects = is_daily or (camera in stated and stated[camera].expect is not None)
                found += [find_silence(its, all_days, is_daily=expects), find_illness([CLOCK], its)]
            found.append(find_illness(PICTURES, days.get(camera, ())) or unlike.get(camera))
        sure = [one for one in found if one is not None and _is_sure(self.images, one, last)]
        return IllCameras(sure, len(days.keys() | arrivals.keys()))

    def _read_arrivals(self, clocks: CameraClocks, zone: str, until: Day | None) -> dict[str, list[Arrival]]:
        key = until.date if until else None
        if key not in self._arrivals:
            self._arrivals[key] = read_arrivals(self.images, clocks, zone, until)
        return self._arrivals[key]

    def _find_unlike(self, last: Day, model_ids: Sequence[str], told: Set[str]) -> dict[str, Illness]:
        """Return the cameras with results unlike those before: some days tell which they may be.

        These are other days each night: those `told` before, "" for many, are looked at anyway.
        """
        some = self._days.read_results(last, model_ids)
        may_be = {camera for (camera, _), its in some.items() if "" in told or find_illness([RESULTS], its)}
        cameras = may_be | (told - {""})
        known = self._days.read_results(last, model_ids, *cameras) if cameras else {}
        return {camera: one for (camera, _), its in known.items() if (one := find_illness([RESULTS], its))}


def _read_with_earlier(
    read: Callable[[Day | None], dict[str, list[Any]]], last: Day, told: Iterable[Notice]
) -> dict[str, list[Any]]:
    """Read days; of cameras that fell ill long ago also those before: else days on which they were are compared."""
    found = {**read(None)}  # which others may read again
    for one in told:
        since = Day.of((one.since or last.end).astimezone(find_zone(last.zone)).date(), last.zone)
        earlier = read(since) if (last.date - since.date).days > NUM_DAYS // 2 else {}
        for camera in {one.subject} & earlier.keys() if one.subject else earlier:  # "": of many
            late = found.get(camera, [])
            found[camera] = [*(day for day in earlier[camera] if not late or day.date < late[0].date), *late]
    return found


def _is_sure(images: ListedImages, illness: Illness, last: Day) -> bool:
    """Return whether an illness is one: many pictures are a flood only if most of them show nothing."""
    if illness.kind != FLOODED:
        return True
    days = between([last.before((last.date - illness.since).days), last])
    num_blank, num_predicted = count_blank(images, days, illness.camera)
    return num_blank > MOSTLY * num_predicted
