"""The model of an export: its versions, and those of its detector if it is a second network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from infer_app.artifact.model_names import short_name
from infer_app.ask.figures.figures import Figures
from infer_app.base.day import Day
from infer_app.base.domain import OutputKind
from infer_app.base.errors import UsageError
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.results.model_versions import (
    detector_of,
    gives_several_labels,
    kind_of,
    min_score_of,
    read_manifests,
    read_versions,
)
from infer_app.tables.rows.results import Part, part_of

DETECTION, CLASSIFICATION = OutputKind.DETECTION, OutputKind.CLASSIFICATION


@dataclass(frozen=True, slots=True)
class ModelVersions:
    """A model's name with its versions, the preferred one first."""

    name: str
    model_ids: tuple[str, ...]  # that have predicted images of the days; all if none has
    all_ids: tuple[str, ...]
    kind: str
    # Labels of all versions of this kind that have run, with the time of the first run and the id.
    recorded_labels: tuple[tuple[datetime, str, tuple[str, ...]], ...] = ()
    has_thresholds: bool = True  # detection, and classification with several labels or of objects
    detector: ModelVersions | None = None  # of a second network
    min_score: float = 0.0  # from which the preferred version stores objects

    @classmethod
    def find(cls, project: ProjectDatabase, days: Sequence[Day], wanted: str | None) -> ModelVersions:
        """Return the model that `wanted` names, or the only one that has predicted images of the days.

        Raises UsageError if there are several, or none has run.
        """
        versions = project.versions.models_in_use(wanted)
        interval = replace(days[0], end=days[-1].end)
        figures = {one: Figures(project, one[1]) for one in versions}
        predicted = [one for one in versions if figures[one].has_predicted(interval)] or versions
        names = sorted({name for name, _ in predicted})
        if not names:
            raise UsageError("no model has run on this database", "`infer run` first")
        if len(names) > 1:
            raise UsageError(f"several models have predicted images: {', '.join(names)}", "name one of them by --model")
        [name] = names
        model_ids, all_ids = ([one[1] for one in some if one[0] == name] for some in (predicted, versions))
        return cls._read(project, name, model_ids, all_ids)

    @classmethod
    def _read(
        cls, project: ProjectDatabase, name: str, model_ids: Sequence[str], all_ids: Sequence[str]
    ) -> ModelVersions:
        with project.database.read() as connection:
            manifests = read_manifests(connection, name)
            have_run = [one for one in read_versions(connection) if one.name == name and one.has_run]
        kind, of = _kind(name, model_ids, manifests)
        labels = (
            (one.first_run_at, one.model_id, tuple(manifests[one.model_id].get("labels", ())))
            for one in have_run
            if _kind_of(manifests[one.model_id]) == (kind, of)
        )
        is_multi_label = any(gives_several_labels(manifests[one]) for one in model_ids)
        has_thresholds = kind == DETECTION or (kind == CLASSIFICATION and (is_multi_label or bool(of)))
        detector = cls._read_detector(project, of) if of else None
        ids, min_score = (tuple(model_ids), tuple(all_ids)), min_score_of(manifests[model_ids[0]]["output"])
        return cls(name, *ids, kind, tuple(labels), has_thresholds, detector, min_score)

    @property
    def part(self) -> Part:
        """Return what is read of its predictions."""
        return part_of(self.kind, self.detector)

    @property
    def has_objects(self) -> bool:
        """Return whether its outputs are of objects: those that it has found, or those of its detector."""
        return self.part is not Part.OUTPUT

    @property
    def labels_by_version(self) -> list[tuple[str, ...]]:
        """Return the labels of each version, the first to run first: so no number of a class ever moves."""
        return [labels for *_, labels in sorted(self.recorded_labels)]

    @property
    def labels_of_objects(self) -> list[tuple[str, ...]]:
        """Return the labels of each version, of a second network and of its detector, the first to run first."""
        detected = self.detector.recorded_labels if self.detector else ()
        return [labels for *_, labels in sorted((*self.recorded_labels, *detected))]

    @classmethod
    def _read_detector(cls, project: ProjectDatabase, name: str) -> ModelVersions:
        with project.database.read() as connection:
            manifests = read_manifests(connection, name)
        versions = [model_id for _, model_id in project.versions.models_in_use(name)]
        detecting = [one for one in versions if kind_of(manifests[one]) == DETECTION]
        return cls._read(project, name, detecting, detecting)

    @property
    def shown_name(self) -> str:
        """Return NAME@ID of the preferred version."""
        return short_name(self.name, self.model_ids[0])


def _kind(name: str, model_ids: Sequence[str], manifests: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    kinds: dict[tuple[str, str], str] = {}
    for model_id in model_ids:
        kinds.setdefault(_kind_of(manifests[model_id]), model_id)
    if len(kinds) > 1:
        versions = ", ".join(
            f"{short_name(name, model_id)} ({kind}{f' of objects of {of}' if of else ''})"
            for (kind, of), model_id in kinds.items()
        )
        raise UsageError(f"versions of {name} give several kinds of output: {versions}", "name one version by --model")
    return next(iter(kinds))


def _kind_of(manifest: Mapping[str, Any]) -> tuple[str, str]:
    """Return the kind of a version's output and, of a second network, its detector's name."""
    return kind_of(manifest) or CLASSIFICATION, detector_of(manifest) or ""
