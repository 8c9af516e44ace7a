"""`infer run` against a plain torch DataLoader: same photos, same TorchScript file, same kind of database.

Each run is a process of its own, timed from its start to its end: interpreter, imports, loading the model, the
golden check, every commit. The two take turns, and the ratio is taken within each round, because the speed of a
shared machine changes by the minute.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import PIL
import torch
from contestants import Project, Run, Setting
from photos import collect_photos, find_photos

RESULTS = Path(__file__).resolve().parent / "results"
PLAIN = Setting()


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
        settings = compare_settings(project, flags.workers) if flags.settings else {}
        rounds = [play_round(project, flags.workers, number) for number in range(flags.rounds)]
    result = summarise(rounds, settings, flags)
    text = render(result)
    print(text)
    if flags.save:
        save(result, text)


def prepare(folder: Path, flags: argparse.Namespace) -> Project:
    source = flags.photos or find_photos()
    print(f"{flags.num_photos:,} photos from {source or 'scikit-image'}", flush=True)
    collect_photos(source, folder / "photos", flags.num_photos)
    project = Project(folder)
    project.set_up(folder / "photos")
    return project


def compare_settings(project: Project, workers: int) -> dict[str, float]:
    """Images per second of a plain DataLoader as people set it up, each once."""
    rates = {}
    for batch_size in (8, 32):
        for threads in (0, 1):
            for num_workers in dict.fromkeys((1, workers)):
                setting = Setting(batch_size, num_workers, threads)
                run = project.run_dataloader(setting)
                rates[setting.name] = rate(run)
                print(f"DataLoader, {setting.name}: {rate(run):.1f} images/s", flush=True)
    return rates


def play_round(project: Project, workers: int, number: int) -> Round:
    played = Round(project.run_infer(workers), project.run_dataloader(Setting(workers=workers)))
    shown = (f"{name} {run.seconds:.1f} s" for name, run in vars(played).items())
    print(f"round {number + 1}: {', '.join(shown)}, ratio {played.ratio:.2f}", flush=True)
    return played


def summarise(rounds: Sequence[Round], settings: dict[str, float], flags: argparse.Namespace) -> dict[str, Any]:
    ratios = [played.ratio for played in rounds]
    return {
        "date": date.today().isoformat(),
        "machine": machine(),
        "num_photos": flags.num_photos,
        "workers": flags.workers,
        "infer": contestant([played.infer for played in rounds]),
        "dataloader": contestant([played.dataloader for played in rounds]),
        "ratios": ratios,
        "median_ratio": statistics.median(ratios),
        "same_label": agreement(rounds[-1]),
        "stages_ms": rounds[-1].infer.report["stages"],
        "limit_images_per_second": rounds[-1].infer.report["limit_images_per_second"],
        "dataloader_settings_images_per_second": settings,
    }


def contestant(runs: Iterable[Run]) -> dict[str, list[float]]:
    keys = ("seconds", "cpu_seconds", "first_row_s")
    return {key: [getattr(run, key) for run in runs] for key in keys}
