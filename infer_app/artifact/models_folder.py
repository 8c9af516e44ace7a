"""Find a version of a model in the folder of all models: <models folder>/<name>/<model id>."""

import contextlib
import difflib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from infer_app.artifact.artifact import Artifact, check_name, is_name, open_artifact
from infer_app.artifact.model_names import Version, plain_name, short_name, versions_named
from infer_app.base.errors import ModelChanged, ModelError, UsageError, os_errors_as


def find_artifact(models_folder: Path, wanted: str, in_use: Mapping[str, str] | None = None) -> Artifact:
    """Return the model that NAME, NAME@ID or ID names; NAME means the version in use, or the newest if none is.

    `in_use` has the id of the version in use by name. Raises ModelError that lists the names that exist.
    """
    found = _versions_of(models_folder, wanted)
    name = found[0][0]
    if name != wanted:
        return _open_version(models_folder.joinpath(*found[0]))
    model_id = (in_use or {}).get(name)
    if model_id is None:
        return _undamaged(*_scan_versions(models_folder / name))[0]
    if (name, model_id) not in found:
        raise not_there(models_folder, name, model_id, [one for _, one in found])
    return _open_version(models_folder / name / model_id)


def not_there(models_folder: Path, name: str, model_id: str, others: Sequence[str]) -> ModelError:
    """Return the error for a version in use whose folder is missing; `others` are ids that can be used instead."""
    this = short_name(name, model_id)
    uses = " or ".join(f"`infer model use {short_name(name, one)}`" for one in others)
    instead = f"put another version in use: {uses}" if uses else f"end its use: `infer model remove --force {this}`"
    return ModelError(
        f"{this}, the version in use, is not in {models_folder}", f"restore its folder from a backup, or {instead}"
    )


def find_folder(models_folder: Path, wanted: str) -> Path:
    """Return the folder of one version, also of a damaged one. Raises UsageError for a name with several versions."""
    found = _versions_of(models_folder, wanted)
    if len(found) > 1:
        listed = ", ".join(short_name(*version) for version in found)
        raise UsageError(f"{wanted} has {len(found)} versions", f"name one of them: {listed}")
    return models_folder.joinpath(*found[0])


def versions_of(models_folder: Path, name: str) -> list[Artifact]:
    """Return the versions of a name that can be opened, the newest first."""
    return _scan_versions(models_folder / name)[0]


def remove_folder(folder: Path) -> None:
    """Remove a model's folder, and that of its name if it was the last; a reader sees all of the model or nothing."""
    if not folder.exists():
        return
    removed = Path(tempfile.mkdtemp(prefix=".removed-", dir=folder.parent))
    folder.replace(removed)
    shutil.rmtree(removed)
    with contextlib.suppress(OSError):  # it has other versions
        folder.parent.rmdir()


def list_artifacts(models_folder: Path) -> list[Artifact]:
    """List all models by name, the newest of a name first. Raises ModelError if one can't be opened."""
    return _undamaged(*scan_artifacts(models_folder))


def scan_artifacts(models_folder: Path) -> tuple[list[Artifact], list[ModelError]]:
    """List all models by name, the newest of a name first, and the errors of those that can't be opened."""
    artifacts, damaged = list[Artifact](), list[ModelError]()
    for name_folder in _names(models_folder):
        versions, errors = _scan_versions(name_folder)
        artifacts += versions
        damaged += errors
    return artifacts, damaged


def _open_version(folder: Path) -> Artifact:
    """Open a folder of models/<name>/<id>. Raises ModelError also if its manifest is that of another model."""
    artifact = open_artifact(folder)
    version = artifact.manifest.name, artifact.manifest.model_id
    if version != (folder.parent.name, folder.name):
        raise ModelChanged(
            f"{folder} holds {'@'.join(version)}: a model's folder is named by its name and id",
            f"move it to {folder.parents[1].joinpath(*version)}",
        )
    return artifact


def _names(models_folder: Path) -> list[Path]:
    if not models_folder.is_dir():
        return []
    with os_errors_as(ModelError, str(models_folder), "it must be readable"):
        return sorted(path for path in models_folder.iterdir() if path.is_dir() and is_name(path.name))


def _scan_versions(name_folder: Path) -> tuple[list[Artifact], list[ModelError]]:
    """List the models of one name, the newest first, and the errors of those that can't be opened."""
    artifacts, damaged = list[Artifact](), list[ModelError]()
    for folder in _model_folders(name_folder):
        try:
            artifacts.append(_open_version(folder))
        except ModelError as error:
            damaged.append(error)
    return sorted(artifacts, key=lambda one: (one.manifest.created_at, one.manifest.model_id), reverse=True), damaged


def _undamaged(artifacts: list[Artifact], damaged: list[ModelError]) -> list[Artifact]:
    if damaged:
        raise damaged[0]
    return artifacts


def _model_folders(name_folder: Path) -> list[Path]:
    """List the folders of finished models; a model that is being built is in a folder with a leading dot."""
    if not name_folder.is_dir():
        return []
    return sorted(path for path in name_folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _versions_of(models_folder: Path, wanted: str) -> list[Version]:
    """Return the versions that NAME, NAME@ID or ID names, also those that can't be opened. Raises ModelError for none.

    A folder is named after its model.
    """
    name = plain_name(wanted)
    check_name(name)
    known = [(path.parent.name, path.name) for folder in _names(models_folder) for path in _model_folders(folder)]
    if found := versions_named(wanted, known):
        return found
    if there := ", ".join(short_name(*version) for version in known if version[0] == name):
        raise ModelError(f"no model {wanted!r} in {models_folder}", f"{name} has the versions {there}")
    if not known:
        raise ModelError(
            f"no model {wanted!r}: {models_folder} has none yet", f"make one: `infer model build SOURCE --name {name}`"
        )
    names = list(dict.fromkeys(version[0] for version in known))
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}?" if close else "see `infer model list`"
    raise ModelError(f"no model {wanted!r} in {models_folder}: there are {', '.join(names)}", hint)
