"""Read and write a model on disk: <models folder>/<name>/<model id>/manifest.json and the files it has checksums of.

Loading a model runs code, so files are only used through `Artifact.read`, which verifies the bytes that it returns.
"""

from __future__ import annotations

import contextlib
import difflib
import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from infer_app.atomic_file import replace_file
from infer_app.errors import ModelChanged, ModelError, UsageError
from infer_app.model_names import Version, plain_name, short_name, versions_named
from infer_app.models.artifact.manifest import HEAD_FILE, LABELS_FILE, PREPROCESS_FILE, Manifest, parse_labels
from infer_app.models.artifact.specs import InputSpec, OutputSpec, Tolerance

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "Artifact",
    "InputSpec",
    "Manifest",
    "OutputSpec",
    "Tolerance",
    "check_name",
    "find_artifact",
    "find_folder",
    "find_newest",
    "list_artifacts",
    "open_artifact",
    "record_variant",
    "remove_folder",
    "save_manifest",
    "scan_artifacts",
    "versions_of",
]

MANIFEST_FILE = "manifest.json"
TUNING_FOLDER = "tuning"  # what was measured on each host; no part of the model
Preprocess: TypeAlias = "Callable[[np.ndarray], np.ndarray]"  # RGB uint8 (height, width, 3), to the input's size

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_RESTORE = "rebuild the model with `infer model build SOURCE --name NAME`, or restore its folder from a backup"


@dataclass(frozen=True)
class Artifact:
    """A model: its folder and its manifest."""

    folder: Path
    manifest: Manifest
    reused: bool = False  # the build found this model and did not change it

    def read(self, relative: str) -> bytes:
        """Return a file's bytes, read once and verified. Raises ModelError if they are not those of the build."""
        expected = self.manifest.files.get(relative)
        if expected is None:
            raise ModelChanged(f"{self.folder}: {relative} is not a file of this model", _RESTORE)
        try:
            data = (self.folder / relative).read_bytes()
        except OSError as error:
            raise _unreadable(self.folder / relative, error) from error
        if hashlib.sha256(data).hexdigest() != expected:
            raise ModelChanged(f"{self.folder / relative}: changed since it was built", _RESTORE)
        return data

    def verify(self) -> None:
        """Raise ModelError that names every file that was changed, is missing or does not belong to this model."""
        problems = [problem for relative in self.manifest.files if (problem := self._problem(relative))]
        problems += [f"{relative}: not of this model" for relative in self._extra_files()]
        if problems:
            raise ModelChanged(f"{self.folder}: {'; '.join(problems)}", _RESTORE)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Return the labels, class i at index i; empty if the model was built without labels."""
        if LABELS_FILE not in self.manifest.files:
            return ()
        return parse_labels(self.read(LABELS_FILE), str(self.folder / LABELS_FILE))

    def preprocess(self) -> Preprocess | None:
        """Return the function of a custom recipe, None for other recipes.

        It is loaded from the artifact's own copy, so it does not depend on the working folder.
        """
        if self.manifest.preprocess is None:
            return None
        return self._function(PREPROCESS_FILE, self.manifest.preprocess)

    def head(self) -> Callable[..., Any] | None:
        """Return the user's own head of a detector, from the artifact's copy; None for other models."""
        detection = self.manifest.output.detection
        return self._function(HEAD_FILE, detection.head) if detection and detection.is_own else None

    def _function(self, file: str, name: str) -> Callable[..., Any]:
        return load_function(self.read(file), name.rpartition(":")[2], str(self.folder / file))

    def _problem(self, relative: str) -> str | None:
        path = self.folder / relative
        if not path.is_file():
            return f"{relative}: missing"
        with path.open("rb") as file:
            same = hashlib.file_digest(file, "sha256").hexdigest() == self.manifest.files[relative]
        return None if same else f"{relative}: changed since it was built"

    def _extra_files(self) -> list[str]:
        known = {*self.manifest.files, MANIFEST_FILE}
        found = (path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if not path.is_dir())
        ours = (f"{TUNING_FOLDER}/", "variants/")  # a killed build may leave files of a variant; none is ever used
        return sorted(path for path in set(found) - known if not path.startswith(ours))


def open_artifact(folder: Path) -> Artifact:
    """Open the model in a folder. Raises ModelError if its manifest is missing, invalid or of another model."""
    path = folder / MANIFEST_FILE
    try:
        text = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error
    return Artifact(folder, Manifest.from_json(text, str(path)))


def _unreadable(path: Path, error: OSError) -> ModelError:
    kind = ModelChanged if isinstance(error, FileNotFoundError) else ModelError
    return kind(f"{path}: {error.strerror or error}", _RESTORE)


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


def find_artifact(models_folder: Path, wanted: str, in_use: Mapping[str, str] | None = None) -> Artifact:
    """Return the model that NAME, NAME@ID or ID names; NAME means the version in use, or the newest if none is.

    `in_use` has the id of the version in use by name. Raises ModelError that lists the names that exist.
    """
    name = plain_name(wanted)
    check_name(name)
    known = _known_versions(models_folder)
    found = versions_named(wanted, known)
    if not found:
        raise _no_such_model(models_folder, wanted, [version for version in known if version[0] == name])
    if found[0][0] != wanted:
        return _open_version(models_folder / found[0][0] / found[0][1])
    if model_id := (in_use or {}).get(name):
        if (name, model_id) not in found:
            raise _not_there(models_folder, name, model_id, found)
        return _open_version(models_folder / name / model_id)
    return _undamaged(*_scan_versions(models_folder / name))[0]


def versions_of(models_folder: Path, name: str) -> list[Artifact]:
    """Return the versions of a name that can be opened, the newest first."""
    return _scan_versions(models_folder / name)[0]


def find_newest(models_folder: Path, name: str) -> Artifact:
    """Return the version of a name that was built last. Raises ModelError if one of them can't be opened."""
    find_artifact(models_folder, name)
    return _undamaged(*_scan_versions(models_folder / name))[0]


