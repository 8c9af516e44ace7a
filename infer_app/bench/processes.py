"""What a program costs: seconds, CPU seconds and memory of its whole process tree, read from /proc."""

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
LOOK_EVERY_S = 0.2
REAP_WITHIN_S = 10
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h: orphans become ours, so that their CPU time is counted
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcessCost:
    """One program from its start to its end, and all the processes it started."""

    seconds: float
    cpu_seconds: float
    peak_pss: int  # bytes; memory that processes share is counted once
    others: float  # share of the machine's cores that anything else had meanwhile, 0-1
    exit_code: int
    output: str
    errors: str


def run_measured(
    command: Sequence[str],
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    given: str = "",
    cores: Collection[int] | None = None,
    timeout_s: float | None = None,
) -> ProcessCost:
    """Runs it to its end with `given` on standard input, on these cores only. One at a time.

    Raises subprocess.TimeoutExpired, after killing it and what it started.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    cpu_before, busy_before, started = _cpu_seconds_of_ended_children(), busy_seconds(), time.perf_counter()
    with _Watch() as watch, _only_on(cores):
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
            output, errors = program.communicate(given, timeout_s)
        finally:
            seconds = time.perf_counter() - started
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGKILL)
                program.communicate()
            _reap_orphans(watch)
    # A parent that ignores how its children end, as Ray's does, loses their CPU time: then what was seen counts.
    cpu_seconds = max(_cpu_seconds_of_ended_children() - cpu_before, watch.cpu_seconds)
    others = max(0.0, busy_seconds() - busy_before - cpu_seconds) / seconds / (os.cpu_count() or 1)
    return ProcessCost(seconds, cpu_seconds, watch.peak_pss, others, program.returncode, output, errors)


def busy_seconds() -> float:
    """CPU seconds of all processes since the machine started, with what its host gave to other machines (proc(5))."""
    fields = (PROC / "stat").read_text().split("\n", 1)[0].split()
    user, nice, system, _, _, irq, softirq, steal = map(int, fields[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_S


def tree_cpu_seconds(root: int) -> float:
    """CPU seconds so far of a process, its living descendants, and those they have waited for; in steps of 10 ms."""
    return sum(_cpu_ticks(pid) for pid in [root, *descendants(root)]) / TICKS_PER_S


def descendants(root: int) -> list[int]:
    """Children of a process, their children, and so on, as of now."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat_fields(int(entry.name))):
            children[int(fields[1])].append(int(entry.name))
    found = [root]
    for pid in found:  # grows while it is gone through
        found += children[pid]
    return found[1:]


def total_pss(pids: Sequence[int]) -> int:
    """Bytes of memory; of a page that k processes share, each has the k-th part."""
    return sum(_pss(pid) for pid in pids)


class _Watch:
    """Looks at our descendants from time to time, from the `with` on; those that were there before don't count."""

    def __init__(self) -> None:
        self.peak_pss = 0  # bytes, of all of them together
        self._strangers = frozenset(descendants(os.getpid()))
        self._ticks: dict[int, int] = {}  # CPU time of each process when it was last seen
        self._is_over = threading.Event()
        self._looker = threading.Thread(target=self._look_again_and_again, daemon=True)

    def family(self) -> list[int]:
        return [pid for pid in descendants(os.getpid()) if pid not in self._strangers]

    @property
    def cpu_seconds(self) -> float:
        return sum(self._ticks.values()) / TICKS_PER_S

    def __enter__(self) -> _Watch:
        self._looker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._looker.join()

    def _look_again_and_again(self) -> None:
        while not self._is_over.wait(LOOK_EVERY_S):
            family = self.family()
            self.peak_pss = max(self.peak_pss, total_pss(family))
            self._ticks.update({pid: ticks for pid in family if (ticks := _own_ticks(pid))})


@contextmanager
def _only_on(cores: Collection[int] | None) -> Iterator[None]:
    """A child inherits the cores of the thread that starts it, so ours are lent for as long as it runs."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before if cores is None else cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _reap_orphans(watch: _Watch) -> None:
    """Waits for processes that outlived the one that started them, such as multiprocessing's fork server."""
    deadline = time.monotonic() + REAP_WITHIN_S
    while time.monotonic() < deadline:
        orphans = watch.family()
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
    """Fields 3 and on of /proc/PID/stat (proc(5)): state, parent, …; none of a process that has ended."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()  # the name before it may hold anything


def _own_ticks(pid: int) -> int:
    return sum(map(int, _stat_fields(pid)[11:13]))  # user and system


def _cpu_ticks(pid: int) -> int:
    return sum(map(int, _stat_fields(pid)[11:15]))  # and both of children that were waited for


def _pss(pid: int) -> int:
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended, or is someone else's
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
