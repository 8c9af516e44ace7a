"""What an export holds: the predictions of one model over some days, above its thresholds, read as often as needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from typing import Any

from infer_app.database.figures.detections import PredictedImage, read_predicted_images, read_rejected_images
from infer_app.database.figures.figures import Figures, RejectedImage
from infer_app.database.project_database import ProjectDatabase
from infer_app.database.queries.thresholds import ALL_LABELS, find_threshold, read_thresholds
from infer_app.database.results.model_versions import kind_of, read_manifests, read_versions
from infer_app.day import Day
from infer_app.domain import MULTI_LABEL, DetectedObject, OutputKind
from infer_app.errors import UsageError
from infer_app.export.image_paths import ImagePaths
from infer_app.model_names import short_name
from infer_app.recipe import Size

DETECTION, CLASSIFICATION = OutputKind.DETECTION, OutputKind.CLASSIFICATION
WITH_SCORES = tuple(kind for kind in OutputKind if kind.has_labels)  # which thresholds apply to

DatedImages = Iterable[tuple[date, PredictedImage]]


@dataclass(frozen=True, slots=True)
class ExportedImage:
    """An image of an export with what is shown of its prediction."""

    prediction: PredictedImage
    path: str  # as the file names it
    date: date
    objects: tuple[DetectedObject, ...]
    labels: tuple[dict[str, Any], ...]  # of a classification: label, index and score, the best first

    @property
    def picture(self) -> Size:
        """Return the size of the upright picture. Raises UsageError if it is not known."""
        if self.prediction.picture is None:
            raise UsageError(
                f"image {self.prediction.image_id} was predicted by a release that stored no sizes",
                "predict it again: `infer retry --image ID`",
            )
        return self.prediction.picture


@dataclass(frozen=True, slots=True)
class ModelVersions:
    """A model's name with its versions, the preferred one first."""

    name: str
    model_ids: tuple[str, ...]  # that have predicted images of the days; all if none has
    all_ids: tuple[str, ...]
    kind: str
    # Classes of all versions of this kind that have run, the first to run first: so no number of a class ever moves.
    labels_by_version: tuple[tuple[str, ...], ...] = ()
    has_thresholds: bool = True  # detection, and classification with several labels

    @classmethod
    def find(cls, project: ProjectDatabase, days: Sequence[Day], wanted: str | None) -> ModelVersions:
        """Return the model that `wanted` names, or the only one that has predicted images of the days.

        Raises UsageError if there are several, or none has run.
        """
        versions = project.day_queries.models_in_use(wanted)
        interval = replace(days[0], end=days[-1].end)
        figures = {one: Figures(project.database, project.source, one[1]) for one in versions}
        predicted = [one for one in versions if figures[one].has_predicted(interval)] or versions
        names = sorted({name for name, _ in predicted})
        if not names:
            raise UsageError("no model has run on this database", "`infer run` first")
        if len(names) > 1:
            raise UsageError(f"several models have predicted images: {', '.join(names)}", "name one of them by --model")
        [name] = names
        model_ids, all_ids = ([one[1] for one in some if one[0] == name] for some in (predicted, versions))
        with project.database.read() as connection:
            manifests = read_manifests(connection, name)
            have_run = [one for one in read_versions(connection) if one.name == name and one.has_run]
        kind = _kind(name, model_ids, manifests)
        in_order = (one.model_id for one in sorted(have_run, key=lambda one: (one.first_run_at, one.model_id)))
        labels = tuple(
            tuple(manifests[one].get("labels", ()))
            for one in in_order
            if (kind_of(manifests[one]) or CLASSIFICATION) == kind
        )
        is_multi_label = any(manifests[one].get("output", {}).get("activation") in MULTI_LABEL for one in model_ids)
        has_thresholds = kind == DETECTION or (kind == CLASSIFICATION and is_multi_label)
        return cls(name, tuple(model_ids), tuple(all_ids), kind, labels, has_thresholds)

    @property
    def shown_name(self) -> str:
        """Return NAME@ID of the preferred version."""
        return short_name(self.name, self.model_ids[0])


