"""Show what `infer run` does from its start to its first rows, as a picture.

The system calls of the run and of its processes are recorded by strace, a package of Debian; recording makes a run a
tenth slower. A step begins and ends with a file that is opened, a process that is started, or a write.

    python benchmarks/first_second.py --save
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from statistics import median

from contestants import DATE, INFER, Contest, Project
from machine import describe_machine
from photos import collect_photos, find_photos

RESULTS = Path(__file__).resolve().parent / "results" / "first-second.md"
CORES = 2
MS_PER_MARK = 20
# The words of the system call that begins a moment; the last is looked for after the first photo.
MOMENTS = {
    "start": "execve(",
    "server": "from multiprocessing.forkserver",
    "settings": "/infer.toml",
    "database": "/infer.db",
    "openvino": "_pyopenvino",
    "network": "/model.xml",
    "golden": "/golden/outputs.npy",
    "photo": "/photos/",
    "rows": "pwrite64(",
}
STEPS = (
    ("run: Python, options", "start", "server"),
    ("run: SQLAlchemy, pydantic, the package", "server", "settings"),
    ("run: settings, network's folder", "settings", "database"),
    ("run: database, look-back, images of the day", "database", "network"),
    ("server: NumPy, Pillow, up to OpenVINO", "server", "openvino"),
    ("worker: compile the network", "network", "golden"),
    ("worker: golden images", "golden", "photo"),
    ("worker, run: first chunk to first rows", "photo", "rows"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=300, help="photos")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="infer-bench-") as folder:
        project = Project(Path(folder), Contest(CORES))
        collect_photos(find_photos(), project.photos, flags.n)
        project.set_up(find_photos() or Path(folder) / "originals")
        runs = [dict(moments(trace(project))) for _ in range(flags.rounds)]
    text = describe(runs)
    print(text)
    if flags.save:
        RESULTS.write_text(text)


def trace(project: Project) -> list[str]:
    record = project.folder / "strace.txt"
    command = ["strace", "-f", "--seccomp-bpf", "-ttt", "-e", "trace=execve,openat,pwrite64", "-o", str(record)]
    project.fresh("infer.db")
    command += [str(INFER), "run", "--date", DATE, "--executor", "cpu"]
    subprocess.run(command, cwd=project.folder, check=True, capture_output=True)
    return record.read_text(errors="replace").splitlines()


def moments(lines: list[str]) -> Iterator[tuple[str, float]]:
    """Yield each moment with its milliseconds since the start. Files that are looked for in vain don't count."""
    start, waited = float(lines[0].split()[1]), dict(MOMENTS)
    for line in lines:
        _, at, call = line.split(maxsplit=2)
        for name, words in list(waited.items()):
            if words in call and "ENOENT" not in call and (name != "rows" or "photo" not in waited):
                del waited[name]
                yield name, 1000 * (float(at) - start)


def describe(runs: list[dict[str, float]]) -> str:
    middle = {name: median(run[name] for run in runs) for name in MOMENTS}
    lines = ["# The first second of `infer run`", "", "| from, ms | to, ms | |", "|---:|---:|---|"]
    lines += [f"| {middle[begin]:.0f} | {middle[end]:.0f} | {name} |" for name, begin, end in STEPS]
    lines += ["", "```"]
    for name, begin, end in STEPS:
        first, last = (round(middle[moment] / MS_PER_MARK) for moment in (begin, end))
        lines.append(f"{name:44}|{' ' * first}{'#' * max(1, last - first)}")
    machine = describe_machine()
    lines += [
        "```",
        "",
        f"A mark is {MS_PER_MARK} ms; medians of {len(runs)} runs under strace; EfficientNet-Lite0.",
    ]
    lines.append(f"{machine['processor']} ({machine['instructions']}), {CORES} cores; {date.today()}")
    return "\n".join([*lines, "", "Again: `python benchmarks/first_second.py --save`", ""])


if __name__ == "__main__":
    main()
