"""Compare `infer run` with programs written without it, on torch's DataLoader, SPDL, Ray Data and OpenVINO alone.

All use the same photos, the same TorchScript file and the same kind of database. Each run is a separate process, timed
from start to exit: interpreter, imports, loading the network, every commit. The programs take turns and ratios are
taken within each round, because the speed of a shared machine changes by the minute. Each program's best setting is
searched first, so that a row shows what its approach can reach.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import sys
import tempfile
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from contestants import DECODERS, RUNTIMES, Contest, Program, Project, Setting, find_setting, infer_report
from machine import BUSY, describe_machine, undisturbed
from networks import NETWORKS
from photos import collect_large_photos, collect_photos, find_photos
from references import shares
from timing import ProgramFailed, Run

RESULTS = Path(__file__).resolve().parent / "results"
OURS = "infer run"
OURS_FULL = "infer run --precision full"  # beside half or int8
REFERENCE_PHOTOS = 1000  # whose labels are compared
MIB = 1 << 20

Round = dict[str, Run]  # by contestant


def main() -> None:
    try:
        compare(read_flags())
    except ProgramFailed as error:
        raise SystemExit(str(error)) from None


def compare(flags: argparse.Namespace) -> None:
    contest = Contest(flags.cores, flags.network, flags.precision, flags.scaled)
    with tempfile.TemporaryDirectory(prefix="infer-bench-", dir=flags.scratch) as folder:
        project = prepare(Path(folder), contest, flags)
        programs = [program for program in contest.programs() if is_wanted(program, flags.only)]
        settings = {program: find_best(project, program, flags) for program in programs}
        rounds, references = [], []
        for number in range(1, flags.rounds + 1):
            rounds.append(play(project, settings, number, flags.patience))
            ours = rounds[-1][OURS]
            references.append(shares(project, infer_report(ours), ours.seconds))
        plainest = contest.programs()[0]  # Pillow and the TorchScript file as it is
        if plainest in settings:
            reference = rounds[-1][plainest.name].labels
        else:
            reference = project.run_program(plainest, plainest.start, REFERENCE_PHOTOS).labels
    result = summarise(rounds, references, settings, reference, flags)
    table = render(result)
    print(table)
    if flags.save:
        save(table, flags, result["contest"])


def prepare(folder: Path, contest: Contest, flags: argparse.Namespace) -> Project:
    project = Project(folder, contest)
    source = flags.photos or find_photos()
    kind = " of 12 megapixels made" if flags.large else ""
    print(f"{flags.num_photos:,} photos{kind} from {source or 'scikit-image'}", flush=True)
    (collect_large_photos if flags.large else collect_photos)(source, project.photos, flags.num_photos)
    project.set_up(source or folder / "originals")
    return project


def is_wanted(program: Program, only: list[str]) -> bool:
    if only and not any(word.lower() in program.name.lower() for word in only):
        return False
    if not program.is_installed:
        print(f"{program.name}: skipped, {program.package} is not installed: make bench")
    return program.is_installed


def find_best(project: Project, program: Program, flags: argparse.Namespace) -> Setting:
    """Return the setting with the highest steady rate, or the initial one without a search."""
    if not flags.search:
        return program.start

    def rate(setting: Setting) -> float:
        try:
            run = undisturbed(partial(project.run_program, program, setting, flags.search), flags.patience)
        except ProgramFailed as error:
            print(f"{program.name}, {setting}: failed: {str(error).strip().splitlines()[-1][:200]}", flush=True)
            return 0.0
        print(f"{program.name}, {setting}: {_rate(run.steady_rate)} images/s{_marked(run)}", flush=True)
        return run.steady_rate

    return find_setting(program, rate)


def play(project: Project, settings: dict[Program, Setting], number: int, patience_s: float) -> Round:
    """Run every program once; every other round in the opposite order."""
    turns = {OURS: project.run_infer}
    if project.contest.precision != "full":
        turns[OURS_FULL] = partial(project.run_infer, "full")
    turns |= {program.name: partial(project.run_program, program, setting) for program, setting in settings.items()}
    played = {name: undisturbed(turns[name], patience_s) for name in list(turns)[:: 1 if number % 2 else -1]}
    times = ", ".join(f"{name} {run.seconds:.1f} s{_marked(run)}" for name, run in played.items())
    print(f"round {number}: {times}", flush=True)
    return {name: played[name] for name in turns}


def summarise(
    rounds: list[Round],
    references: list[dict[str, float]],
    settings: dict[Program, Setting],
    reference: dict[int, str],
    flags: argparse.Namespace,
) -> dict[str, Any]:
    set_up = {program.name: str(setting) for program, setting in settings.items()}
    stacks = {program.name: setting.stack for program, setting in settings.items()}
    for name in {OURS, OURS_FULL} & rounds[-1].keys():
        ours = infer_report(rounds[-1][name])
        set_up[name] = f"{ours['variant']}, {ours['num_workers']} workers"
        stacks[name] = infer_stack(ours["variant"], flags.scaled)
    kinds = (flags.network, flags.precision, "large" if flags.large else "", "scaled" if flags.scaled else "")
    return {
        "date": date.today().isoformat(),
        "machine": describe_machine(),
        "num_photos": flags.num_photos,
        "cores": flags.cores,
        "contest": [kind for kind in kinds if kind not in ("", "lite0", "full")],
        "contestants": {
            name: {"stack": stacks[name], "setting": set_up[name], **contestant(name, rounds, reference)}
            for name in rounds[0]
        },
        "infer_stages_ms": infer_report(rounds[-1][OURS])["stages"],
        "references": references,
    }


def contestant(name: str, rounds: list[Round], reference: dict[int, str]) -> dict[str, Any]:
    """Return the figures of each round; `ratios` are the program's time divided by that of infer."""
    runs = [played[name] for played in rounds]
    keys = ("seconds", "cpu_seconds", "peak_pss", "first_rows_s", "steady_rate", "others")
    return {
        **{key: [getattr(run, key) for run in runs] for key in keys},
        "ratios": [played[name].seconds / played[OURS].seconds for played in rounds],
        "same_label": agreement(reference, runs[-1].labels),
    }


