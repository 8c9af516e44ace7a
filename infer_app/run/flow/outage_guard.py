"""Keeps a storage failure from being written as a thousand missing files.

Failed reads are held until a read from the same place succeeds: the roots above a file, a web server, a bucket. If
reads keep failing, or the storage is found to be unavailable, the day ends and those images stay pending. Many files in
a row that are merely missing may have been deleted on purpose: images that follow, or of other days, tell.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from infer_app.base.domain import Broken, ChunkResult, Reason
from infer_app.base.errors import StorageUnavailable
from infer_app.base.locations import find_allowed_prefix, storage_of
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.read.refusals import nothing_allowed, recorded_and_read
from infer_app.predict.images.read.roots import may_be_outage, place_of, was_read

NO_ANSWER = frozenset({Reason.READ_TIMEOUT, Reason.READ_ERROR})  # the server may be down
SEVERAL = 2  # failed reads, none of which a server or a bucket answered with a picture
MAX_FAILED_READS = 200  # in a row; of missing files only if nothing else of their storage can be read
MAX_MISSING = 10_000  # missing files in a row that are held in memory
CHECK_INTERVAL_S = 30.0  # between two checks of a place that is available

Place = tuple[str, ...]  # as `place_of` gives it


def guard_against_outages(
    results: Iterable[ChunkResult],
    limits: ReadLimits,
    is_any_done_allowed: Callable[[], bool] = bool,
    is_other_there: Callable[[str], bool | None] = lambda location: None,
) -> Iterator[ChunkResult]:
    """Yield the results that may be committed; a chunk's failed reads may come later than its predictions.

    `is_any_done_allowed` is called if no location was allowed so far, and returns whether a location of the day's
    images with results is. If so, the others are rejected, as they are beside an allowed image of this run.
    `is_other_there` is called with the location of a missing file if none of its roots was read since, or where many
    reads failed; it returns whether another image of that place can be read, None if no other is known.

    Raises StorageUnavailable if a root or a remote place is unavailable, MAX_FAILED_READS reads of one place failed in
    a row, or files are missing and none of the others that are known can be read; and NothingAllowed if no location at
    all is allowed. Results held then are never written.
    """
    guard = OutageGuard(limits, is_any_done_allowed, is_other_there)
    for result in results:
        yield from guard.filter(result)
    yield from guard.finish()


class OutageGuard:
    """Holds failed reads, by the place that they are of, and refused locations until their cause is known."""

    def __init__(
        self, limits: ReadLimits, is_any_done_allowed: Callable[[], bool], is_other_there: Callable[[str], bool | None]
    ) -> None:
        self._limits = limits
        self._is_any_done_allowed = is_any_done_allowed
        self._is_other_there = is_other_there
        self._failed: dict[Place, list[ChunkResult]] = defaultdict(list)
        self._refused: list[ChunkResult] = []
        self._anything_allowed = False
        self._checked_at: dict[Place, float] = {}

    def filter(self, result: ChunkResult) -> Iterator[ChunkResult]:
        """Yield the results that may be written now that this one is known."""
        read = [one.ref.location for one in result.predictions]
        read += [one.ref.location for one in result.broken if was_read(one.ref.location, one.reason)]
        suspect = [one for one in result.broken if may_be_outage(one.ref.location, one.reason)]
        failed = {one: place_of(one.ref.location, self._limits) for one in suspect}
        self._anything_allowed |= bool(read or failed)
        places = {place_of(location, self._limits) for location in read} if failed or self._failed else set()
        for place in places:
            yield from self._failed.pop(place, ())
        if self._anything_allowed:
            yield from self._refused
            self._refused.clear()
        rest: ChunkResult | None = result
        for place in sorted({*failed.values()} - places):
            part, rest = _split(rest, [broken for broken in failed if failed[broken] == place])
            yield from self._hold(place, part)
        if not self._anything_allowed and result.broken:
            part, rest = _split(rest, result.broken)
            self._refused.append(part)
            self._check_all_refused(MAX_FAILED_READS)
        if rest is not None:
            yield rest

    def finish(self) -> Iterator[ChunkResult]:
        """Yield the results that are still held after the last one."""
        self._check_all_refused(1)
        for place, results in self._failed.items():
            self._check_place(place, results[-1].broken[-1], again_s=0)
        yield from self._refused
        for place in list(self._failed):
            yield from self._release(place, SEVERAL if place[0] else MAX_FAILED_READS)

    def _hold(self, place: Place, failed: ChunkResult) -> Iterator[ChunkResult]:
        held = self._failed[place]
        if not held:
            self._check_place(place, failed.broken[-1])
        held.append(failed)
        if _num_failed(held) >= MAX_FAILED_READS or sum(len(result.broken) for result in held) >= MAX_MISSING:
            yield from self._release(place)

    def _release(self, place: Place, enough: int = MAX_FAILED_READS) -> Iterator[ChunkResult]:
        """Yield the failed reads of a place unless it may be gone.

        `enough`: so many, but for missing files, where no other image of the place is known.
        """
        held = self._failed.pop(place)
        count, last = sum(len(result.broken) for result in held), held[-1].broken[-1]
        num_failed, storage = _num_failed(held), place[0]
        is_gone = num_failed >= MAX_FAILED_READS
        many = count >= MAX_FAILED_READS or num_failed >= enough
        are_missing_files = not storage and not num_failed  # however few; a server that calls them missing is there
        if not is_gone and (many or are_missing_files):
            is_other_there = self._is_other_there(last.ref.location)
            is_gone = many if is_other_there is None else not is_other_there
        if is_gone:
            where, location = f" from {storage}" if storage else "", recorded_and_read(last, self._limits.path_map)
            why = f" ({last.detail})" if last.detail else ""
            raise StorageUnavailable(
                f"{count} reads{where} failed in a row, the last with {last.reason}{why}: {location}",
                "is the image storage mounted and readable? nothing was rejected for it",
            )
        yield from held

    def _check_place(self, place: Place, failed: Broken, again_s: float = CHECK_INTERVAL_S) -> None:
        """Raise StorageUnavailable if the remote place of a failed read does not answer."""
        now = time.monotonic()
        if not _may_be_unavailable(failed) or now - self._checked_at.get(place, -again_s) < again_s:
            return
        prefix = find_allowed_prefix(failed.ref.location, self._limits.remote.places)
        if prefix is not None:
            from infer_app.predict.images.read.remote import check_reachable

            self._checked_at[place] = now
            check_reachable(prefix, self._limits.remote)

    def _check_all_refused(self, enough: int) -> None:
        refused = [broken for result in self._refused for broken in result.broken]
        if len(refused) < enough:
            return
        self._anything_allowed = self._is_any_done_allowed()
        if not self._anything_allowed:
            raise nothing_allowed(refused, self._limits)


def _may_be_unavailable(failed: Broken) -> bool:
    """Return whether the storage may be unavailable.

    A web server that answers 404 is available; an object that is not found may be in a bucket that doesn't exist.
    """
    is_object = not storage_of(failed.ref.location).startswith("http")
    return failed.reason in NO_ANSWER or (failed.reason is Reason.NOT_FOUND and is_object)


def _num_failed(held: Iterable[ChunkResult]) -> int:
    """Return the number of failed reads but for missing files, which only a storage that answers calls missing."""
    return sum(broken.reason is not Reason.NOT_FOUND for result in held for broken in result.broken)


def _split(result: ChunkResult | None, part: Sequence[Broken]) -> tuple[ChunkResult, ChunkResult | None]:
    """Return the part to hold, and the rest if there is any, which keeps the measurements."""
    assert result is not None
    others = tuple(broken for broken in result.broken if broken not in part)
    if not others and not result.predictions and not result.num_loaded:
        return result, None
    return ChunkResult(result.number, (), tuple(part), result.model_indices), replace(result, broken=others)
