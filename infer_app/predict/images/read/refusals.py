"""Errors and hints for images whose locations are not allowed."""

import re
from collections.abc import Sequence
from pathlib import Path

from infer_app.base.domain import Broken
from infer_app.base.errors import NothingAllowed
from infer_app.base.locations import PathMapping, find_allowed_prefix, is_relative, is_remote, shown, storage_of
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.local_files import local_path

SET_BASE = (
    'name the folder that relative locations start at in infer.toml, for example [source] base = "/srv/photos";'
    " or make them absolute paths or URLs by [source] query"
)


def nothing_allowed(refused: Sequence[Broken], limits: ReadLimits) -> NothingAllowed:
    """Return the error for images none of which has an allowed location."""
    allowed = ", ".join(map(str, (*limits.roots, *limits.remote.places))) or "nothing"
    subject = f"none of {len(refused):,} images" if len(refused) > 1 else "no image"
    example = next((broken for broken in refused if broken.ref.location), refused[0])
    return NothingAllowed(
        f"{subject} to predict has an allowed location (allowed: {allowed}), for example"
        f" {describe_refusal(example, limits)}",
        how_to_allow(example, limits),
    )


def describe_refusal(broken: Broken, limits: ReadLimits) -> str:
    if not broken.ref.location:
        return f"image {broken.ref.image_id} has no location"
    why = f": {broken.detail}" if broken.detail else ""
    return f"image {broken.ref.image_id}, {recorded_and_read(broken, limits.path_map)}{why}"


def how_to_allow(broken: Broken, limits: ReadLimits) -> str:
    """Return a hint for an image whose location is not allowed."""
    location, places = _path_read(broken.ref.location, limits.path_map), limits.remote.places
    if not location:
        return "give it one in the table, or exclude it by [source] query"
    if place := find_allowed_prefix(location, places):
        return f'if it is meant: [remote] allow_private_hosts = ["{place.root.host}"]'
    if is_remote(location):
        return f'allow its place in infer.toml: [remote] allow = ["{storage_of(location)}/"]'
    if is_relative(location):
        return how_to_resolve(location)
    if ".." in Path(location).parts:
        return "write the location without .. in the table, if what it leads to is meant"
    if (target := Path(location).resolve()) != Path(location).parent.resolve() / Path(location).name:
        return f"it is a link to {shown(str(target))}: add a folder above all such files to [images] roots"
    return f'allow their folder in infer.toml: [images] roots = ["{Path(location).parent}"]'


def how_to_resolve(location: str) -> str:
    """Return a hint for a relative location, or for one that Windows recorded, which no base makes a path."""
    drive = re.match(r"[A-Za-z]:(?=[\\/])|\\\\[^\\]+\\[^\\]+(?=\\)", location)
    if drive is None and "\\" not in location.split("/")[0]:
        return SET_BASE
    path = f"replace(path, '{drive[0]}', '/srv/photos')" if drive else "path"
    start = "/srv/photos is where that lies here" if drive else "[source] base is the folder that they start at"
    return (
        f"backslashes or a drive are Windows': let [source] query give replace({path}, '\\', '/') as the location, and"
        f" {start} (MariaDB, MySQL: each \\ twice)"
    )


def recorded_and_read(broken: Broken, path_map: PathMapping) -> str:
    """Return a location as it is recorded and, if that differs, the path that is read for it."""
    location, path = broken.ref.location, _path_read(broken.ref.location, path_map)
    return shown(location) if path == location else f"{location}, read as {path}"


def _path_read(location: str, path_map: PathMapping) -> str:
    """Return the path that is read for a location, or the location itself if it is not on this machine."""
    try:
        return local_path(location, path_map)
    except BadImage:
        return location
