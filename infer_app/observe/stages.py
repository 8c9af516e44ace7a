"""What each stage costs, and the rate that the cores could reach at that cost."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

STAGES = ("read", "decode", "transform", "collate", "model", "outputs", "write")
ADVICE = {
    "read": "the storage limits",
    "decode": "decoding limits",
    "transform": "resizing limits",
    "model": "the model limits",
    "write": "the database limits",
}


class StageClock:
    """CPU seconds of this thread, summed by stage: waiting for a disk or a lock costs none."""

    def __init__(self) -> None:
        self.cpu_seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def time(self, stage: str) -> Iterator[None]:
        start = time.thread_time()
        try:
            yield
        finally:
            self.cpu_seconds[stage] += time.thread_time() - start


def cost_per_image(cpu_seconds: Mapping[str, float], num_images: int) -> dict[str, float]:
    """CPU milliseconds per image of each stage."""
    return {stage: 1e3 * cpu_seconds.get(stage, 0.0) / num_images for stage in STAGES} if num_images else {}


def limit_images_per_second(stages: Mapping[str, float], num_cores: int) -> float | None:
    """cores / Σ cost: on a CPU all stages share the same cores, so their costs add up."""
    total_ms = sum(stages.values())
    return 1e3 * num_cores / total_ms if total_ms > 0 else None


def name_the_limit(stages: Mapping[str, float]) -> str:
    """The dearest stage, in words."""
    dearest = max(stages, key=stages.__getitem__, default="model")
    return ADVICE.get(dearest, f"{dearest} limits")
