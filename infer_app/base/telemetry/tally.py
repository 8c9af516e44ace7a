"""The cost of an image in each stage and the rate that a run reached, summed over its chunks."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from infer_app.base.domain import ChunkResult
from infer_app.base.telemetry.stage_clock import STAGES, WAITING_STAGES, StageClock

CPU, WALL, WAIT = "cpu_seconds", "wall_seconds", "wait_seconds"  # of a clock, and of a result
MAX_COMMITS = 10_000  # kept as they are; a long run has a million


class Tally:
    """Costs and commits of a run, added after each commit.

    The cost of an image is the sum over the processes that handle it: it is selected, possibly loaded by a process of
    its own, and predicted.
    """

    def __init__(self, num_predictors: int) -> None:
        """Start the run's time; `num_predictors` is the number of processes that make predictions."""
        self.started = time.monotonic()
        self._num_predictors = num_predictors
        self._commits: list[Commit] = []
        self._selects = Costs()  # counted by page: a short run doesn't use all images of its page
        self._loads = WarmCosts()  # of processes that only load
        self._results = WarmCosts()
        self._nodes: dict[str, Costs] = defaultdict(Costs)  # of a cluster
        self._num_worked = self._num_settled = 0  # images with a result of a worker, and those that needed none

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def steady_images_per_second(self) -> float | None:
        rate = steady_rate(self._commits, self._num_predictors)
        return None if rate is None else rate / self._share_worked

    def add_page(self, num_images: int, clock: StageClock) -> None:
        """Add the cost of selecting a page of refs."""
        self._selects.add(num_images, clock)

    def add(self, result: ChunkResult, clock: StageClock) -> None:
        """Add a committed chunk; `clock` measured its write."""
        num_images = result.num_images  # each once, though each of several models has its own prediction
        if not result.worker:
            self._num_settled += num_images if result.predictions else 0  # else a dead worker's
            return
        if result.node:
            self._nodes[result.node].add(num_images, result)
        if result.num_loaded is not None:
            self._loads.add(result.worker, num_images + result.num_loaded, result, clock)
            return
        self._num_worked += num_images
        self._commits.append(Commit(time.monotonic(), result.worker, num_images))
        if len(self._commits) > MAX_COMMITS:
            self._commits = merge_pairs(self._commits)
        self._results.add(result.worker, num_images, result, clock)

    def cpu_ms(self) -> dict[str, float]:
        """Return the CPU milliseconds per image of every stage; empty without images."""
        return self._sum(STAGES, CPU)

    def wall_ms(self) -> dict[str, float]:
        return self._sum(STAGES, WALL)

    def wait_ms(self) -> dict[str, float]:
        """Return the milliseconds per image that each stage waited for the database or for storage."""
        return self._sum(WAITING_STAGES, WAIT)

    def nodes(self) -> dict[str, dict[str, object]]:
        """Return images, rate and CPU milliseconds per image of each node of a cluster."""
        return {
            node: {
                "images": costs.num_images,
                "images_per_second": costs.num_images / self.seconds,
                "stages": costs.ms(CPU),
            }
            for node, costs in sorted(self._nodes.items())
        }

    def _sum(self, stages: Iterable[str], kind: str) -> dict[str, float]:
        """Return the milliseconds of all given stages; a stage that no image went through has 0."""
        known = [self._selects, self._loads.known, self._results.known]
        if not any(costs.num_images for costs in known[1:]):
            return {}
        sums = dict.fromkeys(stages, 0.0)
        for costs, share in zip(known, (1.0, self._share_worked, self._share_worked), strict=True):
            _add(sums, {stage: share * amount for stage, amount in costs.ms(kind).items()})
        return sums

    @property
    def _share_worked(self) -> float:
        """Return the share of the images that workers had, 0-1: the others are results at no cost."""
        return self._num_worked / (self._num_worked + self._num_settled) if self._num_worked else 1.0


class WarmCosts:
    """Costs of workers without the first chunk of each, which fills caches; with it if there are no others."""

    def __init__(self) -> None:
        self._workers: set[int] = set()
        self._cold, self._warm = Costs(), Costs()

    def add(self, worker: int, num_images: int, *measured: StageClock | ChunkResult) -> None:
        (self._warm if worker in self._workers else self._cold).add(num_images, *measured)
        self._workers.add(worker)

    @property
    def known(self) -> Costs:
        return self._warm if self._warm.num_images else self._cold


class Costs:
    """Seconds by stage, summed over a number of images."""

    def __init__(self) -> None:
        self.num_images = 0
        self._sums: dict[str, dict[str, float]] = {kind: defaultdict(float) for kind in (CPU, WALL, WAIT)}

    def add(self, num_images: int, *measured: StageClock | ChunkResult) -> None:
        self.num_images += num_images
        for one in measured:
            for kind, sums in self._sums.items():
                _add(sums, getattr(one, kind))

    def ms(self, kind: str) -> dict[str, float]:
        """Return the milliseconds per image of a kind, by stage."""
        seconds = self._sums[kind].items() if self.num_images else ()
        return {stage: 1e3 * amount / self.num_images for stage, amount in seconds}


@dataclass(frozen=True, slots=True)
class Commit:
    """A committed chunk."""

    at: float  # time.monotonic(), seconds
    worker: int  # pid
    num_images: int


def steady_rate(commits: Sequence[Commit], num_workers: int) -> float | None:
    """Return the images per second while all workers were busy, which is the rate of a longer run.

    The interval begins when every worker has committed its first chunk, so that start-up is left out, and ends when the
    first worker commits its last chunk, so that the idle end is left out. A chunk partly inside the interval counts by
    the share of its time inside. None if there is no such interval.
    """
    by_worker: dict[int, list[Commit]] = {}
    for commit in commits:
        by_worker.setdefault(commit.worker, []).append(commit)
    firsts = sorted(of_one[0].at for of_one in by_worker.values())[:num_workers]
    lasts = sorted(of_one[-1].at for of_one in by_worker.values())[-num_workers:]  # a dead worker's are replaced
    if not commits or lasts[0] <= firsts[-1]:
        return None
    start, end = firsts[-1], lasts[0]
    return sum(share for of_one in by_worker.values() for share in _images_between(of_one, start, end)) / (end - start)


def merge_pairs(commits: Sequence[Commit]) -> list[Commit]:
    """Return half as many commits with the same steady rate: each worker's first commit, the others merged in pairs."""
    halved: list[Commit] = []
    unpaired: dict[int, Commit | None] = {}
    for commit in commits:
        if commit.worker not in unpaired:
            unpaired[commit.worker] = None
            halved.append(commit)
        elif first := unpaired[commit.worker]:
            unpaired[commit.worker] = None
            halved.append(Commit(commit.at, commit.worker, first.num_images + commit.num_images))
        else:
            unpaired[commit.worker] = commit
    halved += [commit for commit in unpaired.values() if commit]
    return sorted(halved, key=lambda commit: commit.at)


def _images_between(commits: Sequence[Commit], start: float, end: float) -> Iterator[float]:
    """Yield the images of each of one worker's chunks in the interval; the first chunk's start is unknown."""
    for before, after in pairwise(commits):
        inside = min(end, after.at) - max(start, before.at)
        if inside > 0:
            yield after.num_images * inside / (after.at - before.at)


def _add(sums: dict[str, float], seconds: Mapping[str, float]) -> None:
    for stage, more in seconds.items():
        sums[stage] += more
