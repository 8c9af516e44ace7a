"""What a model needs to run elsewhere, in one piece: verified where it leaves, and again where it arrives."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from infer_app.errors import ModelError
from infer_app.models.artifact import MANIFEST_FILE, Artifact, write_file

KEPT_S = 30 * 86_400.0  # after it was last needed


@dataclass(frozen=True, slots=True)
class Parcel:
    """The files of a model by their relative paths: of its variants only those of the one that runs."""

    files: dict[str, bytes]
    sha256: str


def pack(artifact: Artifact, variant: str) -> Parcel:
    """Raises ModelError where a file is not that of the build."""
    manifest = artifact.folder / MANIFEST_FILE
    try:
        files = {MANIFEST_FILE: manifest.read_bytes()}
    except OSError as error:
        raise ModelError(f"{manifest}: {error.strerror}", "`infer model verify` looks at all models") from error
    for relative in sorted(artifact.manifest.files):
        if not relative.startswith("variants/") or relative.startswith(f"variants/{variant}/"):
            files[relative] = artifact.read(relative)
    return Parcel(files, _sha256(files))


def unpack(parcel: Parcel) -> Path:
    """The folder where its files lie, kept between runs. Raises ModelError where it was changed on its way."""
    if _sha256(parcel.files) != parcel.sha256:
        raise ModelError("a model was changed on its way to this machine", "run it again; is the memory sound?")
    errors = []
    for cache in _caches():
        folder = cache / parcel.sha256
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if cache.stat().st_uid != os.getuid():
                raise PermissionError(0, "belongs to somebody else", str(cache))
            for relative, data in parcel.files.items():
                path = folder / relative
                if not path.is_file() or path.read_bytes() != data:
                    write_file(folder, relative, data)
            os.utime(folder)
            _forget_old(cache)
        except OSError as error:
            errors.append(f"{folder}: {error.strerror}")
            continue
        return folder
    raise ModelError(f"a model can't be kept on this machine: {'; '.join(errors)}", "free some space, or set TMPDIR")


def _caches() -> Iterator[Path]:
    """The user's, or one under the temporary folder where there is no home to write to."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    yield home.expanduser() / "infer_app" / "parcels"
    yield Path(tempfile.gettempdir()) / f"infer_app-{os.getuid()}" / "parcels"


def _forget_old(cache: Path) -> None:
    """Models are replaced by others, and nobody else looks after this folder."""
    for folder in cache.iterdir():
        with suppress(FileNotFoundError):  # another process does the same
            if time.time() - folder.stat().st_mtime > KEPT_S:
                shutil.rmtree(folder, ignore_errors=True)


def _sha256(files: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for relative, data in files.items():
        digest.update(f"{relative}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()
