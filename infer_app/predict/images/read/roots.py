"""Check whether folders of images are available, in a process that may wait for their storage."""

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from infer_app.base.domain import NOT_READ, READ_FAILURES, Reason
from infer_app.base.errors import StorageUnavailable
from infer_app.base.locations import is_local, is_remote, storage_of
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.folder_scan import look_at_folders
from infer_app.predict.images.read.local_files import local_path, was_replaced
from infer_app.predict.images.read.read_image import read_image

ON_PURPOSE = "if they were deleted on purpose: `infer forget --missing --even-most`"
_HINT = "is the image storage mounted, and does a link still lead to it? its images stay pending"


def check_root(location: str, limits: ReadLimits) -> None:
    """Raise StorageUnavailable if the root or the folder of a local image has failed.

    A root has failed if it is gone, empty or was replaced; a folder, if not even its state can be read, as on a mount
    whose server is gone.
    """
    folder, roots = _folder_and_roots(location, limits)
    for root in roots:
        if _is_gone(root) or was_replaced(root, limits):
            raise StorageUnavailable(f"{root} is gone or empty, or was replaced", _HINT)
        try:
            folder.stat()
        except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError):
            continue
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENAMETOOLONG):
                raise StorageUnavailable(f"{folder}: {error.strerror}", _HINT) from None


def check_missing(locations: Sequence[str], limits: ReadLimits) -> None:
    """Raise StorageUnavailable if a root of missing files has failed, or the nearest folder above one has no image.

    A file system that is not mounted leaves such a folder behind: nothing shows that the files were deleted.
    """
    paths = {Path(local_path(location, limits.path_map)): location for location in locations}
    for folder, location in {path.parent: location for path, location in paths.items()}.items():
        check_root(location, limits)
        nearest = next(one for one in (folder, *folder.parents) if one.exists())
        if look_at_folders([str(nearest)]) == [""]:
            hint = (
                f"is a file system to be mounted there? If its files were deleted, remove the folder, or {ON_PURPOSE}"
            )
            raise StorageUnavailable(f"{nearest} holds no image, where {location} was", hint)


def is_other_there(
    missing: str, others: Sequence[str], limits: ReadLimits, check: Callable[[bytes], None] = lambda _: None
) -> bool | None:
    """Return whether the place of a missing image is there, by a folder that holds images or by one of the others.

    Returns None if no other image of that place is known.
    """
    limits = replace(limits, remote=replace(limits.remote, retries=0))
    if is_local(missing):
        with suppress(StorageUnavailable):
            check_missing([missing], limits)
            return True
    place = place_of(missing, limits)
    near = [one for one in others if one != missing and place_of(one, limits) == place]
    return any(_is_there(other, limits, check) for other in near) if near else None


def place_of(location: str, limits: ReadLimits) -> tuple[str, ...]:
    """Return what fails as a whole: a server or a bucket, or the roots that a file lies below."""
    return storage_of(location), *map(str, _folder_and_roots(location, limits)[1])


def may_be_outage(location: str, reason: Reason) -> bool:
    """Return whether the storage may be to blame that an image has no prediction; also for an empty object of it."""
    return reason in READ_FAILURES or (reason is Reason.EMPTY and is_remote(location))


def was_read(location: str, reason: Reason) -> bool:
    """Return whether an image that has no prediction shows that its storage is there."""
    return reason not in NOT_READ and not may_be_outage(location, reason)


def _is_there(location: str, limits: ReadLimits, check: Callable[[bytes], None]) -> bool:
    try:
        read_image(location, limits, check)
    except BadImage as error:
        return was_read(location, error.reason)
    return True


def _folder_and_roots(location: str, limits: ReadLimits) -> tuple[Path, list[Path]]:
    """Return the folder of a location on this machine and the roots above it; no roots for any other location."""
    try:
        path = Path(local_path(location, limits.path_map))
    except BadImage:
        return Path(), []
    return path.parent, [root for root in limits.roots if path.is_relative_to(root)]


def _is_gone(root: Path) -> bool:
    """Return whether a folder is missing or empty: an unmounted file system leaves an empty one behind."""
    try:
        with os.scandir(root) as entries:
            return next(entries, None) is None
    except OSError:
        return True
