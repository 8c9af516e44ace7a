"""Description of the machine, and the share of it that other programs use."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from processes import busy_seconds

BUSY = 0.1  # share used by others from which on a run is marked, and repeated until the patience has ended
SAMPLE_S = 3


class Measured(Protocol):
    @property
    def others(self) -> float: ...


M = TypeVar("M", bound=Measured)


def undisturbed(measure: Callable[[], M], patience_s: float) -> M:
    """Return the result of `measure`, repeated until the machine was quiet meanwhile or `patience_s` has passed."""
    deadline = time.monotonic() + patience_s
    while True:
        while time.monotonic() < deadline and _share_taken() >= BUSY:
            pass
        measured = measure()
        if measured.others < BUSY or time.monotonic() >= deadline:
            return measured


def describe_machine() -> dict[str, str]:
    import torch

    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def _share_taken() -> float:
    """Return the share of the machine that is used over the next SAMPLE_S seconds, while this process sleeps."""
    before = busy_seconds()
    time.sleep(SAMPLE_S)
    return (busy_seconds() - before) / SAMPLE_S / (os.cpu_count() or 1)
