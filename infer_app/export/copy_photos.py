"""Copy the photos of chosen images into one folder, under names that do not collide."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path, PurePosixPath

from infer_app.atomic_file import replace_file
from infer_app.errors import UsageError
from infer_app.export.choose_images import Chosen
from infer_app.images.read.bad_image import BadImage
from infer_app.images.read.read_image import ReadLimits, read_image
from infer_app.locations import is_remote

_MAX_STEM = 50  # characters of up to four bytes: a name has at most 255 bytes
_UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\:*?\"<>|\ud800-\udfff]")


def copy_photos(chosen: Chosen, folder: Path, limits: ReadLimits) -> tuple[Chosen, dict[str, str]]:
    """Return the images with their copies as locations, and by location why a photo can't be read.

    What a run may not read is not copied either. Raises UsageError if the folder can't be written.
    """
    copied: Chosen = []
    unreadable: dict[str, str] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for day, image in chosen:
            try:
                data = read_image(image.location, limits).data
            except BadImage as error:
                unreadable[image.location] = f"{error.reason} ({error.detail})"
                continue
            copy = _copy(data, folder.absolute() / _name(image.location))
            copied.append((day, replace(image, location=str(copy))))
    except OSError as error:
        raise UsageError(
            f"--copy-to {folder} can't be written: {error.strerror or error}", "is it a folder, with space left?"
        ) from None
    return copied, unreadable


def _copy(data: bytes, path: Path) -> Path:
    """Write a copy and return its path: with a checksum in its name where that of another photo is taken."""
    if path.exists() and path.read_bytes() != data:
        path = path.with_name(f"{path.stem}-{hashlib.sha256(data).hexdigest()[:8]}{path.suffix}")
    if not path.exists():
        replace_file(path, data)
    return path


def _name(location: str) -> str:
    path = PurePosixPath(location.partition("?")[0] if is_remote(location) else location)
    stem = _UNSAFE.sub("_", path.stem).lstrip(".")[:_MAX_STEM]
    return f"{stem or 'photo'}{_UNSAFE.sub('_', path.suffix)[:8]}"
