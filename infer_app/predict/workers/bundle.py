"""Bundle the files of a model to run it on another machine; they are verified on both sides."""

import hashlib
import os
import shutil
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from infer_app.artifact.artifact import MANIFEST_FILE, Artifact, write_file
from infer_app.base.errors import ModelError, os_errors_as
from infer_app.predict.workers.fork_server import run_folder

KEPT_S = 30 * 86_400.0  # after its last use


@dataclass(frozen=True, slots=True)
class ModelBundle:
    """The files of a model by their relative paths, with the files of only one variant."""

    files: dict[str, bytes]
    sha256: str


def pack(artifact: Artifact, variant: str) -> ModelBundle:
    """Bundle an artifact with one of its variants. Raises ModelError if a file is not that of the build."""
    manifest = artifact.folder / MANIFEST_FILE
    with os_errors_as(ModelError, str(manifest), "`infer model verify` checks all models"):
        files = {MANIFEST_FILE: manifest.read_bytes()}
    own = artifact.manifest.files_of(variant)
    for relative in sorted(artifact.manifest.files):
        if not relative.startswith("variants/") or relative in own:
            files[relative] = artifact.read(relative)
    return ModelBundle(files, _sha256(files))


def unpack(bundle: ModelBundle) -> Path:
    """Write the files into a folder that only this user can change, because loading them runs code.

    The folder is kept between runs if the user has a home, and otherwise removed at the end of this run. Raises
    ModelError if the content was changed on its way.
    """
    if _sha256(bundle.files) != bundle.sha256:
        raise ModelError("a model was changed on its way to this machine", "run it again, or check the memory")
    errors = []
    for name, find_cache in (("the user's cache", _home_cache), ("the temporary folder", _run_cache)):
        try:
            folder = find_cache() / bundle.sha256
            folder.mkdir(mode=0o700, exist_ok=True)
            for relative, data in bundle.files.items():
                path = folder / relative
                if not path.is_file() or path.read_bytes() != data:
                    write_file(folder, relative, data)
            os.utime(folder)
            _forget_old(folder.parent)
        except OSError as error:
            errors.append(f"{error.filename or name}: {error.strerror}")
            continue
        return folder
    raise ModelError(f"a model can't be kept on this machine: {'; '.join(errors)}", "free some space, or set TMPDIR")


def _home_cache() -> Path:
    """Return the folder in the user's cache. Raises PermissionError if other users may change one of its parents."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    cache = (home.expanduser() / "infer_app" / "parcels").resolve()
    for folder in (*reversed(cache.parents), cache):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.stat()
        is_shared = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
        if is_shared or found.st_uid not in (0, os.getuid()):
            raise PermissionError(0, "others may change what is in it", str(folder))
    return cache


def _run_cache() -> Path:
    """Return a new folder in the temporary folder, whose name other users can't predict."""
    cache = run_folder() / "parcels"
    cache.mkdir(mode=0o700, exist_ok=True)
    return cache


def _forget_old(cache: Path) -> None:
    """Remove models that were not used for KEPT_S: models are replaced, and nothing else cleans this folder."""
    for folder in cache.iterdir():
        with suppress(FileNotFoundError):  # another process may remove it too
            if time.time() - folder.stat().st_mtime > KEPT_S:
                shutil.rmtree(folder, ignore_errors=True)


def _sha256(files: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for relative, data in files.items():
        digest.update(f"{relative}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()
