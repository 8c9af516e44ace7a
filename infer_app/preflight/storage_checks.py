"""Check the settings, and the folders and places that images are read from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from infer_app.errors import InferError, StorageUnavailable
from infer_app.preflight.finding import Finding
from infer_app.settings.load import LoadedSettings


def check_settings(loaded: LoadedSettings) -> Iterator[Finding]:
    changed = sum(1 for _, _, origin in loaded.flattened() if origin != "default")
    yield Finding("settings", f"{loaded.path}, {changed} set")
    _ = loaded.watched  # raises UsageError if it contradicts [source]


def check_roots(loaded: LoadedSettings) -> Iterator[Finding]:
    if not loaded.roots and not loaded.remote_access.places and loaded.lists_own_images:
        yield Finding("roots", "none: no image may be read", "`infer images add FOLDER`, or set [images] watch", 2)
    for root in loaded.roots:
        try:
            empty = next(root.iterdir(), None) is None and root not in loaded.watched  # which check_database looks into
        except OSError as error:
            hint = "is the image storage mounted and readable? infer.toml names it in [images], or in [source] base"
            raise StorageUnavailable(f"{root}: {error.strerror}", hint) from None
        if empty:
            hint = "put your images there; if they should be there, is the image storage mounted?"
            raise StorageUnavailable(f"{root} is empty", hint)
        is_watched = root in loaded.watched
        yield Finding("roots", f"{root} is there" + (", and a run registers what is new in it" if is_watched else ""))


def check_map(loaded: LoadedSettings) -> Iterator[Finding]:
    for recorded, here in loaded.path_map.folders:
        folder = Path(here or "/")
        if not folder.is_dir():
            raise StorageUnavailable(f"{folder} is no folder here", "is the image storage mounted?")
        allowed = any(folder.is_relative_to(root) or root.is_relative_to(folder) for root in loaded.roots)
        fix = "" if allowed else f"nothing in it may be read: add {folder} to [images] roots"
        yield Finding("map", f"what is recorded in {recorded or '/'} is read in {folder}", fix)


def check_remote(loaded: LoadedSettings) -> Iterator[Finding]:
    access = loaded.remote_access
    if not access.places:
        return
    from infer_app.images.read.remote import probe  # most projects have nothing remote

    for place in access.places:
        try:
            yield Finding("remote", f"{place} {probe(place, access)}")
        except InferError as error:  # the other places are checked too
            yield Finding("remote", error.message, error.hint, error.exit_code)
