"""Finds places of a camera's view where a detector gives a box again and again: a rock, a branch, a post."""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from sqlalchemy import func, select

from infer_app.predict.detection.boxes import intersection_over_union
from infer_app.tables.listing.user_table import PAGE_SIZE
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.conditions import AT_PLACE, TAKEN, is_static, threshold_of
from infer_app.tables.results.schema import OBJECT_COLUMNS, objects, pictures, places

# As in `RepeatDetectionOptions` of megadetector-utils 10.0.28:
MIN_IOU = 0.9  # with the box in the middle, `iouThreshold`
MIN_BOXES = 20  # that overlap it so, `occurrenceThreshold`
MAX_AREA = 0.2  # of the picture, `maxSuspiciousDetectionSize`
MIN_SCORE = 0.1  # `confidenceMin`
# That also finds where an animal sleeps for a night, and where many come:
MIN_DAYS = 5
MIN_SHARE = 0.5  # at the place, of the boxes that overlap the middle one by ALIKE: those of animals differ more
ALIKE = 0.5
CELL = 0.02  # of the picture's sides: boxes whose edges differ by less are looked at together first
FEW = 3  # boxes in a cell, from which a place is looked for

_STORED = np.dtype([("number", "i8"), ("picture", "i8"), ("day", "U10"), ("box", "f4", 4)])


class RepeatedBox(NamedTuple):
    """A place where a detector gives a box again and again."""

    number: int  # of the object in the middle, by which `decide` knows the place
    camera: str
    label: str
    boxes: int
    days: int
    last: str  # day, by the camera's own clock
    picture: int  # of the object
    box: tuple[float, float, float, float]  # its x y width height, as shares of the upright picture


def find_repeated_boxes(images: ListedImages, model: str, model_id: str) -> list[RepeatedBox]:
    """Return the places of which nothing was decided, of the objects that a detector's thresholds show.

    In memory are those of one camera and label at a time, with 72 bytes each.
    """
    x, y, width, height = OBJECT_COLUMNS[-4:]
    score, kind = objects.c.score, (pictures.c.camera, objects.c.label)
    wanted = (
        select(*kind, objects.c.id, pictures.c.id, func.date(TAKEN), x, y, x + width, y + height)
        .join(pictures, pictures.c.id == objects.c.picture)
        .where(objects.c.model_id == model_id, images.source.is_listed, images.source.is_kept, pictures.c.camera != "")
        .where(score >= MIN_SCORE, score >= threshold_of(model, objects.c.label))
        .where((width * height).between(1e-6, MAX_AREA), ~is_static(decided=places.c.hidden.is_not(None)))
        .order_by(*kind, x)
    )
    found = list[RepeatedBox]()
    with images.database.read() as connection:
        rows = connection.execution_options(yield_per=PAGE_SIZE).execute(wanted)
        for (camera, label), own in groupby(rows, itemgetter(0, 1)):
            stored = np.fromiter(((row[2], row[3], str(row[4]), row[5:]) for row in own), _STORED)
            for middle, repeated, there in _find_places(stored["box"]):
                number, picture, _, corners = stored[middle].tolist()
                left, top, right, bottom = corners.tolist()
                days, box = np.unique(stored["day"][repeated]).tolist(), (left, top, right - left, bottom - top)
                if len(days) >= MIN_DAYS:
                    found.append(RepeatedBox(number, camera, label, len(there), len(days), days[-1], picture, box))
    return sorted(found, key=lambda one: -one.boxes)


def _find_places(boxes: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield the box in the middle of each place, those that repeat it and all that are there, by their indices.

    `boxes`: (n, 4) corners as shares of the picture, in the order of their left edges.
    """
    _, cells, counts = np.unique(np.round(boxes / CELL), axis=0, return_inverse=True, return_counts=True)
    order, ends, is_left = np.argsort(cells.ravel()), np.cumsum(counts), np.ones(len(boxes), bool)
    edges = boxes[:, 0].copy()

    def find(box: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the boxes whose IoU with a box may be at least this, and the IoU of each."""
        reach = (1 - least) / least * (box[2] - box[0])
        near = np.arange(*np.searchsorted(edges, [box[0] - reach, box[0] + reach]))
        return near, intersection_over_union(box[None], boxes[near]).ravel()

    for cell in np.argsort(-counts)[: np.count_nonzero(counts >= FEW)]:
        at = order[ends[cell] - counts[cell] : ends[cell]]
        at = at[is_left[at]]
        for _ in range(3 if len(at) >= FEW else 0):  # a cell holds a part of the boxes: their middle moves
            alike = intersection_over_union(np.median(boxes[at], axis=0)[None], boxes[at])
            middle = at[alike.argmax()]
            near, overlaps = find(boxes[middle], MIN_IOU)
            at = near[(overlaps >= MIN_IOU) & is_left[near]]
            if len(at) < MIN_BOXES // 2:
                break
        if len(at) >= MIN_BOXES:
            near, overlaps = find(boxes[middle], ALIKE)
            there = near[(overlaps >= AT_PLACE) & is_left[near]]
            if len(there) >= MIN_SHARE * np.count_nonzero(overlaps >= ALIKE):
                is_left[there] = False
                yield middle, at, there