def infer_stack(variant: str, scaled: str | None) -> str:
    """Return decoder, runtime and precision of a CPU variant such as cpu-openvino-bf16."""
    runtime = variant.replace("cpu-openvino-", "OpenVINO, ").replace("cpu-torchscript", RUNTIMES["fused"])
    return f"{DECODERS['scaled' if scaled else 'turbo']}; {runtime}"


def agreement(reference: dict[int, str], labels: dict[int, str]) -> float:
    """Return the share of photos with the reference's label; a photo without a label counts as different."""
    return sum(labels.get(image) == label for image, label in reference.items()) / len(reference)


def render(result: dict[str, Any]) -> str:
    """Return a Markdown table of the medians of the rounds, also readable on a terminal."""
    num_photos, machine = result["num_photos"], result["machine"]
    headings = (
        f"{num_photos:,} photos, {result['cores']} cores | decoder; runtime, precision | images/s | … once running | "
        "infer is faster by | CPU s per 1,000 | peak memory, MiB | first rows, s | taken by others | same label"
    )
    lines = ["", f"| {headings} |", "|---|---" + "|---:" * (headings.count("|") - 1) + "|"]
    for name, figures in result["contestants"].items():
        middle = {key: statistics.median(values) for key, values in figures.items() if isinstance(values, list)}
        cells = (
            name,
            figures["stack"],
            _rate(num_photos / middle["seconds"]),
            _rate(middle["steady_rate"]),
            "" if name == OURS else f"{middle['ratios']:.2f}",
            f"{1000 * middle['cpu_seconds'] / num_photos:.1f}",
            f"{middle['peak_pss'] / MIB:.0f}",
            f"{middle['first_rows_s']:.1f}",
            f"{middle['others']:.0%}",
            f"{figures['same_label']:.1%}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *(f"- {name}: {figures['setting']}" for name, figures in result["contestants"].items()), ""]
    lines += [
        f"{name}: ratios of the rounds {', '.join(f'{ratio:.2f}' for ratio in figures['ratios'])}"
        for name, figures in result["contestants"].items()
        if name != OURS
    ]
    return "\n".join(
        [
            *lines,
            "",
            *_reference_lines(result["references"]),
            "",
            "infer's CPU ms per image: "
            + ", ".join(f"{name} {ms:.2f}" for name, ms in result["infer_stages_ms"].items()),
            f"{machine['processor']} ({machine['instructions']}), {machine['cores']} cores; "
            f"Python {machine['python']}, torch {machine['torch']}; {result['date']}",
        ]
    )


def _reference_lines(references: list[dict[str, float]]) -> list[str]:
    """Return our shares of what the libraries and the cores allow, as medians of the rounds."""
    middle = {key: statistics.median(one[key] for one in references) for key in references[0]}
    tools = {"model": "OpenVINO's benchmark_app (throughput hint, our graph, precision and batch size)"}
    tools |= {"decode": "a loop that only decodes, by libjpeg-turbo"}
    lines = [
        f"- {tool}: {_rate(middle[f'{stage}_reference'])} images/s; "
        f"our stage {stage} is at {middle[f'{stage}_share']:.1%}"
        for stage, tool in tools.items()
        if f"{stage}_reference" in middle
    ]
    return [
        *lines,
        f"- cores / sum of our stages' CPU time: {_rate(middle['limit'])} images/s; infer run is at "
        f"{middle['share_of_limit']:.1%} once running, {middle['whole_share_of_limit']:.1%} with its start",
    ]


def save(table: str, flags: argparse.Namespace, contest: list[str]) -> None:
    """Write the page of this kind of contest, whose former figures git has."""
    cores = [] if flags.cores == len(os.sched_getaffinity(0)) else [f"{flags.cores}cores"]
    everyone = [] if flags.only else ["all"]
    file = RESULTS / f"{'-'.join(['peers', *contest, *cores, *everyone])}.md"
    command = f"`python benchmarks/peers.py {shlex.join(sys.argv[1:])}`"
    file.write_text(f"# infer run against its peers\n{table}\n\n{command}\n")
    print(f"saved as {file}")


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--num-photos", type=int, default=1000)
    parser.add_argument("--photos", type=Path, help="folder of JPEG files, repeated until there are enough")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[], help="peers with one of these words in their name")
    parser.add_argument(
        "--cores", type=int, default=len(os.sched_getaffinity(0)), help="number of cores that a program may use"
    )
    parser.add_argument(
        "--network", choices=NETWORKS, default="lite0", help="null: of negligible cost, to measure loading"
    )
    parser.add_argument(
        "--precision",
        choices=("full", "half", "int8"),
        default="full",
        help="of infer run; int8 is calibrated on the photos",
    )
    parser.add_argument("--large", action="store_true", help="photos of 12 megapixels")
    parser.add_argument(
        "--scaled",
        nargs="?",
        const="ours",
        choices=("ours", "all"),
        help="who may decode JPEGs at a fraction of their size",
    )
    parser.add_argument("--search", type=int, default=256, help="photos per trial; 0: use settings known to be good")
    parser.add_argument("--patience", type=float, default=0, help="seconds to wait before, or repeat, a disturbed run")
    parser.add_argument("--scratch", type=Path, help="folder for temporary photos and databases")
    parser.add_argument("--save", action="store_true", help="write results/peers….md")
    return parser.parse_args()


def _rate(rate: float) -> str:
    return f"{rate:.1f}" if rate >= 10 else f"{rate:.3f}"


def _marked(run: Run) -> str:
    return f" (others took {run.others:.0%} of the machine)" if run.others >= BUSY else ""


if __name__ == "__main__":
    main()
