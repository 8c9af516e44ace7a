"""Finds watched folders whose images are registered below another folder: they were moved, copied or mounted anew."""

import heapq
import random
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain

from infer_app.base.domain import ImageFile
from infer_app.base.locations import NO_MAPPING
from infer_app.base.settings.load import LoadedSettings
from infer_app.predict.images.read.folder_scan import look_at_folders, scan_folders
from infer_app.predict.images.read.local_files import are_gone, hash_files, stat_all
from infer_app.run.files.changed_files import FILES_AT_ONCE, AskStorage
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.watched_images import RegisteredElsewhere, has_images_in
from infer_app.tables.project_database import read_limits

NUM_SAMPLED = 500  # files of a folder, to find where they are registered: most of them may be new
NUM_FORMER = 3  # folders that they are most often registered in, to be compared
NUM_COMPARED = 50  # images of such a folder, by their bytes or times
NEAR_S = 2.0  # by which the times of one file differ on two file systems


Move = tuple[str, Callable[[], int]]  # its description, and what stores it and returns the number of images


def find_moved(database: Database, loaded: LoadedSettings, recorded: Sequence[str], ask: AskStorage) -> Iterator[Move]:
    """Yield for the watched folders below which nothing is registered that most of another folder's images lie in them.

    `recorded`: the watched folders as recorded, which are never taken for a former place of another one.
    """
    elsewhere, draw = RegisteredElsewhere(database, recorded), random.Random(0).random
    for folder in map(str, loaded.watched):
        new = loaded.path_map.recorded(f"{folder}/")
        if has_images_in(database, [new]) or not elsewhere:
            continue
        files = chain.from_iterable(batch.files for batch in ask(scan_folders, [folder], loaded.images.exclude))
        sample = heapq.nsmallest(NUM_SAMPLED, files, key=lambda _: draw())  # each with the same chance
        for old in _former_folders(sample, folder, elsewhere):
            if moved := _find_move(folder, old, elsewhere, loaded, ask):
                yield moved
                break


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


def _find_move(
    folder: str, old: str, elsewhere: RegisteredElsewhere, loaded: LoadedSettings, ask: AskStorage
) -> Move | None:
    """Return the move of what was registered below `old`, if at least half of it lies in the folder and is the same.

    What lies in both places was copied with the rest, or stays where it is if anything does.
    """
    gone, copied, num_left = array("q"), array("q"), 0
    ids = elsewhere.read_ids(old)
    for first in range(0, len(ids), FILES_AT_ONCE):
        some = elsewhere.read_locations_of(ids[first : first + FILES_AT_ONCE])
        here = ask(stat_all, [f"{folder}/{location[len(old) :]}" for _, location in some], NO_MAPPING)
        left = ask(are_gone, [location for _, location in some], loaded.path_map)
        for (row_id, _), now, is_gone in zip(some, here, left, strict=True):
            if now.size is not None:
                (gone if is_gone else copied).append(row_id)
            num_left += not is_gone
    found = sorted((*gone, *copied))
    if 2 * len(found) < len(ids) or not found:
        return None
    sample = random.Random(0).sample(found, min(NUM_COMPARED, len(found)))
    if not _are_same(folder, old, elsewhere.read_files(sample), loaded, ask):
        return None
    is_whole = num_left == len(copied)  # nothing is left that is not here, too
    if is_whole and len(found) < len(ids):  # the rest was deleted, or its disk is away
        is_whole = list(ask(look_at_folders, [loaded.path_map.to_local(old)], loaded.images.exclude)) == [None]
    if not is_whole and not gone:
        return None
    new = loaded.path_map.recorded(f"{folder}/")
    move = partial(elsewhere.move, old, new, None if is_whole else gone)  # None: all that is below `old`
    return f"known below {old} are now below {new}", move


def _are_same(
    folder: str, old: str, known: Sequence[tuple[ImageFile, set[str]]], loaded: LoadedSettings, ask: AskStorage
) -> bool:
    """Return whether at least half of some files have the bytes of those that are known, or if none are, the time."""
    here = [f"{folder}/{file.location[len(old) :]}" for file, _ in known]
    facts = list(ask(stat_all, here, NO_MAPPING))
    num_same, unsure = 0, list[tuple[str, set[str]]]()
    for (file, hashes), now, path in zip(known, facts, here, strict=True):
        if file.size is None or now.size != file.size:
            continue
        if hashes:
            unsure.append((loaded.path_map.recorded(path), hashes))
        elif file.modified is not None and abs(now.modified - file.modified) < NEAR_S:
            num_same += 1
    if 2 * (num_same + len(unsure)) < len(known):
        return False
    hashed = filter(None, ask(hash_files, [path for path, _ in unsure], read_limits(loaded)))
    num_same += sum(now.sha256 in hashes for now, (_, hashes) in zip(hashed, unsure, strict=True))
    return num_same > 0 and 2 * num_same >= len(known)
