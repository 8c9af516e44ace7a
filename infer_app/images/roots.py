"""Whether the folders of images are there: asked when a file is not, on the machine that missed it."""

from __future__ import annotations

from pathlib import Path

from infer_app.errors import StorageUnavailable
from infer_app.images.location import ReadLimits, local_path
from infer_app.places import is_local
from infer_app.records import ChunkResult, Reason


def check_roots(result: ChunkResult, limits: ReadLimits) -> None:
    """Raises StorageUnavailable where a root under which an image was not found is gone or empty."""
    missing = [broken for broken in result.broken if broken.reason is Reason.NOT_FOUND]
    locations = [broken.ref.location for broken in missing]
    paths = [Path(local_path(location, limits.path_map)) for location in locations if is_local(location)]
    for root in limits.roots:
        if any(path.is_relative_to(root) for path in paths) and _is_gone(root):
            raise StorageUnavailable(
                f"{root} is gone or empty", "is the image storage mounted? its images stay pending"
            )


def _is_gone(root: Path) -> bool:
    """An unmounted file system leaves an empty folder behind."""
    try:
        return next(root.iterdir(), None) is None
    except OSError:
        return True
