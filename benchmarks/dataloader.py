"""`infer run` against a plain torch DataLoader: same photos, same TorchScript file, same kind of database.

Each run is a process of its own, timed from its start to its end: interpreter, imports, loading the model, the
golden check, every commit. The two take turns and the ratio is taken within each round, because the speed of a
shared machine changes by the minute. The DataLoader is given its best setting, found by trying some.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from contestants import Project, Setting, stage_costs
from machine import BUSY, describe_machine, undisturbed
from photos import collect_photos, find_photos
from timing import Run

RESULTS = Path(__file__).resolve().parent / "results"
BATCH_SIZES = (4, 8, 32)
THREADS = (0, 1)  # 0 is torch's default, one per core
TRIAL_PHOTOS = 96


@dataclass(frozen=True)
class Round:
    infer: Run
    dataloader: Run

    @property
    def ratio(self) -> float:
        return self.dataloader.seconds / self.infer.seconds


def main() -> None:
    flags = read_flags()
    with tempfile.TemporaryDirectory(prefix="infer-bench-") as folder:
        project = prepare(Path(folder), flags)
        trials = try_settings(project, flags)
        setting = max(trials, key=lambda setting: trials[setting])
        rounds = [play(project, setting, number, flags.patience) for number in range(1, flags.rounds + 1)]
    result = summarise(rounds, setting, trials)
    table = render(result)
    print(table)
    if flags.save:
        save(result, table)


def prepare(folder: Path, flags: argparse.Namespace) -> Project:
    source = flags.photos or find_photos()
    print(f"{flags.num_photos:,} photos from {source or 'scikit-image'}", flush=True)
    collect_photos(source, folder / "photos", flags.num_photos)
    project = Project(folder)
    project.set_up(folder / "photos")
    return project


def try_settings(project: Project, flags: argparse.Namespace) -> dict[Setting, float]:
    """Images per second of the DataLoader, once it is running, with each setting; a single one is not tried."""
    batch_sizes = BATCH_SIZES if flags.batch_size is None else (flags.batch_size,)
    threads = THREADS if flags.threads is None else (flags.threads,)
    settings = [Setting(batch, flags.workers, count) for batch in batch_sizes for count in threads]
    if len(settings) == 1:
        return {settings[0]: float("nan")}
    trials = {}
    for setting in settings:
        run = undisturbed(partial(project.run_dataloader, setting, TRIAL_PHOTOS), flags.patience)
        trials[setting] = run.steady_rate
        print(f"DataLoader, {setting}: {run.steady_rate:.1f} images/s{_marked(run)}", flush=True)
    return trials


def play(project: Project, setting: Setting, number: int, patience_s: float) -> Round:
    ours = undisturbed(partial(project.run_infer, setting.workers), patience_s)
    theirs = undisturbed(partial(project.run_dataloader, setting), patience_s)
    played = Round(ours, theirs)
    told = ", ".join(f"{name} {run.seconds:.1f} s{_marked(run)}" for name, run in vars(played).items())
    print(f"round {number}: {told}, ratio {played.ratio:.2f}", flush=True)
    return played


def summarise(rounds: list[Round], setting: Setting, trials: dict[Setting, float]) -> dict[str, Any]:
    ratios = [played.ratio for played in rounds]
    return {
        "date": date.today().isoformat(),
        "machine": describe_machine(),
        "num_photos": len(rounds[0].infer.labels),
        "infer": contestant([played.infer for played in rounds]),
        "dataloader": {"setting": str(setting), **contestant([played.dataloader for played in rounds])},
        "ratios": ratios,
        "median_ratio": statistics.median(ratios),
        "same_label": agreement(rounds[-1]),
        "infer_stages_ms": stage_costs(rounds[-1].infer),
        "dataloader_trials": {str(tried): rate for tried, rate in trials.items() if len(trials) > 1},
    }


def contestant(runs: list[Run]) -> dict[str, list[float]]:
    """One figure for each round."""
    keys = ("seconds", "cpu_seconds", "first_rows_s", "steady_rate", "others")
    return {key: [getattr(run, key) for run in runs] for key in keys}


def agreement(played: Round) -> float:
    """Share of the photos to which both give the same label; a photo that one of them lacks counts against it."""
    theirs, ours = played.dataloader.labels, played.infer.labels
    return sum(ours.get(image) == label for image, label in theirs.items()) / len(ours | theirs)


def render(result: dict[str, Any]) -> str:
    """A Markdown table that reads well on a terminal too; medians of the rounds."""
    ours, theirs = result["infer"], result["dataloader"]
    num_photos, machine = result["num_photos"], result["machine"]
    rows = [
        ("seconds, start to end", *_medians("seconds", ours, theirs, "{:.1f}")),
        ("images per second", *(f"{num_photos / statistics.median(side['seconds']):.1f}" for side in (ours, theirs))),
        ("… once running", *_medians("steady_rate", ours, theirs, "{:.1f}")),
        ("first rows written after, s", *_medians("first_rows_s", ours, theirs, "{:.1f}")),
        ("CPU seconds", *_medians("cpu_seconds", ours, theirs, "{:.1f}")),
        ("taken by others", *_medians("others", ours, theirs, "{:.0%}")),
    ]
    lines = [
        "",
        f"| {num_photos:,} photos | infer run | DataLoader |",
        "|---|---:|---:|",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        f"infer run is {result['median_ratio']:.2f} times as fast as the DataLoader "
        f"(rounds: {', '.join(f'{ratio:.2f}' for ratio in result['ratios'])}).",
        f"Both give the same label to {result['same_label']:.1%} of the photos.",
        f"The DataLoader's setting: {theirs['setting']}{_told_trials(result['dataloader_trials'])}.",
        "infer's CPU ms per image: " + ", ".join(f"{name} {ms:.2f}" for name, ms in result["infer_stages_ms"].items()),
        f"{machine['processor']} ({machine['instructions']}), {machine['cores']} cores; "
        f"Python {machine['python']}, torch {machine['torch']}; {result['date']}",
    ]
    return "\n".join(lines)


def save(result: dict[str, Any], table: str) -> None:
    RESULTS.mkdir(exist_ok=True)
    stem = RESULTS / f"{result['date']}-dataloader"
    stem.with_suffix(".json").write_text(json.dumps(result, indent=2, allow_nan=False) + "\n")
    stem.with_suffix(".md").write_text(f"# infer run against a plain DataLoader\n{table}\n")
    print(f"saved as {stem}.json and .md")


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--num-photos", type=int, default=1000)
    parser.add_argument("--photos", type=Path, help="folder of JPEG files, repeated until there are enough")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2, help="processes of both")
    parser.add_argument("--batch-size", type=int, help="of the DataLoader  [default: the best of those tried]")
    parser.add_argument("--threads", type=int, help="of the DataLoader's model, 0 for torch's default  [the best]")
    parser.add_argument("--patience", type=float, default=0, help="seconds to wait before, or repeat, a disturbed run")
    parser.add_argument("--save", action="store_true", help="write results/<date>-dataloader.json and .md")
    return parser.parse_args()


def _medians(key: str, ours: dict[str, Any], theirs: dict[str, Any], form: str) -> list[str]:
    return [form.format(statistics.median(side[key])) for side in (ours, theirs)]


def _told_trials(trials: dict[str, float]) -> str:
    told = "; ".join(f"{setting}: {rate:.1f}" for setting, rate in trials.items())
    return f", the best of those tried (images per second once running: {told})" if trials else ""


def _marked(run: Run) -> str:
    return f" (others took {run.others:.0%} of the machine)" if run.others >= BUSY else ""


if __name__ == "__main__":
    main()