def find_folder(models_folder: Path, wanted: str) -> Path:
    """Return the folder of one version, also of a damaged one. Raises UsageError for a name with several versions."""
    check_name(plain_name(wanted))
    known = _known_versions(models_folder)
    found = versions_named(wanted, known)
    if not found:
        raise _no_such_model(models_folder, wanted, [version for version in known if version[0] == plain_name(wanted)])
    if len(found) > 1:
        listed = ", ".join(short_name(*version) for version in found)
        raise UsageError(f"{wanted} has {len(found)} versions", f"name one of them: {listed}")
    return models_folder / found[0][0] / found[0][1]


def remove_folder(folder: Path) -> None:
    """Remove a model's folder, and that of its name if it was the last; a reader sees all of the model or nothing."""
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


def check_name(name: str) -> None:
    """Raise UsageError for a name that can't be a folder's name."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"model name {name!r} is not allowed", "use letters, digits, dots, dashes and underscores: pets-v2"
        )


def save_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace manifest.json in one step: a reader sees the old one or the new one."""
    replace_file(folder / MANIFEST_FILE, manifest.to_json().encode())


def record_variant(
    artifact: Artifact, variant: str, details: Mapping[str, Any], files: Mapping[str, bytes] | None = None
) -> Artifact:
    """Add a variant with its files under variants/<variant>/, or replace it, and return the new artifact.

    The model's id stays the same. Without `files` those that are there stay. Other ones are written beside them, then
    the manifest is replaced, then the former ones are removed: a process that is killed leaves a whole variant. Raises
    ModelError if the variant of which `details` are recorded was replaced by another process.
    """
    check_name(variant)
    prefix = f"variants/{variant}/"
    with _locked(artifact.folder):
        manifest = open_artifact(artifact.folder).manifest  # another process may have recorded another variant
        before = {path: value for path, value in manifest.files.items() if path.startswith(prefix)}
        if files is None and any(artifact.manifest.files.get(path) != value for path, value in before.items()):
            raise ModelError(f"{artifact.folder}: {variant} was built anew meanwhile", "run the command again")
        own = before if files is None else _write_beside(artifact.folder, prefix, files, before)
        sums = {path: value for path, value in manifest.files.items() if path not in before} | own
        manifest = replace(manifest, files=sums, variants={**manifest.variants, variant: dict(details)})
        save_manifest(artifact.folder, manifest)
        for path in before.keys() - own.keys():
            (artifact.folder / path).unlink(missing_ok=True)
    return Artifact(artifact.folder, manifest)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let no other process record a variant of the model until the `with` block ends."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise ModelError(f"{folder}: {error.strerror}", _RESTORE) from error
    try:
        with contextlib.suppress(OSError):  # NFS locks no folder
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write_beside(folder: Path, prefix: str, files: Mapping[str, bytes], before: Mapping[str, str]) -> dict[str, str]:
    """Write a variant's files and return their checksums by path; files that are there already are not touched.

    Those that replace others lie in a folder that is named by their content.
    """
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    if sums == {path.rpartition("/")[2]: value for path, value in before.items()}:
        return dict(before)
    if before:
        prefix += hashlib.sha256("".join(sorted(sums.values())).encode()).hexdigest()[:16] + "/"
    return {prefix + name: write_file(folder, prefix + name, data) for name, data in files.items()}


