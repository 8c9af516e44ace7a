"""The rate that was reached, from the times at which each worker's chunks were committed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Commit:
    at: float  # time.monotonic(), seconds
    worker: int  # pid
    num_images: int


def steady_rate(commits: Sequence[Commit], num_workers: int) -> float | None:
    """Images per second while all workers were at work: what a longer run would reach.

    From the moment at which every worker had committed its first chunk, so that starting is left out, to the moment at
    which the first of them had committed its last, so that the idle end is left out. A chunk that lies across one of
    these moments counts by the part of its time that lies between them. None where there is no such time.
    """
    by_worker: dict[int, list[Commit]] = {}
    for commit in commits:
        by_worker.setdefault(commit.worker, []).append(commit)
    firsts = sorted(of_one[0].at for of_one in by_worker.values())[:num_workers]
    lasts = sorted(of_one[-1].at for of_one in by_worker.values())[-num_workers:]  # a dead one's replacement is later
    if not commits or lasts[0] <= firsts[-1]:
        return None
    start, end = firsts[-1], lasts[0]
    return sum(part for of_one in by_worker.values() for part in _parts(of_one, start, end)) / (end - start)


def merged(commits: Sequence[Commit]) -> list[Commit]:
    """Half as many that say the same of any longer time: each worker's chunks in twos, its first one alone."""
    halved: list[Commit] = []
    waiting: dict[int, Commit | None] = {}
    for commit in commits:
        if commit.worker not in waiting:
            waiting[commit.worker] = None
            halved.append(commit)
        elif first := waiting[commit.worker]:
            waiting[commit.worker] = None
            halved.append(Commit(commit.at, commit.worker, first.num_images + commit.num_images))
        else:
            waiting[commit.worker] = commit
    halved += [commit for commit in waiting.values() if commit]
    return sorted(halved, key=lambda commit: commit.at)


def _parts(commits: Sequence[Commit], start: float, end: float) -> Iterator[float]:
    """The images of one worker's chunks that lie in the time, the first chunk left out: when it began is not known."""
    for before, after in pairwise(commits):
        inside = min(end, after.at) - max(start, before.at)
        if inside > 0:
            yield after.num_images * inside / (after.at - before.at)
