"""Finds watched folders whose images are registered below another folder: they were moved, copied or mounted anew."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from infer_app.database.engine.connect import Database
from infer_app.database.listing.watched_images import RegisteredElsewhere, has_images_in
from infer_app.database.project_database import read_limits
from infer_app.domain import ImageFile
from infer_app.images.read.folder_scan import scan_folders
from infer_app.images.read.local_files import hash_files, stat_all
from infer_app.locations import NO_MAPPING
from infer_app.pipeline.files.changed_files import AskStorage
from infer_app.settings.load import LoadedSettings

NUM_SAMPLED = 500  # files of a folder, to find where they are registered: most of them may be new
NUM_FORMER = 3  # folders that they are most often registered in, to be compared
NUM_COMPARED = 50  # images of such a folder
NEAR_S = 2.0  # by which the times of one file differ on two file systems


@dataclass(frozen=True, slots=True)
class MovedFolder:
    """A folder as recorded and the one whose images are those registered below it, both with a slash at the end."""

    elsewhere: RegisteredElsewhere
    old: str
    new: str

    def apply(self) -> int:
        """Store it and return the number of images."""
        return self.elsewhere.move(self.old, self.new)

    def __str__(self) -> str:
        return f"known below {self.old} are now below {self.new}"


def find_moved(
    database: Database, loaded: LoadedSettings, recorded: Sequence[str], ask: AskStorage
) -> Iterator[MovedFolder]:
    """Yield the watched folders below which nothing is registered, but elsewhere at least half of what lies in them.

    `recorded`: the watched folders as recorded, which are never taken for a former place of another one.
    """
    elsewhere = RegisteredElsewhere(database, recorded)
    for folder in map(str, loaded.watched):
        new = loaded.path_map.recorded(f"{folder}/")
        if has_images_in(database, [new]) or not elsewhere:
            continue
        files = _sample(
            chain.from_iterable(batch.files for batch in ask(scan_folders, [folder], loaded.images.exclude))
        )
        for old in _former_folders(files, folder, elsewhere):
            if _is_same(folder, old, elsewhere, loaded, ask):
                yield MovedFolder(elsewhere, old, new)
                break


def _sample(files: Iterable[ImageFile]) -> list[ImageFile]:
    """Return some of the files, each with the same chance."""
    sample: list[ImageFile] = []
    choose = random.Random(0).randrange
    for number, file in enumerate(files):
        if number < NUM_SAMPLED:
            sample.append(file)
        elif (place := choose(number + 1)) < NUM_SAMPLED:
            sample[place] = file
    return sample


def _former_folders(files: Sequence[ImageFile], folder: str, elsewhere: RegisteredElsewhere) -> list[str]:
    """Return the folders below which files of the same paths and sizes are registered, the most frequent first."""
    paths = defaultdict[tuple[int | None, str], list[str]](list)  # below the folder, by size and name
    for file in files:
        paths[file.size, file.location.rpartition("/")[2]].append(file.location[len(folder) :])
    found = Counter[str]()
    for location, size in elsewhere.read_locations(size for size, _ in paths):
        of_name = paths.get((size, location.rpartition("/")[2]), ())
        found.update(f"{location[: -len(path)]}/" for path in of_name if location.endswith(path))
    return [old for old, _ in found.most_common(NUM_FORMER)]


def _is_same(folder: str, old: str, elsewhere: RegisteredElsewhere, loaded: LoadedSettings, ask: AskStorage) -> bool:
    """Return whether at least half of some images registered below `old` lie in the folder.

    These are the last ones, since older ones may have been deleted, or any, since a last burst may have been deleted.
    """
    ids = elsewhere.read_ids(old)
    some = random.Random(0).sample(ids, min(NUM_COMPARED, len(ids)))
    return any(_are_here(folder, old, elsewhere.read_files(of), loaded, ask) for of in (ids[-NUM_COMPARED:], some))


def _are_here(
    folder: str, old: str, known: Sequence[tuple[ImageFile, set[str]]], loaded: LoadedSettings, ask: AskStorage
) -> bool:
    here = [f"{folder}/{file.location[len(old) :]}" for file, _ in known]
    facts = list(ask(stat_all, here, NO_MAPPING))
    num_same, unsure = 0, list[tuple[str, set[str]]]()
    for (file, hashes), now, path in zip(known, facts, here, strict=True):
        if file.size is None or now.size != file.size:
            continue
        if file.modified is not None and abs(now.modified - file.modified) < NEAR_S:
            num_same += 1
        elif hashes:
            unsure.append((loaded.path_map.recorded(path), hashes))
    if 2 * (num_same + len(unsure)) < len(known):
        return False
    hashed = filter(None, ask(hash_files, [path for path, _ in unsure], read_limits(loaded)))
    num_same += sum(now.sha256 in hashes for now, (_, hashes) in zip(hashed, unsure, strict=True))
    return num_same > 0 and 2 * num_same >= len(known)
