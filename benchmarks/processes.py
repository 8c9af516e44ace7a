"""Measure a program's seconds, CPU seconds and memory, of its whole process tree, by /proc."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
SAMPLE_EVERY_S = 0.2
MEMORY_SHARE = 0.005  # of a core, for reading the memory of large processes: the program needs the cores
REAP_TIMEOUT_S = 10
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h: orphans become our children, so that their CPU time is counted
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcessCost:
    """The cost of a program, including all processes that it started, and its output."""

    seconds: float
    cpu_seconds: float
    peak_pss: int  # bytes; memory that processes share is counted once
    others: float  # share of the machine's cores that other programs used meanwhile, 0-1
    exit_code: int
    output: str
    errors: str


def run_measured(
    command: Sequence[str],
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    stdin: str = "",
    cores: Collection[int] | None = None,
    timeout_s: float | None = None,
) -> ProcessCost:
    """Run a program to its end with `stdin` as its input, only on `cores`; call it in one thread at a time.

    Raises subprocess.TimeoutExpired after killing the program and the processes that it started.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    cpu_before, busy_before, started = _cpu_seconds_of_ended_children(), busy_seconds(), time.perf_counter()
    with _Sampler() as sampler, _pinned_to(cores):
        program = subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            output, errors = program.communicate(stdin, timeout_s)
        finally:
            seconds = time.perf_counter() - started
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGKILL)
                program.communicate()
            _reap_orphans(sampler)
    # A parent that does not wait for its children, as Ray's, loses their CPU time: then the samples count.
    cpu_seconds = max(_cpu_seconds_of_ended_children() - cpu_before, sampler.cpu_seconds)
    others = max(0.0, busy_seconds() - busy_before - cpu_seconds) / seconds / (os.cpu_count() or 1)
    return ProcessCost(seconds, cpu_seconds, sampler.peak_pss, others, program.returncode, output, errors)


def busy_seconds() -> float:
    """Return the CPU seconds of all processes since boot, including those stolen by the host (proc(5))."""
    fields = (PROC / "stat").read_text().split("\n", 1)[0].split()
    user, nice, system, _, _, irq, softirq, steal = map(int, fields[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_S


def tree_cpu_seconds(root: int) -> float:
    """Return the CPU seconds of a process, its descendants and those they have waited for, in steps of 10 ms."""
    return sum(_cpu_ticks(pid) for pid in [root, *descendants(root)]) / TICKS_PER_S


def descendants(root: int) -> list[int]:
    """Return the present children of a process, their children, and so on."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat_fields(int(entry.name))):
            children[int(fields[1])].append(int(entry.name))
    found = [root]
    for pid in found:  # grows during the loop
        found += children[pid]
    return found[1:]


def total_pss(pids: Sequence[int]) -> int:
    """Return the bytes of memory of processes; a page that k processes share counts 1/k for each."""
    return sum(_pss(pid) for pid in pids)


class _Sampler:
    """A thread that samples the processes that this one starts, directly or not, inside its `with` block."""

    def __init__(self) -> None:
        self.peak_pss = 0  # bytes, of all of them together
        self._earlier = frozenset(descendants(os.getpid()))
        self._ticks: dict[int, int] = {}  # CPU time of each process when it was last seen
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_repeatedly, daemon=True)

    def processes(self) -> list[int]:
        return [pid for pid in descendants(os.getpid()) if pid not in self._earlier]

    @property
    def cpu_seconds(self) -> float:
        return sum(self._ticks.values()) / TICKS_PER_S

    def __enter__(self) -> _Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample_repeatedly(self) -> None:
        next_memory = 0.0  # time.monotonic()
        while not self._stop.wait(SAMPLE_EVERY_S):
            running = self.processes()
            if time.monotonic() >= next_memory:
                started = time.thread_time()
                self.peak_pss = max(self.peak_pss, total_pss(running))
                next_memory = time.monotonic() + (time.thread_time() - started) / MEMORY_SHARE
            self._ticks.update({pid: ticks for pid in running if (ticks := _own_ticks(pid))})


@contextmanager
def _pinned_to(cores: Collection[int] | None) -> Iterator[None]:
    """Pin this thread to `cores` meanwhile, because a child inherits the cores of the thread that starts it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before if cores is None else cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _reap_orphans(sampler: _Sampler) -> None:
    """Wait for processes that outlive the one that started them, such as multiprocessing's fork server."""
    deadline = time.monotonic() + REAP_TIMEOUT_S
    while time.monotonic() < deadline:
        orphans = sampler.processes()
        if not orphans:
            return
        for pid in orphans:
            with contextlib.suppress(ChildProcessError):  # the child of another orphan
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)


def _cpu_seconds_of_ended_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third on (state, parent, …); none if the process has ended."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()  # the name before it may contain anything


def _own_ticks(pid: int) -> int:
    return sum(map(int, _stat_fields(pid)[11:13]))  # user and system


def _cpu_ticks(pid: int) -> int:
    return sum(map(int, _stat_fields(pid)[11:15]))  # and both of children that were waited for


def _pss(pid: int) -> int:
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended, or belongs to another user
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
