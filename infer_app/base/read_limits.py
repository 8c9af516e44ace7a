"""Where images may be read from, and how much of each."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from infer_app.base.locations import NO_MAPPING, NOTHING_REMOTE, PathMapping, RemoteAccess


class RowImages(Protocol):
    """Images that are stored in a database."""

    def read(self, row: str, max_bytes: int) -> tuple[int, bytes | str | None] | None:
        """Return size and bytes (None if they are too many); None if there is no such row. Raises OSError."""


@dataclass(frozen=True)
class ReadLimits:
    """Limits of what is read, and where."""

    roots: tuple[Path, ...]
    max_bytes: int
    remote: RemoteAccess = NOTHING_REMOTE
    path_map: PathMapping = NO_MAPPING
    rows: RowImages | None = None
    reads_times: bool = False  # when pictures were taken
