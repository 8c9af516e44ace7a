"""What one run took, summed over its chunks: the cost of an image, and the rate that was reached."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from infer_app.domain import ChunkResult
from infer_app.telemetry.stage_clock import STAGES, WAITING_STAGES, StageClock


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


MAX_COMMITS = 10_000  # kept apart; a long night has a million


class Costs:
    """Seconds by stage, summed over a number of images."""

    def __init__(self) -> None:
        self.num_images = 0
        self._cpu: dict[str, float] = defaultdict(float)
        self._wall: dict[str, float] = defaultdict(float)
        self._wait: dict[str, float] = defaultdict(float)

    def add(self, num_images: int, *measured: StageClock | ChunkResult) -> None:
        self.num_images += num_images
        for one in measured:
            _add(self._cpu, one.cpu_seconds)
            _add(self._wall, one.wall_seconds)
            _add(self._wait, one.wait_seconds)

    def cpu_ms(self) -> dict[str, float]:
        return self._per_image(self._cpu)

    def wall_ms(self) -> dict[str, float]:
        return self._per_image(self._wall)

    def wait_ms(self) -> dict[str, float]:
        return self._per_image(self._wait)

    def _per_image(self, seconds: Mapping[str, float]) -> dict[str, float]:
        return {stage: 1e3 * amount / self.num_images for stage, amount in seconds.items()} if self.num_images else {}


class WarmCosts:
    """Those of workers, the first chunk of each left out where there are others: its caches and pages are cold."""

    def __init__(self) -> None:
        self._workers: set[int] = set()
        self._cold, self._warm = Costs(), Costs()

    def add(self, worker: int, num_images: int, *measured: StageClock | ChunkResult) -> None:
        (self._warm if worker in self._workers else self._cold).add(num_images, *measured)
        self._workers.add(worker)

    @property
    def known(self) -> Costs:
        return self._warm if self._warm.num_images else self._cold


class Tally:
    """Fed after each commit. What an image costs is summed over where it went: selected, loaded apart, predicted."""

    def __init__(self, num_predictors: int) -> None:
        """`num_predictors`: processes that predictions come from."""
        self.started = time.monotonic()
        self._num_lanes = num_predictors
        self._commits: list[Commit] = []
        self._selects = Costs()  # a page is read for more images than a short run takes of it
        self._loads = WarmCosts()  # where loading is not done by the process that predicts
        self._results = WarmCosts()
        self._nodes: dict[str, Costs] = defaultdict(Costs)  # of a cluster

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def steady_images_per_second(self) -> float | None:
        return steady_rate(self._commits, self._num_lanes)

    def add_page(self, num_images: int, clock: StageClock) -> None:
        """A page of refs and what selecting it took."""
        self._selects.add(num_images, clock)

    def add(self, result: ChunkResult, clock: StageClock) -> None:
        """A committed chunk and what writing it took."""
        if not result.worker:
            return
        num_images = result.num_images  # of several models each has its own prediction of an image
        if result.node:
            self._nodes[result.node].add(num_images, result)
        if result.num_loaded is not None:
            self._loads.add(result.worker, num_images + result.num_loaded, result, clock)
            return
        self._commits.append(Commit(time.monotonic(), result.worker, num_images))
        if len(self._commits) > MAX_COMMITS:
            self._commits = merged(self._commits)
        self._results.add(result.worker, num_images, result, clock)

    def cpu_ms(self) -> dict[str, float]:
        """CPU milliseconds per image of every stage; empty without images."""
        return self._every(STAGES, Costs.cpu_ms)

    def wall_ms(self) -> dict[str, float]:
        return self._every(STAGES, Costs.wall_ms)

    def wait_ms(self) -> dict[str, float]:
        """Milliseconds per image that the stages waited which can."""
        return self._every(WAITING_STAGES, Costs.wait_ms)

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Images, rate and CPU milliseconds per image of each node of a cluster."""
        return {
            node: {
                "images": costs.num_images,
                "images_per_second": costs.num_images / self.seconds,
                "stages": costs.cpu_ms(),
            }
            for node, costs in sorted(self._nodes.items())
        }

    def _every(self, stages: Iterable[str], ms: Callable[[Costs], dict[str, float]]) -> dict[str, float]:
        """All of the stages, those that none went through with 0."""
        known = [self._selects, self._loads.known, self._results.known]
        if not any(costs.num_images for costs in known[1:]):
            return {}
        sums = dict.fromkeys(stages, 0.0)
        for costs in known:
            _add(sums, ms(costs))
        return sums


def _add(sums: dict[str, float], seconds: Mapping[str, float]) -> None:
    for stage, more in seconds.items():
        sums[stage] += more
