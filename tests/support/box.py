"""A machine as this process sees it in files: its processor, its memory and its control groups."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infer_app.base import machine, packages

MIB = 1 << 20
MANY = 64  # cores that this process may run on
LARGE = 1 << 50  # bytes: a limit that a process can be given, since it never reaches it


class Box:
    """A /proc and a /sys/fs/cgroup of its own."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.cgroups = folder / "proc", folder / "cgroup"
        self.cores = set(range(MANY))
        (self.proc / "self").mkdir(parents=True)
        self.cgroups.mkdir()

    def belongs_to(self, *lines: str) -> None:
        (self.proc / "self/cgroup").write_text("".join(f"{line}\n" for line in lines))

    def group(self, path: str, **files: object) -> None:
        """group("a/b", cpu_max="max 100000") writes a/b/cpu.max: the first underscore is the dot."""
        folder = self.cgroups / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name.replace("_", ".", 1)).write_text(f"{text}\n")

    def has_available(self, num_bytes: int) -> None:
        (self.proc / "meminfo").write_text(f"MemTotal: 999999999 kB\nMemAvailable: {num_bytes >> 10} kB\n")

    def has_allocated(self, num_bytes: int) -> None:
        (self.proc / "self/statm").write_text(f"9 9 9 9 0 {num_bytes // resource.getpagesize()} 0\n")

    def computes(self, *flags: str) -> None:
        (self.proc / "cpuinfo").write_text(f"flags : {' '.join(flags)}\n")


@contextmanager
def open_box(folder: Path) -> Iterator[Box]:
    """Yield a box that this process runs in until the `with` block ends, with the limits that it had before."""
    box, before = Box(folder), resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.MonkeyPatch.context() as monkeypatch:
        for module in (machine, packages):
            monkeypatch.setattr(module, "PROC", box.proc)
        monkeypatch.setattr(machine, "CGROUPS", box.cgroups)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: box.cores)
        yield box
    resource.setrlimit(resource.RLIMIT_DATA, before)


@pytest.fixture
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with open_box(tmp_path_factory.mktemp("box")) as box:
        yield box
