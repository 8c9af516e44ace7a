"""Read and write a model on disk: <models folder>/<name>/<model id>/manifest.json and the files it has checksums of.

Loading a model runs code, so files are only used through `Artifact.read`, which verifies the bytes that it returns, or
`Artifact.opened`, which verifies the file that it opens.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import locale
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from infer_app.artifact.manifest import (
    CROP_FILE,
    HEAD_FILE,
    LABELS_FILE,
    PREPROCESS_FILE,
    REBUILD,
    Details,
    Manifest,
    parse_labels,
)
from infer_app.base.atomic_file import replace_file
from infer_app.base.errors import ModelChanged, ModelError, UsageError, os_errors_as

if TYPE_CHECKING:
    import numpy as np

MANIFEST_FILE = "manifest.json"
Function: TypeAlias = Callable[..., Any]  # of the user's
Preprocess: TypeAlias = "Callable[[np.ndarray], np.ndarray]"  # RGB uint8 (height, width, 3), to the input's size


@dataclass(frozen=True)
class Artifact:
    """A model: its folder and its manifest."""

    folder: Path
    manifest: Manifest
    reused: bool = False  # the build found this model and did not change it

    def read(self, relative: str) -> bytes:
        """Return a file's bytes, read once and verified. Raises ModelError if they are not those of the build."""
        expected = self._sha256_of(relative)
        try:
            data = (self.folder / relative).read_bytes()
        except OSError as error:
            raise _unreadable(self.folder / relative, error) from error
        if hashlib.sha256(data).hexdigest() != expected:
            raise ModelChanged(f"{self.folder / relative}: changed since it was built", REBUILD)
        return data

    @contextlib.contextmanager
    def opened(self, relative: str) -> Iterator[str]:
        """Yield a path of a verified file, for a library that maps it into memory, which processes share.

        The path leads to the file that was verified, even if another takes its place. Raises ModelError as `read` does.
        """
        expected = self._sha256_of(relative)
        try:
            file = (self.folder / relative).open("rb")
        except OSError as error:
            raise _unreadable(self.folder / relative, error) from error
        with file:
            if hashlib.file_digest(file, "sha256").hexdigest() != expected:
                raise ModelChanged(f"{self.folder / relative}: changed since it was built", REBUILD)
            yield f"/proc/self/fd/{file.fileno()}"

    def _sha256_of(self, relative: str) -> str:
        expected = self.manifest.files.get(relative)
        if expected is None:
            raise ModelChanged(f"{self.folder}: {relative} is not a file of this model", REBUILD)
        return expected

    def verify(self) -> None:
        """Raise ModelError that names every file that was changed, is missing or does not belong to this model."""
        problems = [problem for relative in self.manifest.files if (problem := self._problem(relative))]
        problems += [f"{relative}: not of this model" for relative in self._extra_files()]
        if problems:
            raise ModelChanged(f"{self.folder}: {'; '.join(problems)}", REBUILD)

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

    def head(self) -> Function | None:
        """Return the user's own head of a detector, from the artifact's copy; None for other models."""
        detection = self.manifest.output.detection
        return self._function(HEAD_FILE, detection.head) if detection and detection.is_own else None

    def crop_function(self) -> Function | None:
        """Return the user's own function that cuts out crops, from the artifact's copy; None for other models."""
        crop = self.manifest.crop
        return self._function(CROP_FILE, crop.rule.kind) if crop and crop.rule.is_own else None

    def _function(self, file: str, name: str) -> Function:
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
        # A killed build may leave files of a variant, and earlier versions of this program left tuning/: none is used.
        ours = ("tuning/", "variants/")
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
    error_type = ModelChanged if isinstance(error, FileNotFoundError) else ModelError
    return error_type(f"{path}: {error.strerror or error}", REBUILD)


def is_name(name: str) -> bool:
    """Return whether a model or a variant may have this name, which is that of a folder."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", name) is not None


def check_name(name: str) -> None:
    """Raise UsageError for a name that can't be a folder's name."""
    if not is_name(name):
        raise UsageError(
            f"model name {name!r} is not allowed", "up to 128 letters, digits, dots, dashes and underscores: pets-v2"
        )


def save_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace manifest.json in one step: a reader sees the old one or the new one."""
    replace_file(folder / MANIFEST_FILE, manifest.to_json().encode())


def record_variant(
    artifact: Artifact, variant: str, details: Details, files: Mapping[str, bytes] | None = None
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
    with os_errors_as(ModelError, str(folder), REBUILD):
        descriptor = os.open(folder, os.O_RDONLY)
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


def load_function(code: bytes, function: str, path: str) -> Function:
    """Return a function from the bytes of one Python file.

    The file may import installed packages, but no modules beside it. What it sets for the whole process is put back
    whenever its code has run, so that nothing else computes by it. Raises ModelError.
    """
    namespace: dict[str, Any] = {"__name__": "infer_app_preprocess", "__file__": path}
    try:
        with _settings_kept():
            exec(compile(code, path, "exec"), namespace)
        found: Function = namespace[function]
    except Exception as error:
        raise ModelError(
            f"{path}: can't be loaded on its own: {type(error).__name__}: {error}",
            "keep the function in one file that imports installed packages only",
        ) from error
    kept: Function = _settings_kept()(found)
    return kept


_PRECISIONS = (("generic", "all"), ("cuda", "matmul"), ("mkldnn", "all"), ("mkldnn", "matmul"))  # of torch.backends
# What a process computes by, and how it ends: where it is, the functions that return and set it, and what they take.
_SETTINGS: tuple[tuple[Any, ...], ...] = (
    ("os", "getcwd", "chdir"),
    *(("signal", "getsignal", "signal", number) for number in (signal.SIGINT, signal.SIGTERM)),
    ("locale", "setlocale", "setlocale", locale.LC_ALL),
    ("socket", "getdefaulttimeout", "setdefaulttimeout"),
    ("torch", "get_num_threads", "set_num_threads"),
    ("torch", "get_default_dtype", "set_default_dtype"),
    *(("torch._C", "_get_fp32_precision_getter", "_set_fp32_precision_setter", *of) for of in _PRECISIONS),
    ("torch", "get_float32_matmul_precision", "set_float32_matmul_precision"),  # which raises where those are others
    ("torch", "are_deterministic_algorithms_enabled", "use_deterministic_algorithms"),
)


@contextlib.contextmanager
def _settings_kept() -> Iterator[None]:
    """Put back what code of the user's sets for its process; what Pillow decodes by is set before each image."""
    import numpy as np  # takes a while, which commands save that run no such code

    settings = []
    for where, get, put, *which in _SETTINGS:
        with contextlib.suppress(KeyError, AttributeError, RuntimeError, OSError):  # it is not there, or see above
            get, put = (partial(getattr(sys.modules[where], name), *which) for name in (get, put))
            settings.append((get, put, get()))
    lists = [(one, [*one]) for one in (sys.path, cast(list[Any], warnings.filters))]
    variables = os.environb.copy()
    try:
        with np.errstate():
            yield
    finally:
        for get, put, value in settings:
            if get() != value:  # a thread other than the first one may set no signal
                put(value)
        for now, before in lists:
            now[:] = before
        if os.environb != variables:
            for name in os.environb.keys() - variables.keys():
                del os.environb[name]
            os.environb.update(variables)
