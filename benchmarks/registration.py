"""Measure what a run does first where folders are watched: finding and registering a million empty files.

Each pass is a process of its own, whose fork server runs already, as a run needs it anyway. "Known" is the pass of
every night: nothing is new. Seconds of the clock depend on what else the machine does, CPU seconds hardly.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from infer_app.base.day import Day
from infer_app.base.settings.load import load_settings
from infer_app.cli.project.project import watching, write_config
from infer_app.predict.workers.isolated_call import run_in_process
from infer_app.run.files.watched_folders import register_new

FILES_IN_A_FOLDER = 1000
PASSES = ("new", "known", "known")


def main() -> None:
    flags = read_flags()
    if flags.project:
        print(json.dumps(measure(flags.project)))
        return
    lines = [f"| {flags.num_files:,} files | registered | s | CPU s | peak MiB | MiB more than at the start |"]
    lines += ["|---|---:|---:|---:|---:|---:|"]
    with tempfile.TemporaryDirectory(prefix="infer-registration-") as folder:
        write_config(Path(folder), watching("photos"))
        make_files(Path(folder) / "photos", flags.num_files)
        for name in PASSES:
            command = [sys.executable, __file__, "--project", folder]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            cells = (f"{found['added']:,}", f"{found['s']:.1f}", f"{found['cpu_s']:.1f}")
            lines.append(f"| {name} | {' | '.join(cells)} | {found['peak_mib']} | {found['more_mib']} |")
    machine = describe_machine()
    lines += ["", f"{machine['processor']}, {machine['cores']} cores, SQLite, Python {machine['python']};"]
    lines += [f"load of the machine at the end, this program included: {os.getloadavg()[0]:.1f};"]
    lines += [f"`python benchmarks/registration.py -n {flags.num_files}`, {date.today().isoformat()}"]
    print("\n".join(lines))


def make_files(folder: Path, count: int) -> None:
    """Make empty files of yesterday, FILES_IN_A_FOLDER in each folder."""
    yesterday = time.time() - 86400
    for first in range(0, count, FILES_IN_A_FOLDER):
        below = folder / f"{first // FILES_IN_A_FOLDER:05}"
        below.mkdir(parents=True)
        for number in range(first, min(count, first + FILES_IN_A_FOLDER)):
            name = f"{below}/IMG_{number:07}.jpg"
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644))
            os.utime(name, (yesterday, yesterday))


def measure(project: Path) -> dict[str, float]:
    loaded, today = load_settings(project / "infer.toml"), Day.of(date.today(), "UTC")
    run_in_process(peak_mib)
    before, start, cpu_start = peak_mib(), time.perf_counter(), time.process_time()
    found = register_new(loaded, [today.before(4), today.before(1)], lambda: None)
    assert found is not None
    times = {"s": time.perf_counter() - start, "cpu_s": time.process_time() - cpu_start}
    return times | {"added": found.added, "peak_mib": peak_mib(), "more_mib": peak_mib() - before}


def peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--num-files", type=int, default=1_000_000)
    parser.add_argument("--project", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
