"""Reads what the pictures of each camera are like, day by day, and when they arrived."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, case, false, func, or_, select, true

from infer_app.base.day import Day, find_zone, naive
from infer_app.tables.cameras.day_events import shown_results
from infer_app.tables.cameras.periods import CameraClocks
from infer_app.tables.engine.bulk import in_batches
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.conditions import KeyedJoin, has_rejection
from infer_app.tables.results.pictures import find_first_seen
from infer_app.tables.results.schema import pictures, predictions

NUM_DAYS = 29  # the last one, and the 28 before it
DARK, BRIGHT = 12.0, 243.0  # mean brightness, 0-255: there is nothing to see in a picture beyond them
SLACK_S = 3 * 3600  # by which a night's run may be earlier than the one before
BLANK = ("blank", "empty", "background", "nothing")  # labels of pictures that show nothing


class CameraDay(NamedTuple):
    """Sums up the pictures of a camera that are of a day."""

    camera: str
    date: date
    num_images: int
    num_rejected: int  # that were not decoded
    num_known: int  # whose figures are known, as of all that are counted below
    num_dark: int
    num_bright: int
    num_clear: int  # others; the rest is of these
    num_repeats: int  # that look as another one of them
    contrast: float  # mean, as that below
    sharpness: float
    lowest: int = 0  # of the looks; it and the highest one differ where nights look otherwise than days
    highest: int = 0


class DayResults(NamedTuple):
    """Sums up what a model says of the pictures of a camera that are of a day."""

    camera: str
    date: date
    num_images: int  # that it predicted
    num_scored: int
    score: float  # mean of these
    labels: Counter[str]  # images by their best label, "" for none


class Arrival(NamedTuple):
    """Sums up the pictures of a camera that were registered or read first within a day."""

    camera: str
    ago: int  # whole days before the newest arrival of any camera
    date: date  # of the last ones
    at: datetime  # of these, in UTC without a zone
    num_images: int
    first: datetime  # when the first one was taken, by the clock put right; if none has a time, when they came
    last: datetime


class CameraDays:
    """Reads the days of cameras: the NUM_DAYS up to the last one, the oldest first."""

    def __init__(self, images: ListedImages) -> None:
        self._images = images
        self._known: dict[tuple[object, ...], list[CameraDay]] = {}  # by date and model ids

    def read(self, last: Day, model_ids: Sequence[str]) -> dict[str, list[CameraDay]]:
        """Return the days of each camera that have pictures; each is read once."""
        wanted = select(pictures.c.camera, *_figures(model_ids)).group_by(pictures.c.camera)
        wanted = wanted.where(self._images.source.is_listed, pictures.c.camera != "")
        found = defaultdict[str, list[CameraDay]](list)
        with self._images.database.read() as connection:
            for day in _days_up_to(last):
                key = day.date, *model_ids
                if key not in self._known:
                    rows = connection.execute(wanted.where(*self._images.source.within(day)))
                    self._known[key] = [CameraDay(camera, day.date, *figures) for camera, *figures in rows]
                for one in self._known[key]:
                    found[one.camera].append(one)
        return found

    def read_results(self, last: Day, model_ids: Sequence[str], *cameras: str) -> dict[Any, list[DayResults]]:
        """Return what each model says of each of some cameras; without their names of all, and of a third of the days.

        The keys are a camera and a model's id. Results take longer to read than figures of pictures.
        """
        its, one, days = pictures.c, predictions.c, _days_up_to(last)
        figures = func.count(), func.count(one.score), func.coalesce(func.sum(one.score), 0.0)
        wanted = select(its.camera, one.model_id, func.coalesce(one.label, ""), *figures)
        wanted = wanted.select_from(KeyedJoin(pictures, predictions, one.picture == its.id))
        of_cameras = its.camera.in_(cameras) if cameras else its.camera != ""
        wanted = wanted.where(self._images.source.is_listed, of_cameras, one.model_id.in_(model_ids))
        found = defaultdict[Any, list[DayResults]](list)
        with self._images.database.read() as connection:
            for day in days if cameras else [*days[:-2:3], *days[-2:]]:
                of_day = defaultdict[Any, list[Any]](list)
                asked = wanted.where(*self._images.source.within(day)).group_by(its.camera, one.model_id, one.label)
                for camera, model_id, *row in connection.execute(asked):
                    of_day[camera, model_id].append(row)
                for key, rows in of_day.items():
                    labels, counts, scored, totals = zip(*rows, strict=True)
                    summed = sum(counts), sum(scored), sum(totals) / max(1, sum(scored))
                    of_labels = Counter(dict(zip(labels, counts, strict=True)))
                    found[key].append(DayResults(key[0], day.date, *summed, of_labels))
        return found


def _days_up_to(last: Day) -> list[Day]:
    return [last.before(ago) for ago in reversed(range(NUM_DAYS))]


def _figures(model_ids: Sequence[str]) -> list[ColumnElement[Any]]:
    its = pictures.c
    is_dark, is_bright, is_known = its.brightness < DARK, its.brightness > BRIGHT, its.look.is_not(None)
    is_clear = its.brightness.between(DARK, BRIGHT)
    is_rejected = and_(~is_known, or_(false(), *(has_rejection(its.id, one) for one in model_ids)))
    counts = [func.count(case((one, 1))) for one in (is_rejected, is_known, is_dark, is_bright, is_clear)]
    look = case((is_clear, its.look))
    means = [func.coalesce(func.avg(case((is_clear, one))), 0.0) for one in (its.contrast, its.sharpness)]
    ends = [func.coalesce(one, 0) for one in (func.min(look), func.max(look))]
    return [func.count(), *counts, counts[-1] - func.count(look.distinct()), *means, *ends]


def find_examples(images: ListedImages, camera: str, since: Day, judged: str) -> tuple[str | None, str | None]:
    """Return the locations of the last picture before a day that is clear, and of the first one of the day or later.

    `judged`: by which of the numbers of a CameraDay something is wrong with the day, which tells what that one is like.
    """
    its = images.source.is_listed, pictures.c.camera == camera
    is_clear, order = pictures.c.brightness.between(DARK, BRIGHT), (pictures.c.added_at, pictures.c.id)
    is_bad = {"num_known": ~is_clear, "num_clear": is_clear}.get(judged, true())
    before = select(pictures.c.location).where(*its, pictures.c.added_at < naive(since.start), is_clear)
    after = select(pictures.c.location).where(*its, pictures.c.added_at >= naive(since.start), is_bad)
    with images.database.read() as connection:
        good = connection.scalar(before.order_by(*(one.desc() for one in order)).limit(1))
        return good, connection.scalar(after.order_by(*order).limit(1))


def count_blank(images: ListedImages, days: Day, camera: str) -> tuple[int, int]:
    """Return on how many pictures of a camera nothing is shown, and how many are predicted, in an interval of days."""
    its = images.source.is_listed, *images.source.within(days), pictures.c.camera == camera
    has_result = select(predictions.c.picture).where(predictions.c.picture == pictures.c.id).exists()
    shows = func.lower(shown_results.c.label).not_in(BLANK)
    with images.database.read() as connection:
        asked = set(connection.scalars(select(pictures.c.id).where(*its, has_result)))
        left = {*asked}
        for some in in_batches(asked):
            of_them = shown_results.c.picture.in_(some)
            left -= set(connection.scalars(select(shown_results.c.picture).where(of_them, shows)))
    return len(left), len(asked)


def read_arrivals(
    images: ListedImages, clocks: CameraClocks, zone: str, until: Day | None = None
) -> dict[str, list[Arrival]]:
    """Return the arrivals of each camera in the NUM_DAYS up to a day or the newest one of any, the oldest first."""
    its = [images.source.is_listed, pictures.c.camera != ""]
    seen, taken = pictures.c.first_seen, pictures.c.taken_at
    with images.database.read() as connection:
        latest = connection.scalar(select(seen).where(*its).order_by(pictures.c.id.desc()).limit(1)) or 0.0
        end = until.end.timestamp() if until else latest
        start = end + SLACK_S - NUM_DAYS * 86_400
        its += [seen > start, pictures.c.id >= find_first_seen(connection, start), seen < end if until else true()]
        counted = select(pictures.c.camera, seen, func.count(), func.min(taken), func.max(taken)).where(*its)
        rows = connection.execute(counted.group_by(pictures.c.camera, seen).order_by(seen)).all()
    found = defaultdict[str, dict[int, Arrival]](dict)
    for camera, second, num_images, *ends in rows:
        ago = max(0, int((latest + SLACK_S - second) // 86_400))
        at = datetime.fromtimestamp(second, UTC)
        times = [naive(at) if one is None else clocks.put_right(camera, one) for one in ends]
        if before := found[camera].get(ago):
            num_images, times = num_images + before.num_images, [*times, before.first, before.last]
        local = at.astimezone(find_zone(zone)).date()
        found[camera][ago] = Arrival(camera, ago, local, naive(at), num_images, min(times), max(times))
    return {camera: list(arrivals.values()) for camera, arrivals in found.items()}
