"""The path by which an exported file names an image."""

import os

from infer_app.base.errors import UsageError
from infer_app.base.locations import (
    NO_MAPPING,
    PathMapping,
    is_local_file,
    is_relative,
    path_of_uri,
    query_beside_signature,
    shown,
)


class ImagePaths:
    """Names images by their locations, those of files optionally relative to a folder.

    A URL never shows a secret: where its query tells pictures apart, the number of the picture does so.
    """

    def __init__(self, folder: str | None = None, path_map: PathMapping = NO_MAPPING) -> None:
        self._path_map = path_map
        self._folder = None if folder is None else os.path.abspath(folder).rstrip("/") + "/"  # noqa: PTH100

    def of(self, location: str, picture: int) -> str:
        """Return the path of an image. Raises UsageError for a file outside the folder."""
        path = self.find(location, picture)
        if path is None:
            raise UsageError(
                f"{location} is not in {self._folder}",
                "name by --relative-to a folder that holds all images of the days, or leave it out",
            )
        return path

    def find_or_shown(self, location: str, picture: int) -> str:
        """Return the path of an image that may have been rejected for its location."""
        return self.find(location, picture) or shown(location)

    def find(self, location: str, picture: int = 0) -> str | None:
        """Return the path of an image, or None for a file outside the folder."""
        if not is_local_file(location):
            return f"{shown(location)}{picture}" if query_beside_signature(location) else shown(location)
        if self._folder is None:
            return location
        recorded = path_of_uri(location)
        if is_relative(recorded) and self._path_map.base:
            recorded = f"{self._path_map.base.rstrip('/')}/{recorded}"
        for path in (recorded, self._path_map.to_local(recorded)):
            normal = os.path.normpath(path)
            if normal.startswith(self._folder):
                return normal.removeprefix(self._folder)
        return None