def write_file(folder: Path, relative: str, data: bytes) -> str:
    """Write a file of an artifact and return its sha256."""
    path = folder / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, data)
    return hashlib.sha256(data).hexdigest()


def load_function(code: bytes, function: str, path: str) -> Callable[..., Any]:
    """Return a function from the bytes of one Python file.

    The file may import installed packages, but no modules beside it. Raises ModelError.
    """
    namespace: dict[str, Any] = {"__name__": "infer_app_preprocess", "__file__": path}
    try:
        exec(compile(code, path, "exec"), namespace)
        found: Callable[..., Any] = namespace[function]
    except Exception as error:
        raise ModelError(
            f"{path}: can't be loaded on its own: {type(error).__name__}: {error}",
            "keep the function in one file that imports installed packages only",
        ) from error
    return found


def _names(models_folder: Path) -> list[Path]:
    if not models_folder.is_dir():
        return []
    try:
        return sorted(path for path in models_folder.iterdir() if path.is_dir() and _NAME.fullmatch(path.name))
    except OSError as error:
        raise ModelError(f"{models_folder}: {error.strerror}", "it must be readable") from error


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


def _known_versions(models_folder: Path) -> list[Version]:
    """List (name, id) of all models, also of those that can't be opened: a folder is named after its model."""
    return [(path.parent.name, path.name) for folder in _names(models_folder) for path in _model_folders(folder)]


def _no_such_model(models_folder: Path, wanted: str, versions: list[Version]) -> ModelError:
    name = plain_name(wanted)
    if versions:
        there = ", ".join(short_name(*version) for version in versions)
        return ModelError(f"no model {wanted!r} in {models_folder}", f"{name} has the versions {there}")
    names = [path.name for path in _names(models_folder) if _model_folders(path)]
    if not names:
        return ModelError(
            f"no model {wanted!r}: {models_folder} has none yet", f"make one: `infer model build SOURCE --name {name}`"
        )
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}?" if close else "see `infer model list`"
    return ModelError(f"no model {wanted!r} in {models_folder}: there are {', '.join(names)}", hint)


def _not_there(models_folder: Path, name: str, model_id: str, there: list[Version]) -> ModelError:
    commands = " or ".join(f"`infer model use {short_name(*version)}`" for version in there)
    return ModelError(
        f"{short_name(name, model_id)}, the version in use, is not in {models_folder}",
        f"restore its folder from a backup, or put another version in use: {commands}",
    )
