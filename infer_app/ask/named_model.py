"""A model by its name with what its versions give, as thresholds and groups of labels need it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infer_app.artifact.model_names import plain_name
from infer_app.artifact.models_folder import scan_artifacts
from infer_app.base.domain import MULTI_LABEL
from infer_app.base.errors import UsageError
from infer_app.base.settings.load import LoadedSettings
from infer_app.tables.engine.column_types import MAX_ID
from infer_app.tables.engine.connect import Database
from infer_app.tables.label_groups import read_groups
from infer_app.tables.results.model_versions import detector_of, min_score_of, read_manifests, read_versions


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model by its name, with its versions."""

    name: str
    outputs: tuple[Mapping[str, Any], ...]  # OutputSpec as JSON, of the version in use first
    labels: Mapping[str, Sequence[str] | None]  # by id; empty: classes are numbers; None: not recorded
    detector: str | None = None  # the name of the detector whose objects it is given, if it is a second network

    @classmethod
    def find(cls, database: Database, loaded: LoadedSettings, name: str) -> NamedModel:
        """Find a model in the database and in the folder. Raises UsageError."""
        artifacts, _ = scan_artifacts(loaded.models_folder)
        with database.read() as connection:
            recorded = [(one.name, one.model_id) for one in read_versions(connection)]
            manifests = read_manifests(connection, name)
        names = {one for one, _ in recorded} | {one.manifest.name for one in artifacts}
        if name not in names:
            raise _unknown_model(name, names)
        own = {
            one.manifest.model_id: json.loads(one.manifest.to_json()) | {"labels": one.labels}
            for one in artifacts
            if one.manifest.name == name
        }
        known = {model_id: manifests[model_id] for one, model_id in recorded if one == name} | own
        return cls(
            name,
            tuple(one["output"] for one in known.values() if "output" in one),
            {model_id: _labels(manifest) for model_id, manifest in known.items()},
            next(filter(None, map(detector_of, known.values())), None),
        )

    @property
    def gives_objects(self) -> bool:
        return any(output["kind"] == "detection" for output in self.outputs)

    @property
    def stored_from(self) -> float | None:
        """Return the minimum score that the model stores; None if it stores no objects or labels."""
        for output in self.outputs:
            if output["kind"] == "detection":
                return min_score_of(output)
            if output["kind"] == "classification" and output.get("activation") in MULTI_LABEL:
                return float(output["threshold"])
        return None

    @property
    def classifies_objects(self) -> bool:
        """Return whether it is a second network that gives labels."""
        return self.detector is not None and any(output["kind"] == "classification" for output in self.outputs)

    def check_kind(self) -> None:
        """Raise UsageError if no version gives objects, labels of objects or several labels."""
        if self.outputs and self.stored_from is None and not self.classifies_objects:
            what = "image" if self.detector is None else "object"
            raise UsageError(
                f"{self.name} has no thresholds: it gives one result per {what} ({self.outputs[0]['kind']})",
                "thresholds are for detection, and for classification of a detector's objects or with the activation"
                " sigmoid or sigmoid-applied",
            )

    @property
    def known_labels(self) -> set[str]:
        return {label for labels in self.labels.values() for label in labels or ()}

    def check_labels(self, database: Database, labels: Iterable[str]) -> None:
        """Raise UsageError for a label that no version of the model has, and that is no group of its labels."""
        known = self.known_labels | read_groups(database, self.name)
        is_numbered = any(labels is not None and not labels for labels in self.labels.values())
        for label in labels:
            is_number = label.isascii() and label.isdecimal() and str(int(label)) == label
            if len(label) > MAX_ID:
                raise UsageError(f"{label[:40]!r}… has more than {MAX_ID} characters", "--default is for all labels")
            if label not in known and not (is_numbered and is_number):
                raise _unknown_label(self.name, label, known)


def _labels(manifest: Mapping[str, Any]) -> Sequence[str] | None:
    labels: Sequence[str] | None = manifest.get("labels")
    if labels is not None and not labels and detector_of(manifest):
        return [str(number) for number in range(manifest["num_outputs"])]
    return labels


def _unknown_model(name: str, names: set[str]) -> UsageError:
    if plain_name(name) in names:
        return UsageError(f"thresholds hold for all versions of {plain_name(name)}", "name it without the id")
    hint = hint_of_known(name, names) or "`infer model build SOURCE --name NAME` makes one"
    return UsageError(f"no model {name!r} in the models folder or the database", hint)


def _unknown_label(name: str, label: str, known: set[str]) -> UsageError:
    hint = hint_of_known(label, known) or "no label of it is known yet: --default is for all labels"
    return UsageError(f"{name} has no label {label!r}", hint)


def hint_of_known(wanted: str, known: Iterable[str]) -> str:
    """Return a hint that names what is close to `wanted`, whatever its case, else some of the known; none for none."""
    by_folded: dict[str, list[str]] = {}
    for one in sorted(known):
        by_folded.setdefault(one.casefold(), []).append(one)
    close = [one for key in difflib.get_close_matches(wanted.casefold(), by_folded) for one in by_folded[key]]
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    some = sorted(known)[:10]
    return f"there are {', '.join(map(repr, some))}{', …' if len(by_folded) > len(some) else ''}" if some else ""
