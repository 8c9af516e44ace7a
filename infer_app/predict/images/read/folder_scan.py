"""The files of folders: which are images by their names, and the facts that they are known by."""

import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import translate
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from infer_app.base.domain import ImageFile
from infer_app.base.locations import IMAGE_SUFFIXES

HIDDEN = "hidden"
# Thumbnails, deleted files, snapshots and caches, which repeat photos or hold none. What begins with a dot is hidden.
KEPT_BY_OTHERS = (
    *("@eaDir", "#recycle", "#snapshot", "@tmp", "@sharebin"),  # Synology
    *("@Recycle", "@Recently-Snapshot", "@__thumb"),  # QNAP
    *("~snapshot", "@GMT-*", "trashbox", "lost+found"),  # NetApp, Samba, Buffalo, ext4
    *("$RECYCLE.BIN", "RECYCLER", "RECYCLED", "System Volume Information", "FOUND.[0-9][0-9][0-9]"),  # Windows
    *("__MACOSX", "Network Trash Folder", "Temporary Items", "TheVolumeSettingsFolder"),  # macOS
    *("*.photoslibrary/resources", "*.photolibrary/Thumbnails", "*.lrdata"),  # Apple Photos, iPhoto, Lightroom
    *("files_trashbin", "files_versions", "appdata_*"),  # Nextcloud
    "THMBNL",  # a Sony camera's, of videos
)
LINK = "links to folders"
SPECIAL = "devices and broken links"
_IMAGE_SUFFIXES = frozenset(IMAGE_SUFFIXES)
FILES_AT_ONCE = 1000
MAX_LOOKED_AT = 100_000  # of all that lies in a folder, to find an image in it
EVERY_S = 1.0  # slow storage takes minutes for so many, and a caller may take it for gone


class ScannedFiles(NamedTuple):
    """Some files of a folder, and what could not be read since the files before."""

    files: list[ImageFile]
    unreadable: list[str]  # folders and files, with the reason
    began_at: float  # seconds since the epoch, before any of them was looked at
    left_out: Counter[str]  # how many names, by why: a suffix, a name, or in words


class FolderScan:
    """Yields the images in a folder and below it, in no order; counts what it leaves out, by its name or its kind.

    Links to folders are not followed. Memory does not grow with the number of files.
    """

    def __init__(self, folder: str, exclude: Sequence[str] = ()) -> None:
        self._folder = folder
        self._names = LeftOutNames(exclude)
        self.forget_skipped()

    def forget_skipped(self) -> None:
        """Begin to count anew."""
        self.unreadable: list[str] = []  # folders and files, with the reason
        self.left_out = Counter[str]()

    def __iter__(self) -> Iterator[ImageFile]:
        return (file for file in self.steps() if file is not None)

    def steps(self) -> Iterator[ImageFile | None]:
        """Yield the files, and None for everything else that was looked at."""
        folders, below = [self._folder], len(self._folder.rstrip("/")) + 1
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:  # a million times: few calls
                        file = None
                        if why := self._names.why(entry.name, entry.path[below:]):
                            self.left_out[why] += 1
                        elif entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
                        elif (facts := self._facts(entry)) is not None:
                            file = ImageFile(entry.path, facts.st_size, facts.st_mtime)
                        yield file
            except OSError as error:
                self.unreadable.append(f"{folder}: {error.strerror}")
            yield None

    def may_be_image(self, path: str) -> bool:
        """Return whether a path below the folder, in a listing, is that of an image; count it if not."""
        if why := self._names.why_below(path):
            self.left_out[why] += 1
        return not why and self._is_image(path.rpartition("/")[2])

    def _is_image(self, name: str) -> bool:
        suffix = suffix_of(name)
        if suffix not in _IMAGE_SUFFIXES:
            self.left_out[suffix] += 1
        return suffix in _IMAGE_SUFFIXES

    def _facts(self, entry: os.DirEntry[str]) -> os.stat_result | None:
        """Return the facts of a file that is an image by its name, or None for everything else, which is counted."""
        try:
            if entry.is_file():
                return entry.stat() if self._is_image(entry.name) else None
            self.left_out[LINK if entry.is_dir() else SPECIAL] += 1
        except FileNotFoundError:  # removed meanwhile
            pass
        except OSError as error:
            self.unreadable.append(f"{entry.path}: {error.strerror}")
        return None