def _kind(name: str, model_ids: Sequence[str], manifests: Mapping[str, Mapping[str, object]]) -> str:
    kinds: dict[str, str] = {}
    for model_id in model_ids:
        kinds.setdefault((kind_of(manifests[model_id]) or CLASSIFICATION), model_id)
    if len(kinds) > 1:
        versions = ", ".join(f"{short_name(name, model_id)} ({kind})" for kind, model_id in kinds.items())
        raise UsageError(f"versions of {name} give several kinds of output: {versions}", "name one version by --model")
    return next(iter(kinds))


@dataclass(slots=True)
class ExportCounts:
    """How many images an export holds, how many objects, and how many images were rejected."""

    num_images: int = 0
    num_objects: int = 0
    num_rejected: int = 0


@dataclass(frozen=True, slots=True)
class Export:
    """The images of an export; each call of `read_images` and `read_rejected` reads them again."""

    model: ModelVersions
    thresholds: Mapping[str, float]  # by label, ALL_LABELS for all others
    paths: ImagePaths
    read_predictions: Callable[[], DatedImages]
    read_rejected: Callable[[], Iterable[RejectedImage]]
    counts: ExportCounts = field(default_factory=ExportCounts)  # of what was read last

    @classmethod
    def of_days(
        cls,
        project: ProjectDatabase,
        days: Sequence[Day],
        model: ModelVersions,
        paths: ImagePaths,
        min_score: float | None = None,
    ) -> Export:
        """Return all predictions of the days. Raises UsageError if there is a lowest score, but no scores."""
        read_rejected = partial(read_rejected_images, project.database, project.source)
        return cls(
            model,
            choose_thresholds(project, model, min_score),
            paths,
            lambda: read_days(project, days, model),
            lambda: (one for day in days for one in read_rejected(day, *model.all_ids)),
        )

    @property
    def has_objects(self) -> bool:
        return self.model.kind == DETECTION

    def read_images(self) -> Iterator[ExportedImage]:
        """Yield the images in order of time and id."""
        shows_all = not self.thresholds
        has_labels = self.model.kind == CLASSIFICATION
        counts = self.counts
        counts.num_images = counts.num_objects = 0
        for day, image in self.read_predictions():
            objects = image.objects if shows_all else image.shown(self.thresholds)
            labels = shown_labels(image, self.thresholds) if has_labels else ()
            counts.num_images += 1
            counts.num_objects += len(objects)
            yield ExportedImage(image, self.paths.of(image.location), day, objects, labels)


def choose_thresholds(
    project: ProjectDatabase, model: ModelVersions, min_score: float | None = None
) -> Mapping[str, float]:
    """Return the thresholds of a model, or `min_score` for all labels instead. Raises UsageError without scores."""
    if min_score is None:
        return read_thresholds(project.database, model.name) if model.has_thresholds else {}
    if model.kind not in WITH_SCORES:
        raise UsageError(f"{model.name} gives {model.kind} outputs, which have no scores", "leave out --min-score")
    return {ALL_LABELS: min_score}


def read_days(project: ProjectDatabase, days: Iterable[Day], model: ModelVersions) -> DatedImages:
    """Yield the predictions of the days, each with its date."""
    has_objects = model.kind == DETECTION
    for day in days:
        found = read_predicted_images(project.database, project.source, day, *model.model_ids, has_objects=has_objects)
        yield from ((day.date, image) for image in found)


def shown_labels(image: PredictedImage, thresholds: Mapping[str, float]) -> tuple[dict[str, object], ...]:
    """Return what a classification lists for an image, label, index and score, at or above the thresholds."""
    details = image.output.details if image.output else {}
    listed = details.get("labels", details.get("top"))
    if listed is None:
        listed = [] if image.label is None else [{"label": image.label, "index": None, "score": image.score}]
    return tuple(one for one in listed if one["score"] >= find_threshold(thresholds, one["label"]))


def chosen_labels(image: PredictedImage, shown: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Return the labels of a multi-label classification that are shown, or the best of another one."""
    is_multi_label = image.output is not None and "labels" in image.output.details
    return shown if is_multi_label else shown[:1]
