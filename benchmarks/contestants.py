"""The compared programs, each run as a separate process, and the project folder they run in."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from timing import Run, call, time_process

PROGRAMS = Path(__file__).resolve().parent / "programs"
INFER = Path(sys.executable).with_name("infer")
DATE = "2026-11-20"
MODEL = "lite0"
RECIPE = "--recipe crop-resize --size 224 --crop 0.875 --interpolation bicubic"
MEAN = ",".join([repr(127 / 255)] * 3)
STD = ",".join([repr(128 / 255)] * 3)


@dataclass(frozen=True)
class Setting:
    """Settings of a program; its flags have the same names."""

    decoder: str = "pillow"
    ready: str = "saved"
    batch_size: int = 8
    workers: int = 2
    threads: int = 0  # for the network; 0: torch's default

    def flags(self) -> list[str]:
        return [
            word for key in fields(self) for word in (f"--{key.name.replace('_', '-')}", str(getattr(self, key.name)))
        ]

    def __str__(self) -> str:
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}" if self.threads else "torch's threads"
        return f"{self.decoder}, {self.ready}, batch {self.batch_size}, {threads}, {self.workers} workers"


@dataclass(frozen=True, eq=False)
class Program:
    """A program that does the task without infer_app; `choices` are the values to try for each setting."""

    name: str
    script: str
    package: str
    start: Setting
    choices: Mapping[str, Sequence[object]] = field(default_factory=dict)

    @property
    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.package) is not None


@dataclass(frozen=True)
class Contest:
    """The task to compare; every program runs on `num_cores` cores."""

    num_cores: int
    null: bool = False  # a network of negligible cost, so that only loading is measured
    scaled: str | None = None  # who may decode JPEGs at a fraction of their size: ours or all
    calibrate: Path | None = None  # folder of photos to calibrate infer's int8 variant
    openvino: bool = False  # tuned programs may use it too
    frozen: bool = False  # tuned programs only freeze their network
    executor: str = "cpu"  # of infer run

    @property
    def cores(self) -> range:
        return range(self.num_cores)

    def programs(self) -> list[Program]:
        """Return the programs: stock with the best batch size and threads, tuned with every known optimisation."""
        stock = Setting(workers=self.num_cores)
        tuned = replace(
            stock,
            decoder="scaled" if self.scaled == "all" else "turbo",
            ready="frozen" if self.null or self.frozen else "fused",
            batch_size=32 if self.null else 4,
        )
        common = {"batch_size": (4, 32), "threads": (1,)}
        best = {
            "ready": ()
            if self.null or self.frozen
            else ("frozen", "optimized", *(["openvino"] if self.openvino else [])),
            "batch_size": (8, 64) if self.null else (8, 32),
            "threads": (1,),
            "workers": (self.num_cores - 1, self.num_cores + 1) if self.num_cores > 1 else (2,),
        }
        # In Ray the network's actors also load images: more actors than cores gain nothing.
        ray = {**best, "workers": best["workers"][:1] if self.num_cores > 1 else ()}
        return [
            Program("DataLoader", "dataloader.py", "torch", stock, common),
            Program("DataLoader, tuned", "dataloader.py", "torch", tuned, best),
            Program("SPDL", "spdl_pipeline.py", "spdl", stock, common),
            Program("SPDL, tuned", "spdl_pipeline.py", "spdl", tuned, {"decoder": ("ffmpeg",), **best}),
            Program("Ray Data", "ray_data.py", "ray", stock, common),
            Program("Ray Data, tuned", "ray_data.py", "ray", tuned, ray),
        ]


@dataclass(frozen=True)
class Project:
    """A folder with a model and a database of photos without predictions."""

    folder: Path
    contest: Contest

    def set_up(self, photos: Path) -> None:
        """Set the project up as a user does once, before the first run."""
        (_trace_null if self.contest.null else _trace_lite0)(self._torchscript)
        self._infer("init")
        self._infer("images", "add", str(photos), "--date", DATE)
        options = [*RECIPE.split(), "--mean", MEAN, "--std", STD, "--output", "classification"]
        if self.contest.scaled:
            options += ["--decode", "scaled"]
        if self.contest.calibrate:
            options += ["--calibrate", str(self.contest.calibrate)]
        self._infer("model", "build", str(self._torchscript), "--name", MODEL, *options)
        (self.folder / "infer.db").rename(self._registered)

    def run_infer(self) -> Run:
        database = self._fresh("infer.db")
        command = [str(INFER), "run", "--date", DATE, "--model", MODEL, "--executor", self.contest.executor, "--json"]
        command += ["--allow-int8"] if self.contest.calibrate else []
        return time_process(command, self.folder, database, "infer_predictions", self.contest.cores)

    def run_program(self, program: Program, setting: Setting, limit: int = -1) -> Run:
        database = self._fresh("peer.db")
        script = [sys.executable, str(PROGRAMS / program.script), str(database), str(self._torchscript)]
        command = [*script, *setting.flags(), "--limit", str(limit)]
        return time_process(command, self.folder, database, "predictions", self.contest.cores)

    @property
    def _torchscript(self) -> Path:
        return self.folder / f"{MODEL}.ts"

    @property
    def _registered(self) -> Path:
        return self.folder / "registered.db"

    def _fresh(self, name: str) -> Path:
        """Copy the database of photos, which has no predictions."""
        for leftover in self.folder.glob(f"{name}*"):  # -wal and -shm too
            leftover.unlink()
        return Path(shutil.copyfile(self._registered, self.folder / name))

    def _infer(self, *words: str) -> None:
        call([str(INFER), *words], self.folder, self.contest.cores)  # infer tunes itself for these cores


def find_setting(program: Program, rate: Callable[[Setting], float]) -> Setting:
    """Return the fastest setting by `rate`; choices are tried one after another, each with the best earlier ones."""
    best = program.start
    best_rate = rate(best)
    for name, values in program.choices.items():
        for tried in [replace(best, **{name: value}) for value in values]:
            tried_rate = rate(tried)
            if tried_rate > best_rate:
                best, best_rate = tried, tried_rate
    return best


def infer_report(run: Run) -> dict[str, Any]:
    """Parse the output of `infer run --json`: variant, num_workers, stages in CPU milliseconds per image, and more."""
    report: dict[str, Any] = json.loads(run.output)
    return report


def _trace_lite0(path: Path) -> None:
    """Save EfficientNet-Lite0 as users usually do: traced, not frozen."""
    from infer_app.cli.project.demo_assets import efficientnet_lite0

    _trace(efficientnet_lite0().eval(), path)


def _trace_null(path: Path) -> None:
    """Save a network that computes ten scores from the mean colour; its cost is negligible beside loading."""
    import torch

    class MeanColour(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = torch.nn.Linear(3, 10)
            torch.nn.init.orthogonal_(self.mix.weight, 20, generator=torch.Generator().manual_seed(0))

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.mix(pixels.mean((2, 3)))

    _trace(MeanColour(), path)


def _trace(module: object, path: Path) -> None:
    import torch

    with warnings.catch_warnings(), torch.no_grad():
        warnings.filterwarnings("ignore", message=r".*torch\.jit", category=DeprecationWarning)
        torch.jit.save(torch.jit.trace(module, torch.zeros(1, 3, 224, 224)), str(path))
