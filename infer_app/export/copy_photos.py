"""Copy the photos of chosen images into one folder, under names that do not collide."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path, PurePosixPath

from infer_app.atomic_file import replace_file
from infer_app.domain import ROW
from infer_app.errors import UsageError
from infer_app.export.choose_images import Chosen
from infer_app.images.decode.formats import sniff
from infer_app.images.read.bad_image import BadImage
from infer_app.images.read.read_image import ReadLimits, read_image
from infer_app.locations import is_remote

_MAX_STEM = 50  # characters of up to four bytes: a name has at most 255 bytes
_UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\:*?\"<>|\ud800-\udfff]")


def copy_photos(chosen: Chosen, folder: Path, limits: ReadLimits) -> tuple[Chosen, dict[str, str]]:
    """Return the images with their copies as locations, and by location why a photo is not copied.

    Those are what a run may not read, and a file that has changed since it was predicted. Raises UsageError if the
    folder can't be written.
    """
    copied: Chosen = []
    not_copied: dict[str, str] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for day, image in chosen:
            try:
                read = read_image(image.location, limits)
                name = _name(image.location, read.data)
            except BadImage as error:
                not_copied[image.location] = f"{error.reason} ({error.detail})"
                continue
            if image.sha256 not in (None, read.facts.sha256):
                not_copied[image.location] = "the file has changed since it was predicted"
                continue
            copy = _copy(read.data, folder.absolute() / name)
            copied.append((day, replace(image, location=str(copy))))
    except OSError as error:
        raise UsageError(
            f"--copy-to {folder} can't be written: {error.strerror or error}", "is it a folder, with space left?"
        ) from None
    return copied, not_copied


def _copy(data: bytes, path: Path) -> Path:
    """Write a copy and return its path: with a checksum in its name where that of another photo is taken."""
    if path.exists() and path.read_bytes() != data:
        path = path.with_name(f"{path.stem}-{hashlib.sha256(data).hexdigest()[:8]}{path.suffix}")
    if not path.exists():
        replace_file(path, data)
    return path


def _name(location: str, data: bytes) -> str:
    if location.startswith(ROW):
        return f"{_UNSAFE.sub('_', location)[:_MAX_STEM]}.{sniff(data)}"
    path = PurePosixPath(location.partition("?")[0] if is_remote(location) else location)
    stem = _UNSAFE.sub("_", path.stem).lstrip(".")[:_MAX_STEM]
    return f"{stem or 'photo'}{_UNSAFE.sub('_', path.suffix)[:8]}"