def scan_folders(
    folders: Sequence[str], exclude: Sequence[str] = (), every_s: float = EVERY_S
) -> Iterator[ScannedFiles]:
    """Yield the files of the folders, as FolderScan does: FILES_AT_ONCE at a time, or those of `every_s`, if any."""
    for folder in folders:
        scan = FolderScan(folder, exclude)
        found = ScannedFiles([], scan.unreadable, time.time(), scan.left_out)
        due = time.monotonic() + every_s
        for file in scan.steps():
            if file is not None:
                found.files.append(file)
            if len(found.files) >= FILES_AT_ONCE or time.monotonic() >= due:
                yield found
                scan.forget_skipped()
                found = ScannedFiles([], scan.unreadable, time.time(), scan.left_out)
                due = time.monotonic() + every_s
        if found.files or found.unreadable or found.left_out:
            yield found


def look_at_folders(folders: Sequence[str], exclude: Sequence[str] = ()) -> list[str | None]:
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
        looked_at = list(islice(_are_images(folder, exclude), MAX_LOOKED_AT))
        found.append(None if any(looked_at) or len(looked_at) == MAX_LOOKED_AT else "")
    return found


def _are_images(folder: str, exclude: Sequence[str]) -> Iterator[bool]:
    """Yield of all that lies in a folder and below it whether it is an image by its name, up to the first one."""
    for file in FolderScan(folder, exclude).steps():
        yield file is not None
        if file is not None:
            return


def suffix_of(name: str) -> str:
    """Return the suffix of a name that does not begin with a dot, in small letters, or "" without one."""
    dot = name.rfind(".")
    return "" if dot < 0 else name[dot:].lower()


def find_images(path: Path, scan: FolderScan | None = None) -> Iterator[Path]:
    """Yield `path` itself, or the images below it in order, as a scan of it finds them."""
    if not path.is_dir():
        yield path
        return
    yield from sorted(Path(file.location) for file in scan or FolderScan(str(path)))


def folders_of(path: Path, found: Iterable[Path]) -> tuple[Path, ...]:
    """Return the folder of what `find_images` found, and those that links to files in it lead to."""
    folder = path.resolve() if path.is_dir() else path.resolve().parent
    linked = {one.resolve().parent for one in found}
    return folder, *sorted(one for one in linked if not one.is_relative_to(folder))


class LeftOutNames:
    """Patterns as in a shell, in any case, of names or, with a slash, of paths below the folder."""

    def __init__(self, exclude: Sequence[str] = ()) -> None:
        plain = [pattern.strip().rstrip("/").removeprefix("**/") for pattern in (*KEPT_BY_OTHERS, *exclude)]
        self._names = [pattern for pattern in plain if "/" not in pattern]
        self._paths = [pattern.removeprefix("/") for pattern in plain if "/" in pattern]
        self._any_name, self._any_path = _compiled(self._names), _compiled(self._paths)

    def why(self, name: str, path: str) -> str:
        """Return why a file or folder is left out, "hidden" or the pattern; "" if it isn't for its name or path."""
        if name.startswith("."):
            return HIDDEN
        if self._any_name.match(name):
            return _first_match(self._names, name)
        return _first_match(self._paths, path) if self._any_path.match(path) else ""

    def why_below(self, path: str) -> str:
        """Return why what lies at a path is left out, for its own name or that of a folder above it."""
        parts = path.split("/")
        reasons = (self.why(part, "/".join(parts[: number + 1])) for number, part in enumerate(parts))
        return next(filter(None, reasons), "")


def _compiled(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)), re.IGNORECASE)


def _first_match(patterns: Iterable[str], text: str) -> str:
    return next(pattern for pattern in patterns if _compiled([pattern]).match(text))
