"""Keeps a storage failure from being written as a thousand missing files.

A chunk of which nothing could be read is held back until something is read again. If the reads keep failing, or the
root of a missing file is gone, the run ends and those images stay pending.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from infer_app.errors import NothingAllowed, StorageUnavailable
from infer_app.images.location import local_path
from infer_app.records import Broken, ChunkResult, Reason

READ_FAILURES = frozenset({Reason.NOT_FOUND, Reason.PERMISSION_DENIED, Reason.READ_TIMEOUT, Reason.READ_ERROR})
MAX_FAILED_READS = 200  # in a row


def hold_back(results: Iterable[ChunkResult], roots: Sequence[Path]) -> Iterator[ChunkResult]:
    """The results that may be committed, in order.

    Raises StorageUnavailable when a root is gone or MAX_FAILED_READS reads in a row failed, NothingAllowed when no
    location at all is allowed. What is held back then was never written.
    """
    held: list[ChunkResult] = []
    anything_allowed = False
    for result in results:
        _check_roots(result, roots)
        if _is_suspicious(result):
            held.append(result)
            _check_held(held, anything_allowed, roots)
            continue
        anything_allowed = True
        yield from held
        held.clear()
        yield result
    _check_all_refused(held, anything_allowed, roots)
    yield from held


def _is_suspicious(result: ChunkResult) -> bool:
    suspects = READ_FAILURES | {Reason.LOCATION_NOT_ALLOWED}
    anything_read = result.predictions or result.num_loaded
    return not anything_read and all(broken.reason in suspects for broken in result.broken)


def _check_held(held: list[ChunkResult], anything_allowed: bool, roots: Sequence[Path]) -> None:
    if sum(result.num_images for result in held) < MAX_FAILED_READS:
        return
    _check_all_refused(held, anything_allowed, roots)
    failed = [broken for result in held for broken in result.broken if broken.reason in READ_FAILURES]
    if len(failed) >= MAX_FAILED_READS:
        last = failed[-1]
        raise StorageUnavailable(
            f"{len(failed)} reads failed in a row, the last with {last.reason}: {last.ref.location}",
            "is the image storage mounted and readable? nothing was rejected for it",
        )


def _check_all_refused(held: list[ChunkResult], anything_allowed: bool, roots: Sequence[Path]) -> None:
    broken = [broken for result in held for broken in result.broken]
    if anything_allowed or not broken or any(one.reason is not Reason.LOCATION_NOT_ALLOWED for one in broken):
        return
    allowed = ", ".join(map(str, roots)) or "none"
    example = Path(broken[0].ref.location)
    hint = f'allow their folder in infer.toml: [images] roots = ["{example.parent}"]'
    if not example.is_absolute():
        hint = "a location must be an absolute path: make it one in the table, or by [source] query"
    raise NothingAllowed(f"no image lies under an allowed root ({allowed}), for example {example}", hint)


def _check_roots(result: ChunkResult, roots: Sequence[Path]) -> None:
    missing = [broken for broken in result.broken if broken.reason is Reason.NOT_FOUND]
    for root in roots:
        if any(_is_under(broken, root) for broken in missing) and _is_gone(root):
            raise StorageUnavailable(
                f"{root} is gone or empty", "is the image storage mounted? its images stay pending"
            )


def _is_under(broken: Broken, root: Path) -> bool:
    return Path(local_path(broken.ref.location)).is_relative_to(root)


def _is_gone(root: Path) -> bool:
    """An unmounted file system leaves an empty folder behind."""
    try:
        return next(root.iterdir(), None) is None
    except OSError:
        return True
