"""Compare the `ray` executor with the `cpu` executor and a simple Ray Data pipeline, on the cores of one machine.

Photos, network, turns and timing are those of peers.py. On one machine Ray can only add overhead, which this measures.
`once running` leaves out start-up, which on a cluster happens once per run.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from statistics import median

from contestants import Contest, Project
from machine import describe_machine
from peers import MIB, RESULTS, prepare
from timing import Run

CPU, RAY, RAY_DATA = "infer run --executor cpu", "infer run --executor ray", "Ray Data"


def main() -> None:
    flags = read_flags()
    with tempfile.TemporaryDirectory(prefix="infer-bench-", dir=flags.scratch) as folder:
        project = prepare(Path(folder), Contest(flags.cores), flags)
        turns = contestants(project)
        played: dict[str, list[Run]] = {name: [] for name in turns}
        for number in range(flags.rounds):
            for name in list(turns)[:: -1 if number % 2 else 1]:
                played[name].append(turns[name]())
                last = played[name][-1]
                print(f"{name}: {last.steady_rate:.1f} images/s, others took {last.others:.0%}", flush=True)
    table = render(played, flags.num_photos)
    print(table)
    if flags.save:
        (RESULTS / "scale-out.md").write_text(f"# The ray executor on one machine\n\n{table}\n")


def contestants(project: Project) -> dict[str, Callable[[], Run]]:
    on_ray = replace(project, contest=replace(project.contest, executor="ray"))
    (stock,) = [program for program in project.contest.programs() if program.name == RAY_DATA]
    return {
        CPU: project.run_infer,
        RAY: on_ray.run_infer,
        RAY_DATA: lambda: project.run_program(stock, stock.start),
    }


def render(played: dict[str, list[Run]], num_photos: int) -> str:
    """Return a table of medians; ratios are taken within a round, since the speed of a shared machine changes."""
    heads = [
        "images/s",
        "once running",
        "of the cpu executor",
        "CPU s per 1,000",
        "peak memory, MiB",
        "taken by others",
    ]
    lines = [f"| {num_photos:,} photos | {' | '.join(heads)} |", "|---" + "|---:" * len(heads) + "|"]
    for name, runs in played.items():
        ratios = [run.steady_rate / cpu.steady_rate for run, cpu in zip(runs, played[CPU], strict=True)]
        cells = (
            f"{median(num_photos / run.seconds for run in runs):.1f}",
            f"{median(run.steady_rate for run in runs):.1f}",
            f"{median(ratios):.2f} ({', '.join(f'{ratio:.2f}' for ratio in ratios)})",
            f"{median(1000 * run.cpu_seconds / num_photos for run in runs):.1f}",
            f"{median(run.peak_pss for run in runs) / MIB:.0f}",
            f"{median(run.others for run in runs):.0%}",
        )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    same = {name: runs[-1].labels == played[CPU][-1].labels for name, runs in played.items()}
    machine = describe_machine()
    tail = f"The labels of both executors are {'equal' if same[RAY] else 'NOT EQUAL'}. {machine['processor']} "
    tail += f"({machine['instructions']}), {machine['cores']} cores; Python {machine['python']}, "
    return "\n".join([*lines, "", f"{tail}torch {machine['torch']}; {date.today().isoformat()}"])


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--num-photos", type=int, default=5000)
    parser.add_argument("--photos", type=Path, help="folder of JPEG files, repeated until there are enough")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--scratch", type=Path, help="folder for temporary photos and databases")
    parser.add_argument("--save", action="store_true", help="write results/scale-out.md")
    return parser.parse_args(namespace=argparse.Namespace(large=False))


if __name__ == "__main__":
    main()
