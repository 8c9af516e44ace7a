"""The two programs that are compared, each as a process of its own, and the project folder they run in."""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

from timing import Run, call, time_process

HERE = Path(__file__).resolve().parent
INFER = Path(sys.executable).with_name("infer")
DATE = "2026-11-20"
MODEL = "lite0"
RECIPE = "--recipe crop-resize --size 224 --crop 0.875 --interpolation bicubic"
MEAN = ",".join([repr(127 / 255)] * 3)
STD = ",".join([repr(128 / 255)] * 3)


@dataclass(frozen=True)
class Setting:
    """How the plain DataLoader is set up."""

    batch_size: int
    workers: int
    threads: int  # of the model; 0 is torch's default

    def __str__(self) -> str:
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}" if self.threads else "torch's threads"
        return f"batch {self.batch_size}, {threads}, {self.workers} workers"


@dataclass(frozen=True)
class Project:
    """A folder with a model and a database of photos in which nothing was predicted yet."""

    folder: Path

    def set_up(self, photos: Path) -> None:
        """What a user does once, before the first night."""
        _trace(self._torchscript)
        self._infer("init")
        self._infer("images", "add", str(photos), "--date", DATE)
        meaning = (*RECIPE.split(), "--mean", MEAN, "--std", STD, "--output", "classification")
        self._infer("model", "build", str(self._torchscript), "--name", MODEL, *meaning)
        (self.folder / "infer.db").rename(self._registered)

    def run_infer(self, workers: int) -> Run:
        database = self._fresh("infer.db")
        command = [str(INFER), "run", "--date", DATE, "--model", MODEL, "--workers", str(workers), "--json"]
        return time_process(command, self.folder, database, "infer_predictions")

    def run_dataloader(self, setting: Setting, limit: int = -1) -> Run:
        database = self._fresh("plain.db")
        flags = f"--batch-size {setting.batch_size} --workers {setting.workers} --threads {setting.threads}"
        script = [sys.executable, str(HERE / "plain_dataloader.py"), str(database), str(self._torchscript)]
        return time_process([*script, *flags.split(), "--limit", str(limit)], self.folder, database, "predictions")

    @property
    def _torchscript(self) -> Path:
        return self.folder / f"{MODEL}.ts"

    @property
    def _registered(self) -> Path:
        return self.folder / "registered.db"

    def _fresh(self, name: str) -> Path:
        """A database in which nothing was predicted."""
        for leftover in self.folder.glob(f"{name}*"):  # -wal and -shm too
            leftover.unlink()
        return Path(shutil.copyfile(self._registered, self.folder / name))

    def _infer(self, *words: str) -> None:
        call([str(INFER), *words], self.folder)


def stage_costs(run: Run) -> dict[str, float]:
    """CPU milliseconds per image of each stage, as `infer run --json` says it."""
    stages: dict[str, float] = json.loads(run.output)["stages"]
    return stages


def _trace(path: Path) -> None:
    """EfficientNet-Lite0 as people save it: traced, nothing frozen."""
    import torch

    from infer_app.demo import efficientnet_lite0

    with warnings.catch_warnings(), torch.no_grad():
        warnings.filterwarnings("ignore", message=r".*torch\.jit", category=DeprecationWarning)
        torch.jit.save(torch.jit.trace(efficientnet_lite0().eval(), torch.zeros(1, 3, 224, 224)), str(path))
