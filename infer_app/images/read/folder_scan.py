"""The files of folders: which are images by their names, and the facts that they are known by."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePath
from typing import NamedTuple

from infer_app.domain import ImageFile
from infer_app.locations import IMAGE_SUFFIXES

# Files beside images that are no images. Everything else counts as an image: a photo without a suffix must not be lost,
# and a file that turns out to be something else is rejected with a reason.
SIDECAR_SUFFIXES = frozenset(
    {".txt", ".csv", ".tsv", ".json", ".jsonl", ".xml", ".xmp", ".yaml", ".yml", ".toml", ".ini", ".md", ".db", ".log"}
)
FILES_AT_ONCE = 1000
MAX_LOOKED_AT = 100_000  # of all that lies in a folder, to find an image in it
EVERY_S = 1.0  # slow storage takes minutes for so many, and a caller may take it for gone


class ScannedFiles(NamedTuple):
    """Some files of a folder, and what could not be read since the files before."""

    files: list[ImageFile]
    unreadable: list[str]  # folders and files, with the reason
    began_at: float  # seconds since the epoch, before any of them was looked at


class FolderScan:
    """Yields the files in a folder and below it, in no order, without hidden ones and sidecar files.

    Links to folders are not followed. Memory does not grow with the number of files.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.unreadable: list[str] = []  # folders and files, with the reason

    def __iter__(self) -> Iterator[ImageFile]:
        return (file for file in self.steps() if file is not None)

    def steps(self) -> Iterator[ImageFile | None]:
        """Yield the files, and None for everything else that was looked at."""
        folders = [self._folder]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:  # a million times: few calls
                        name = entry.name
                        file = None
                        if name.startswith("."):
                            pass
                        elif entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
                        elif suffix_of(name) not in SIDECAR_SUFFIXES and (facts := self._facts(entry)) is not None:
                            file = ImageFile(entry.path, facts.st_size, facts.st_mtime)
                        yield file
            except OSError as error:
                self.unreadable.append(f"{folder}: {error.strerror}")
            yield None

    def _facts(self, entry: os.DirEntry[str]) -> os.stat_result | None:
        try:
            return entry.stat() if entry.is_file() else None
        except FileNotFoundError:  # removed meanwhile
            return None
        except OSError as error:
            self.unreadable.append(f"{entry.path}: {error.strerror}")
            return None


def scan_folders(folders: Sequence[str]) -> Iterator[ScannedFiles]:
    """Yield the files of the folders, as FolderScan does: FILES_AT_ONCE at a time, or those of EVERY_S, if any."""
    for folder in folders:
        scan = FolderScan(folder)
        found = ScannedFiles([], scan.unreadable, time.time())
        due = time.monotonic() + EVERY_S
        for file in scan.steps():
            if file is not None:
                found.files.append(file)
            if len(found.files) >= FILES_AT_ONCE or time.monotonic() >= due:
                yield found
                scan.unreadable = []
                found = ScannedFiles([], scan.unreadable, time.time())
                due = time.monotonic() + EVERY_S
        if found.files or found.unreadable:
            yield found


def look_at_folders(folders: Sequence[str]) -> list[str | None]:
    """Return for each folder why it can't be listed, "" if no image lies in it or below it, else None.

    A folder that a file system is mounted in holds no image without it, but perhaps a note or lost+found.
    """
    found: list[str | None] = []
    for folder in folders:
        try:
            os.scandir(folder).close()
        except OSError as error:
            found.append(error.strerror or str(error))
            continue
        looked_at = list(islice(_are_images(folder), MAX_LOOKED_AT))
        found.append(None if any(looked_at) or len(looked_at) == MAX_LOOKED_AT else "")
    return found


def _are_images(folder: str) -> Iterator[bool]:
    """Yield of all that lies in a folder and below it whether it is an image by its name, up to the first one."""
    for file in FolderScan(folder).steps():
        is_image = file is not None and suffix_of(file.location) in IMAGE_SUFFIXES
        yield is_image
        if is_image:
            return


def suffix_of(name: str) -> str:
    """Return the suffix of a name that does not begin with a dot, in small letters, or "" without one."""
    dot = name.rfind(".")
    return "" if dot < 0 else name[dot:].lower()


def find_images(path: Path) -> Iterator[Path]:
    """Yield `path` itself, or the files below it in order, without hidden ones and sidecar files."""
    if not path.is_dir():
        yield path
        return
    yield from sorted(Path(file.location) for file in FolderScan(str(path)))


def folders_of(path: Path, found: Iterable[Path]) -> tuple[Path, ...]:
    """Return the folder of what `find_images` found, and those that links to files in it lead to."""
    folder = path.resolve() if path.is_dir() else path.resolve().parent
    linked = {one.resolve().parent for one in found}
    return folder, *sorted(one for one in linked if not one.is_relative_to(folder))


def may_be_image(name: PurePath) -> bool:
    """Return whether a name, relative to the added folder, is neither hidden nor that of a sidecar file."""
    hidden = any(part.startswith(".") for part in name.parts)
    return not hidden and name.suffix.lower() not in SIDECAR_SUFFIXES
