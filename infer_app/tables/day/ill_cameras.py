"""Reads the days of the cameras, and finds which are ill."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from infer_app.base.day import Day, between
from infer_app.tables.cameras.camera_days import count_blank, read_arrivals, read_camera_days
from infer_app.tables.cameras.periods import CameraClocks, read_cameras
from infer_app.tables.day.illness import CLOCK, FLOODED, PICTURES, Illness, find_illness, find_silence
from infer_app.tables.queries.listed_images import ListedImages


@dataclass(frozen=True, slots=True)
class IllCameras:
    """Tells which cameras are ill, of how many."""

    found: Sequence[Illness]
    num_cameras: int  # that have brought pictures lately


MOSTLY = 0.8  # of the pictures of a flood
NONE_ILL = IllCameras((), 0)


def read_ill_cameras(images: ListedImages, last: Day, model_ids: Sequence[str]) -> IllCameras:
    """Return the cameras that are ill by the days up to the last one, or the last that is over; no retired ones."""
    while last.end > datetime.now(UTC):
        last = last.before(1)
    with images.database.read() as connection:
        periods = sorted(read_cameras(connection), key=lambda one: one.since or datetime.min)
    stated = {one.camera: one for one in periods}  # the last that is known of each
    arrivals, days = read_arrivals(images, CameraClocks(periods), last.zone), read_camera_days(images, last, model_ids)
    all_days, is_daily = {one.ago for its in arrivals.values() for one in its}, images.source.expects_daily
    found = list[Illness | None]()
    for camera in sorted((days.keys() | arrivals.keys()) - {one for one, its in stated.items() if its.retired}):
        if its := arrivals.get(camera):
            expects = is_daily or (camera in stated and stated[camera].expect is not None)
            found += [find_silence(its, all_days, is_daily=expects), find_illness([CLOCK], its)]
        found.append(find_illness(PICTURES, days.get(camera, ())))
    sure = [one for one in found if one is not None and _is_sure(images, one, last)]
    return IllCameras(sure, len(days.keys() | arrivals.keys()))


def _is_sure(images: ListedImages, illness: Illness, last: Day) -> bool:
    """Return whether an illness is one: many pictures are a flood only if nearly all of them show nothing."""
    if illness.kind != FLOODED:
        return True
    days = between([last.before((last.date - illness.since).days), last])
    num_blank, num_predicted = count_blank(images, days, illness.camera)
    return num_blank > MOSTLY * num_predicted
