"""Decide what is shown of a result that was read, by the rule that the views follow in SQL; tests compare the two.

An export applies it here: where groups decide, asking the view infer_shown_crops took it twice as long, and databases
add up the scores of a group in orders of their own, which changes the last digit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from infer_app.base.domain import DetectedObject
from infer_app.tables.label_groups import Groups
from infer_app.tables.queries.thresholds import find_threshold
from infer_app.tables.rows.results import PredictedCrop, Result, StoredOutput

Entry = Mapping[str, Any]  # of a stored classification: label, index and score; a group has no index


class ShownCrop(NamedTuple):
    """What is shown of a second network's prediction for an object, with all that is stored."""

    label: str | None  # a class or a group; None: no label reaches its threshold, or another kind of output
    class_index: int | None  # None: a group, which may be a class too
    score: float | None  # of a group the sum of its labels' scores, at most 1; the number of a regression
    output: StoredOutput
    object_id: int | None = None


@dataclass(frozen=True, slots=True)
class ShownLabels:
    """The thresholds of a model's labels, as `read_thresholds` returns them, and the groups of a second network's."""

    thresholds: Mapping[str, float]
    groups: Groups = field(default_factory=dict)

    def reaches(self, label: str, score: float) -> bool:
        """Return whether a score reaches the threshold of its label."""
        return score >= find_threshold(self.thresholds, label)

    def objects(self, image: Result) -> tuple[DetectedObject, ...]:
        """Return the objects that reach the threshold of their label."""
        if not self.thresholds:
            return image.objects
        return tuple([one for one in image.objects if self.reaches(one.label, one.score)])

    def labels(self, image: Result) -> tuple[Entry, ...]:
        """Return what a classification lists for an image and reaches its threshold, the best first."""
        details = image.output.details
        listed = details.get("labels", details.get("top"))
        if listed is None:
            listed = [] if image.label is None else [{"label": image.label, "index": None, "score": image.score}]
        return tuple(one for one in listed if self.reaches(one["label"], one["score"]))

    def chosen(self, image: Result) -> Sequence[Entry]:
        """Return the labels of a multi-label classification that are shown, or the best of another one."""
        shown = self.labels(image)
        return shown if "labels" in image.output.details else shown[:1]

    def crop(self, crop: PredictedCrop) -> ShownCrop:
        """Return the best allowed label, else the deepest group that reaches its threshold; or what is no label."""
        if crop.label is None:
            return ShownCrop(None, None, crop.score, *crop[2:])
        shown = self._shown(crop, self.allowed(crop.output)) or {"label": None, "index": None, "score": None}
        return ShownCrop(shown["label"], shown["index"], shown["score"], *crop[2:])

    def allowed(self, output: StoredOutput) -> list[Entry]:
        """Return the listed labels that are allowed, the best first."""
        stored = output.details.get("top", output.details.get("labels", ()))
        allowed = (one for one in stored if self._groups_of(one["label"]))
        return sorted(allowed, key=lambda one: (-one["score"], one["label"]))

    def chain(self, label: str) -> tuple[str, ...]:
        """Return a label's groups from the root of the taxonomy to itself."""
        return self._groups_of(label) or (label,)

    def _shown(self, crop: PredictedCrop, allowed: list[Entry]) -> Entry | None:
        own = [one for one in allowed if one["label"] == crop.label]  # before others with an equal score
        for one in (*own[:1], *allowed[:1]):
            if self.reaches(one["label"], one["score"]):
                return one
        sums: dict[str, float] = {}
        depths: dict[str, int] = {}
        for one in allowed:
            for depth, group in enumerate(self._groups_of(one["label"])):
                depths[group] = depth
                sums[group] = sums.get(group, 0.0) + one["score"]
        reached = [group for group, score in sums.items() if self.reaches(group, score)]
        if not reached:
            return None
        deepest = min(reached, key=lambda group: (-depths[group], -sums[group], group))
        return {"label": deepest, "index": None, "score": min(sums[deepest], 1.0)}  # sums are rounded

    def _groups_of(self, label: str) -> tuple[str, ...]:
        return self.groups.get(label, (label,)) or ()
