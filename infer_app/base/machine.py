"""The cores and memory that this process may use, and what tells it from other processes.

It reads its CPU affinity and Linux control groups, versions 2 and 1, from the process's group up to the root.
"""

import math
import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PROC = Path("/proc")
ASSUMED_WORKER_BYTES = 400 << 20  # the libraries and a model of average size
KEPT_FREE = 0.1  # share of the memory for the coordinator, the page cache and other programs
BF16_FLAGS = frozenset({"amx_bf16", "avx512_bf16", "bf16"})  # as in /proc/cpuinfo
VNNI_FLAGS = frozenset({"amx_int8", "avx512_vnni", "avx_vnni", "asimddp"})
LEAST_LEFT = 64 << 20  # bytes that may be allocated in any case: the kernel may still find room for them
_UNLIMITED = 1 << 30
_NO_LIMIT = 1 << 60  # bytes: version 1 has a number for it


def usable_cores() -> int:
    """Return the number of cores that this process may use, at least 1; a quota of 1.5 cores counts as 2."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(affinity, _cpu_quota()))


def usable_memory() -> int | None:
    """Return the available bytes of memory: those of the machine, or fewer if a control group limits them."""
    return min((left for left in (_left_in_groups("inactive_file"), _available()) if left is not None), default=None)


def cap_by_memory(num_workers: int, worker_bytes: int | None) -> int:
    """Return the number of workers that fit into memory: at least 1, at most `num_workers`."""
    memory = usable_memory()
    if memory is None:
        return num_workers
    fits = int(memory * (1 - KEPT_FREE)) // (worker_bytes or ASSUMED_WORKER_BYTES)
    return max(1, min(num_workers, fits))


def find_memory_limit() -> int | None:
    """Return the bytes of private memory that this process may have, by what its control group has left now.

    None where no group limits memory. It takes 0.2 ms.
    """
    left, allocated = _left_in_groups("inactive_file", "active_file"), _allocated()
    if left is None or allocated is None:
        return None
    return allocated + max(LEAST_LEFT, int(left * (1 - KEPT_FREE)))


@contextmanager
def kept_within_memory(limit: int | None) -> Iterator[None]:
    """Let this process have only so many bytes of private memory until the `with` block ends; None: no limit.

    What needs more fails alone, by MemoryError. The kernel would end a process instead, or all of the group where
    memory.oom.group is set, as by Kubernetes.
    """
    if limit is None:
        yield
        return
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    least = limit if before == resource.RLIM_INFINITY else min(limit, before)
    resource.setrlimit(resource.RLIMIT_DATA, (least, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def allocatable() -> int | None:
    """Return the bytes that this process may still allocate, or None where nothing limits them."""
    limit, allocated = resource.getrlimit(resource.RLIMIT_DATA)[0], _allocated()
    return None if limit == resource.RLIM_INFINITY or allocated is None else max(0, limit - allocated)


def computes_bf16() -> bool:
    """Return whether the CPU has instructions for bfloat16: Intel's AMX or AVX-512, or ARM's. Nothing is emulated."""
    return bool(BF16_FLAGS & _cpu_flags())


def has_vnni() -> bool:
    """Return whether the CPU sums products of int8 in 32 bits: VNNI, AMX, or ARM's dot products. Others overflow."""
    return bool(VNNI_FLAGS & _cpu_flags())


def process_identity(pid: int) -> str:
    """Return `pid@start time@PID namespace`, which no later process and no process of another container shares.

    `?` stands for an unknown part.
    """
    return f"{pid}@{_start_time(pid)}@{pid_namespace()}"


def _start_time(pid: int) -> str:
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except OSError:
        return "?" if _exists(pid) else "ended"  # /proc may be mounted with hidepid
    fields = after_name.split()
    return "ended" if fields[0] == "Z" else fields[19]  # a zombie has ended and was not reaped yet


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def pid_namespace() -> str:
    """Identify the boot of the kernel and the PID namespace: a container has its own."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        return f"{boot[:8]}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return "?"


def _cpu_flags() -> set[str]:
    return {
        flag
        for key, _, values in (line.partition(":") for line in _read(PROC / "cpuinfo").splitlines())
        if key.strip() in ("flags", "Features")
        for flag in values.split()
    }


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


def _left_in_groups(*freed: str) -> int | None:
    """Return the bytes that the narrowest of the control groups has left, or None without a limit.

    `freed`: kinds of cached file pages, which count as used and are freed when memory is needed.
    """
    found = (left for group in _groups("memory") if (left := _memory_left(group, freed)) is not None)
    return min(found, default=None)


def _allocated() -> int | None:
    """Return the bytes of private memory that this process has mapped, which the kernel compares with RLIMIT_DATA."""
    pages = _read(PROC / "self/statm").split()
    return int(pages[5]) * resource.getpagesize() if pages else None


def _memory_left(group: Path, freed: Sequence[str]) -> int | None:
    for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        with suppress(ValueError):
            if (most := int(_read(group / limit))) >= _NO_LIMIT:
                return None
            stat = dict(line.split(maxsplit=1) for line in _read(group / "memory.stat").splitlines())
            return max(0, most - int(_read(group / used)) + sum(int(stat.get(name, 0)) for name in freed))
    return None


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
