"""Chooses the models of a run, and which of them run together."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.manifest import PREPROCESS_FILE
from infer_app.artifact.model_names import short_name
from infer_app.artifact.models_folder import find_artifact, not_there, scan_artifacts, versions_of
from infer_app.artifact.second_network import check_against_detector
from infer_app.base.errors import ModelError, UsageError
from infer_app.base.settings.load import LoadedSettings
from infer_app.tables.project_database import open_results_database, read_in_use
from infer_app.tables.results.runs import RunStore

log = logging.getLogger(__name__)


def choose_names(loaded: LoadedSettings) -> list[str]:
    """Return what the settings name, as NAME, NAME@ID or ID, else the names of all models.

    Raises UsageError if there is no model, ModelError if there should be some.
    """
    if names := loaded.model_names:
        return list(names)
    artifacts, damaged = scan_artifacts(loaded.models_folder)
    found = sorted({artifact.manifest.name for artifact in artifacts})
    if damaged and not found:
        raise damaged[0]
    if not found:
        find_lost(loaded, read_in_use(loaded))
        raise UsageError(f"no model in {loaded.models_folder}", "make one with `infer model build SOURCE --name NAME`")
    return found


def choose_artifacts(
    loaded: LoadedSettings, in_use: Mapping[str, str] | None = None, failures: dict[str, ModelError] | None = None
) -> list[Artifact]:
    """Return the models named in the settings, else all that are here or in use; a name means its version in use.

    `in_use` is read from the database unless it is given. Raises what `read_in_use` raises, and ModelError or
    UsageError for a model that isn't there, or that has several versions of which none is in use; if the settings name
    none, `failures` gets the errors by name, as long as there is another model.
    """
    known = read_in_use(loaded) if in_use is None else in_use
    is_named = loaded.model_names and any(scan_artifacts(loaded.models_folder))
    lost = {} if is_named else find_lost(loaded, known)
    names = choose_names(loaded)
    if not loaded.model_names:
        here = {name for name, model_id in known.items() if loaded.models_folder.joinpath(name, model_id).is_dir()}
        names = sorted({*names, *here, *lost})  # also what is damaged
        for error in scan_artifacts(loaded.models_folder)[1]:
            log.warning("left out: %s (%s)", error, error.hint)
    found = []
    for name in names:
        try:
            if name in lost:
                others = [one.manifest.model_id for one in versions_of(loaded.models_folder, name)]
                raise not_there(loaded.models_folder, name, lost[name], others)
            artifact = find_artifact(loaded.models_folder, name, known)
            _check_chosen(loaded, name, known)
            found.append(artifact)
            _log_choice(artifact, known)
        except ModelError as error:
            if failures is None or loaded.model_names:
                raise
            failures[name] = error
    if failures and not found:
        raise next(iter(failures.values()))
    twice = [name for name, count in Counter(artifact.manifest.name for artifact in found).items() if count > 1]
    if twice:
        raise UsageError(f"two versions of {twice[0]} in one run", "run one, then the other")
    return found


def find_lost(loaded: LoadedSettings, in_use: Mapping[str, str]) -> dict[str, str]:
    """Return the versions in use, by name, that have run and whose folders are not there.

    Raises ModelError if there are some and the folder has no model at all.
    """
    folder = loaded.models_folder
    lost = {name: model_id for name, model_id in in_use.items() if not folder.joinpath(name, model_id).is_dir()}
    if not lost:
        return {}
    with open_results_database(loaded, read_only=True) as database:
        ran = RunStore(database).names_that_ran()
    lost = {name: model_id for name, model_id in lost.items() if name in ran}
    if lost and not any(scan_artifacts(folder)):
        listed = ", ".join(short_name(*version) for version in sorted(lost.items()))
        raise ModelError(
            f"{folder} has no model, and in use in {loaded.shown_url}: {listed}",
            "is the disk of that folder mounted? If so, restore it from a backup",
        )
    return lost


def _check_chosen(loaded: LoadedSettings, name: str, in_use: Mapping[str, str]) -> None:
    """Raise ModelError for a name with several versions of which none is in use: another may have made the results.

    So it is with a folder of models that was copied to a new database.
    """
    versions = [] if name in in_use else versions_of(loaded.models_folder, name)  # none of NAME@ID or ID
    if len(versions) > 1:
        listed = [short_name(name, one.manifest.model_id) for one in versions]
        raise ModelError(
            f"{name} has {len(versions)} versions, and none is in use in {loaded.shown_url}: {', '.join(listed)}",
            f"put one in use: `infer model use {name}` takes the newest, {listed[0]}",
        )


def _log_choice(artifact: Artifact, in_use: Mapping[str, str]) -> None:
    """Log which version runs if it is not the one in use."""
    name, model_id = artifact.manifest.name, artifact.manifest.model_id
    if in_use.get(name, model_id) != model_id:
        this, using = short_name(name, model_id), short_name(name, in_use[name])
        log.info("%s is tried, %s stays in use; to switch: `infer model use %s`", this, using, this)


def runs_unasked(loaded: LoadedSettings, artifact: Artifact) -> bool:
    """Return whether a plain run takes this version while none of its name is in use; others are only tried."""
    is_flag = "flag" in (loaded.origins.get("run.model"), loaded.origins.get("run.models"))
    is_only = len(versions_of(loaded.models_folder, artifact.manifest.name)) == 1
    return is_only or (bool(loaded.model_names) and not is_flag)


def with_detectors(
    loaded: LoadedSettings, artifacts: Sequence[Artifact], failures: dict[str, ModelError] | None = None
) -> list[Artifact]:
    """Return the models with the detectors whose objects they take, which are those in use, before second networks.

    Raises UsageError for a detector that is only tried, and ModelError for one that isn't there or no longer fits;
    `failures` gets them by name as in `choose_artifacts`.
    """
    firsts = {one.manifest.name: one for one in artifacts if not one.manifest.crop}
    seconds: list[Artifact] = []
    known = read_in_use(loaded) if len(firsts) < len(artifacts) else {}
    for artifact in (one for one in artifacts if one.manifest.crop):
        try:
            detector = _find_detector(loaded, artifact, firsts, known)
        except ModelError as error:
            if failures is None or loaded.model_names:
                raise
            failures[artifact.manifest.name] = error
            continue
        firsts[detector.manifest.name] = detector
        seconds.append(artifact)
    return [*firsts.values(), *seconds]


def _find_detector(
    loaded: LoadedSettings, artifact: Artifact, chosen: Mapping[str, Artifact], in_use: Mapping[str, str]
) -> Artifact:
    crop = artifact.manifest.crop
    assert crop is not None
    name = crop.of
    detector = chosen.get(name)
    if detector is None:
        _check_chosen(loaded, name, in_use)
        detector = find_artifact(loaded.models_folder, name, in_use)
    found = detector.manifest.model_id
    this = short_name(name, found)
    if name not in in_use and not runs_unasked(loaded, detector):
        raise UsageError(
            f"{artifact.manifest.name} takes the objects of the version in use, and none of {name} is",
            f"put one in use: `infer model use {this}`",
        )
    if in_use.get(name, found) != found:
        using = short_name(name, in_use[name])
        raise UsageError(
            f"{artifact.manifest.name} takes the objects of {using}, which is in use, and this run tries {this}",
            f"run {this} alone, or put it in use first: `infer model use {this}`",
        )
    try:
        check_against_detector(crop, artifact.manifest.recipe, detector.manifest, detector.labels)
    except ModelError as error:
        raise ModelError(f"{artifact.manifest.name} does not fit its detector: {error}", error.hint) from None
    return detector


@dataclass(frozen=True, slots=True)
class Group:
    """Models that share each picture as it was decoded, the detector of second networks before these."""

    artifacts: tuple[Artifact, ...]
    may_split: bool = False  # whether its models can be run one by one

    @property
    def names(self) -> list[str]:
        return [artifact.manifest.name for artifact in self.artifacts]

    def split(self) -> list[Group]:
        """Return groups of one model each, or of a second network with its detector."""
        named = {one.manifest.name: one for one in self.artifacts}
        return [Group((named[one.manifest.crop.of], one) if one.manifest.crop else (one,)) for one in self.artifacts]


def group_by_pixels(artifacts: Sequence[Artifact]) -> list[Group]:
    """Group the models that take the same pixels, or objects that one of them finds: images are decoded once for all.

    Two names of one model are never in one group, since a run holds its day by the model's id. A group has at most one
    detector of second networks.
    """
    of_detector = defaultdict[str, list[Artifact]](list)
    again: list[Artifact] = []  # second networks that are there under another name
    for artifact in artifacts:
        if artifact.manifest.crop:
            others = of_detector[artifact.manifest.crop.of]
            is_again = any(one.manifest.model_id == artifact.manifest.model_id for one in others)
            (again if is_again else others).append(artifact)
    groups: dict[object, list[Artifact]] = {}
    named: Counter[str] = Counter()
    detectors: Counter[object] = Counter()
    for artifact in (one for one in artifacts if not one.manifest.crop):
        manifest = artifact.manifest
        pixels = (manifest.recipe, manifest.preprocess, manifest.files.get(PREPROCESS_FILE), named[manifest.model_id])
        named[manifest.model_id] += 1
        is_detector = manifest.name in of_detector
        same = (pixels, detectors[pixels] if is_detector else 0)
        detectors[pixels] += is_detector
        groups.setdefault(same, []).append(artifact)
    together = (
        [*firsts, *(one for first in firsts for one in of_detector[first.manifest.name])] for firsts in groups.values()
    )
    apart = [part for part in Group(tuple(artifacts)).split() if part.artifacts[-1] in again]
    return [*(Group(tuple(models), may_split=len(models) > 1) for models in together), *apart]
