"""Pair what two models predicted for the same images, or two second networks for the same objects."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import FromClause, and_

from infer_app.base.day import Day
from infer_app.base.locations import shown as shown_location
from infer_app.predict.detection.boxes import match_objects
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.conditions import count_each, join_results
from infer_app.tables.results.schema import predictions
from infer_app.tables.rows.results import PredictedCrop, Result

_A, _B = predictions.alias("a"), predictions.alias("b")


@dataclass(frozen=True, slots=True)
class Overlap:
    """The numbers of the day's images that both models, one of them or neither predicted, from one moment."""

    both: int
    only_a: int
    only_b: int
    neither: int


class Pair(NamedTuple):
    """Both predictions for an image, or for an object of it."""

    image_id: str
    location: str
    object: int | None  # its number, of A's detector
    a: Result | PredictedCrop
    b: Result | PredictedCrop

    @property
    def least_score(self) -> float:
        return min(self.a.score or 0.0, self.b.score or 0.0)

    def head(self) -> dict[str, Any]:
        """Return what it is of, as JSON has it."""
        number = {} if self.object is None else {"object": self.object}
        return {"image_id": self.image_id, "location": shown_location(self.location)} | number


def count_overlap(images: ListedImages, day: Day, model_ids: tuple[str, str]) -> Overlap:
    listed = images.source.images_of(day)
    rows: FromClause = listed
    for side, model_id in zip((_A, _B), model_ids, strict=True):
        rows = join_results(listed, side, model_id, left=rows, is_outer=True)
    has_a, has_b = _A.c.picture.is_not(None), _B.c.picture.is_not(None)
    wanted = (and_(has_a, has_b), and_(has_a, ~has_b), and_(~has_a, has_b), and_(~has_a, ~has_b))
    with images.database.read() as connection:
        return Overlap(*count_each(connection, rows, wanted))


def paired_images(images: Iterable[list[Result]]) -> Iterator[Pair]:
    """Yield what both models gave for each image, which was read with its output."""
    for a, b in images:
        yield Pair(a.image_id, a.location, None, a, b)


class PairedCrops:
    """Yields what both networks gave for each object, and counts the objects meanwhile.

    Of one result of the detector an object is the same if its number is. Where the two took objects of two versions of
    the detector, it is that of the same label whose box overlaps enough.
    """

    def __init__(self, images: Iterable[list[Result]], min_iou: float) -> None:
        self._images = images
        self._min_iou = min_iou
        self.both = self.only_a = self.only_b = 0

    def __iter__(self) -> Iterator[Pair]:
        for image_a, image_b in self._images:
            same, left = self._same(image_a, image_b), dict(enumerate(image_b.crops))
            for number, a in enumerate(image_a.crops):
                b = left.pop(same[number], None) if number in same else None
                if a and b:
                    self.both += 1
                    yield Pair(image_a.image_id, image_a.location, number, a, b)
                self.only_a += bool(a and not b)
                self.only_b += bool(b and not a)
            self.only_b += sum(one is not None for one in left.values())

    def to_json(self) -> dict[str, int]:
        return {"both": self.both, "only_a": self.only_a, "only_b": self.only_b}

    def _same(self, a: Result, b: Result) -> dict[int, int]:
        """Return the numbers of B's objects by those of A's."""
        if a.objects == b.objects:
            return {number: number for number in range(len(a.objects))}
        return {match.a: match.b for match in match_objects(a.objects, b.objects, self._min_iou)}
