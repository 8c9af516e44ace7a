"""What an export holds: the predictions of one model over some days, above its thresholds, read as often as needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import islice
from typing import Any

from infer_app.artifact.specs import WITH_LABELS
from infer_app.ask.export.exported_model import ModelVersions
from infer_app.ask.export.image_paths import ImagePaths
from infer_app.ask.export.species import SpeciesNames
from infer_app.base.day import Day
from infer_app.base.domain import DetectedObject
from infer_app.base.errors import UsageError
from infer_app.base.size import Size
from infer_app.tables.cameras.captures import Capture, Captures
from infer_app.tables.label_groups import read_label_groups
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.queries.listed_images import IMAGES_AT_ONCE
from infer_app.tables.queries.thresholds import read_thresholds
from infer_app.tables.results.schema import ALL_LABELS
from infer_app.tables.rows.results import Part, Rejection, Result, read_preferred, read_rejected
from infer_app.tables.shown_labels import ShownCrop, ShownLabels

DatedImages = Iterable[tuple[date, Result]]


@dataclass(frozen=True, slots=True)
class ExportedImage:
    """An image of an export with what is shown of its prediction."""

    prediction: Result
    path: str  # as the file names it
    date: date
    objects: tuple[DetectedObject, ...]
    crops: tuple[ShownCrop | None, ...]  # of a second network, for each of the objects
    shown: ShownLabels | None  # of a classification
    capture: Capture | None = None  # if cameras are recorded

    @property
    def listed(self) -> Sequence[Mapping[str, Any]]:
        """Return what a classification lists above its thresholds: label, index and score, the best first."""
        return self.shown.labels(self.prediction) if self.shown else ()

    @property
    def labels(self) -> Sequence[Mapping[str, Any]]:
        """Return the labels that a classification shows: all of several, else the best."""
        return self.shown.chosen(self.prediction) if self.shown else ()

    @property
    def picture(self) -> Size:
        """Return the size of the upright picture. Raises UsageError if it is not known."""
        if self.prediction.upright is None:
            raise UsageError(
                f"image {self.prediction.image_id} was predicted by a release that stored no sizes",
                "predict it again: `infer retry --image ID`",
            )
        return self.prediction.upright


@dataclass(slots=True)
class ExportCounts:
    """How many images an export holds, how many objects, and how many images were rejected."""

    num_images: int = 0
    num_objects: int = 0
    num_rejected: int = 0
    num_detected: int = 0  # of the rejected images, those that are written with the objects of the detector
    left_out: Counter[str] = field(default_factory=Counter)  # images that a format can't hold, by what they lack


@dataclass(frozen=True, slots=True)
class Export:
    """The images of an export; each call of `read_images` and `read_rejected` reads them again."""

    model: ModelVersions
    shown: ShownLabels
    paths: ImagePaths
    read_predictions: Callable[[], DatedImages]
    read_rejected: Callable[[], Iterable[Rejection]]
    counts: ExportCounts = field(default_factory=ExportCounts)  # of what was read last
    detector: Export | None = None  # of a second network
    captures: Captures | None = None  # None: cameras are not recorded
    species: SpeciesNames = field(default_factory=SpeciesNames)

    @classmethod
    def of_days(
        cls,
        project: ProjectDatabase,
        days: Sequence[Day],
        model: ModelVersions,
        paths: ImagePaths,
        min_score: float | None = None,
        captures: Captures | None = None,
    ) -> Export:
        """Return all predictions of the days; of a second network `min_score` is that of its detector's objects.

        Raises UsageError if there is a lowest score, but no scores.
        """
        detector = cls.of_days(project, days, model.detector, paths, min_score) if model.detector else None
        return cls(
            model,
            ShownLabels(
                choose_thresholds(project, model, None if detector else min_score),
                read_label_groups(project.database, model.name) if detector else {},
            ),
            paths,
            lambda: read_days(project, days, model),
            lambda: (one for day in days for one in read_rejected(project, day, *model.all_ids)),
            detector=detector,
            captures=captures,
        )

    @property
    def of_boxes(self) -> Export:
        """Return the export that the objects belong to: that of the detector of a second network."""
        return self.detector or self

    def read_images(self, *, all_objects: bool = False) -> Iterator[ExportedImage]:
        """Yield the images in order of time and id; of a second network also with the objects that it did not take."""
        shown = self.shown if self.model.part is Part.OUTPUT else None
        counts = self.counts
        counts.num_images = counts.num_objects = 0
        for day, image, capture in self.with_captures(self.read_predictions()):
            objects, crops = self.show(image, all_objects=all_objects)
            counts.num_images += 1
            counts.num_objects += len(objects)
            yield ExportedImage(
                image, self.paths.of(image.location, image.picture), day, objects, crops, shown, capture
            )

    def with_captures(self, images: DatedImages) -> Iterator[tuple[date, Result, Capture | None]]:
        """Yield the images with what is known of their capture, if cameras are recorded."""
        if self.captures is None:
            yield from ((day, image, None) for day, image in images)
            return
        left = iter(images)
        while some := list(islice(left, IMAGES_AT_ONCE)):
            captures = self.captures.read(image.picture for _, image in some)
            yield from ((day, image, captures[image.picture]) for day, image in some)

    def show(
        self, image: Result, *, all_objects: bool = False
    ) -> tuple[tuple[DetectedObject, ...], tuple[ShownCrop | None, ...]]:
        """Return the objects that reach their thresholds and, of a second network, what is shown of each."""
        if self.detector is None:
            objects = self.shown.objects(image)
            return objects, (None,) * len(objects)
        show, reaches = self.shown.crop, self.detector.shown.reaches
        shown = [
            (one, crop and show(crop))
            for one, crop in zip(image.objects, image.crops, strict=True)
            if (crop or all_objects) and reaches(one.label, one.score)
        ]
        return tuple([one for one, _ in shown]), tuple([crop for _, crop in shown])


def choose_thresholds(
    project: ProjectDatabase, model: ModelVersions, min_score: float | None = None
) -> Mapping[str, float]:
    """Return the thresholds of a model, or `min_score` for all labels instead. Raises UsageError without scores."""
    if min_score is None:
        return read_thresholds(project.database, model.name) if model.has_thresholds else {}
    if model.kind not in WITH_LABELS:
        raise UsageError(f"{model.name} gives {model.kind} outputs, which have no scores", "leave out --min-score")
    return {ALL_LABELS: min_score}


def read_days(project: ProjectDatabase, days: Iterable[Day], model: ModelVersions) -> DatedImages:
    """Yield the predictions of the days, each with its date; none of an image that a preferred version rejected."""
    for day in days:
        found = read_preferred(project, day, model.all_ids, model.part)
        yield from ((day.date, image) for image in found)
