"""The cores and memory that this process may use, by its CPU affinity and the limits of its control group.

It reads Linux control groups, versions 2 and 1, from the process's group up to the root.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PROC = Path("/proc")
ASSUMED_WORKER_BYTES = 400 << 20  # until one is measured: torch, OpenVINO and a model of average size
KEPT_FREE = 0.1  # share of the memory for the coordinator, the page cache and other programs
BF16_FLAGS = frozenset({"amx_bf16", "avx512_bf16", "bf16"})  # as in /proc/cpuinfo
_UNLIMITED = 1 << 30


def usable_cores() -> int:
    """Return the number of cores that this process may use, at least 1; a quota of 1.5 cores counts as 2."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(affinity, _cpu_quota()))


def usable_memory() -> int | None:
    """Return the available bytes of memory: those of the machine, or fewer if a control group limits them."""
    found = [left for group in _groups("memory") if (left := _memory_left(group)) is not None]
    if (available := _available()) is not None:
        found.append(available)
    return min(found, default=None)


def cap_by_memory(num_workers: int, worker_bytes: int | None) -> int:
    """Return the number of workers that fit into memory: at least 1, at most `num_workers`."""
    memory = usable_memory()
    if memory is None:
        return num_workers
    fits = int(memory * (1 - KEPT_FREE)) // (worker_bytes or ASSUMED_WORKER_BYTES)
    return max(1, min(num_workers, fits))


def computes_bf16() -> bool:
    """Return whether the CPU has instructions for bfloat16: Intel's AMX or AVX-512, or ARM's. Nothing is emulated."""
    flags = {
        flag
        for key, _, values in (line.partition(":") for line in _read(PROC / "cpuinfo").splitlines())
        if key.strip() in ("flags", "Features")
        for flag in values.split()
    }
    return bool(BF16_FLAGS & flags)


def _cpu_quota() -> int:
    """Return the quota in whole cores, rounded up, or a very large number without a quota."""
    quotas = [quota for group in _groups("cpu") if (quota := _quota_of(group)) is not None]
    return math.ceil(min(quotas, default=_UNLIMITED))


def _quota_of(group: Path) -> float | None:
    words = _read(group / "cpu.max").split()
    if not words:
        words = [_read(group / "cpu.cfs_quota_us").strip(), _read(group / "cpu.cfs_period_us").strip()]
    with suppress(ValueError, IndexError, ZeroDivisionError):
        quota = int(words[0]) / int(words[1])
        return quota if quota > 0 else None
    return None


def _memory_left(group: Path) -> int | None:
    for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        with suppress(ValueError):
            return max(0, int(_read(group / limit)) - int(_read(group / used)) + _reclaimable(group))
    return None


def _reclaimable(group: Path) -> int:
    """Return the bytes of cached file pages, which count as used and are freed when memory is needed."""
    stat = dict(line.split(maxsplit=1) for line in _read(group / "memory.stat").splitlines())
    return int(stat.get("inactive_file", 0))


def _available() -> int | None:
    for line in _read(PROC / "meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return None


def _groups(controller: str) -> Iterator[Path]:
    """Yield the folders of this process's control group and its parents, innermost first."""
    for line in _read(PROC / "self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = CGROUPS / controllers if controllers else CGROUPS
        inner = root / path.strip("/")
        yield from (folder for folder in (inner, *inner.parents) if folder.is_relative_to(root) and folder.is_dir())


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
