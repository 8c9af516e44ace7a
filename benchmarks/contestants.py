"""The programs that are compared: each a process of its own, timed from its start to its end."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from infer_app.demo import efficientnet_lite0

HERE = Path(__file__).resolve().parent
INFER = Path(sys.executable).with_name("infer")
DATE = "2026-11-20"
MEAN = ",".join([repr(127 / 255)] * 3)
STD = ",".join([repr(128 / 255)] * 3)


@dataclass(frozen=True)
class Setting:
    """How the plain DataLoader is set up; 0 threads are torch's default."""

    batch_size: int = 32
    workers: int = 2
    threads: int = 0

    @property
    def name(self) -> str:
        threads = self.threads or "default"
        return f"batch {self.batch_size}, {self.workers} workers, {threads} threads"


@dataclass(frozen=True)
class Run:
    """One process and what it wrote."""

    seconds: float  # wall clock: interpreter, imports, model, all images, exit
    cpu_seconds: float  # of the process and all of its children
    first_row_s: float  # until the first rows were written
    labels: dict[int, str]  # image id: label
    report: dict[str, Any]  # what `infer run --json` printed


@dataclass(frozen=True)
class Project:
    """A folder with the photos in a database that nothing was predicted in yet, and the model."""

    folder: Path

    @property
    def model(self) -> Path:
        return self.folder / "lite0.ts"

    @property
    def database(self) -> Path:
        return self.folder / "infer.db"

    def set_up(self, photos: Path) -> None:
        """What a user does once, before the first night."""
        example = torch.zeros(1, 3, 224, 224)
        with torch.inference_mode():
            torch.jit.save(torch.jit.trace(efficientnet_lite0().eval(), example), str(self.model))
        self._infer("init")
        self._infer("images", "add", str(photos), "--date", DATE)
        recipe = ("--recipe", "crop-resize", "--size", "224", "--crop", "0.875", "--interpolation", "bicubic")
        normalisation = ("--mean", MEAN, "--std", STD, "--output", "classification")
        self._infer("model", "build", str(self.model), "--name", "lite0", *recipe, *normalisation)
        self.database.rename(self._registered)

    def run_infer(self, workers: int) -> Run:
        self._fresh(self.database)
        command = [str(INFER), "run", "--date", DATE, "--model", "lite0", "--workers", str(workers), "--json"]
        return _timed(command, self.folder, self.database, "infer_predictions")

    def run_dataloader(self, setting: Setting) -> Run:
        database = self.folder / "plain.db"
        self._fresh(database)
        flags = {"--batch-size": setting.batch_size, "--workers": setting.workers, "--threads": setting.threads}
        words = [str(word) for flag in flags.items() for word in flag]
        command = [sys.executable, str(HERE / "plain_dataloader.py"), str(database), str(self.model), *words]
        return _timed(command, self.folder, database, "predictions")

    @property
    def _registered(self) -> Path:
        return self.folder / "registered.db"

    def _fresh(self, database: Path) -> None:
        for leftover in self.folder.glob(f"{database.name}*"):
            leftover.unlink()
        shutil.copyfile(self._registered, database)

    def _infer(self, *words: str) -> None:
        _run([str(INFER), *words], self.folder)


def _timed(command: list[str], folder: Path, database: Path, table: str) -> Run:
    cpu_before, started, clock = _cpu_of_children(), datetime.now(UTC), time.perf_counter()
    output = _run(command, folder)
    seconds, cpu_seconds = time.perf_counter() - clock, _cpu_of_children() - cpu_before
    with sqlite3.connect(database) as connection:
        labels = dict(connection.execute(f"SELECT CAST(image_id AS INTEGER), label FROM {table}"))
        (first,) = connection.execute(f"SELECT min(created_at) FROM {table}").fetchone()
    first_row = datetime.fromisoformat(first).replace(tzinfo=UTC)
    report = json.loads(output) if output.startswith("{") else {}
    return Run(seconds, cpu_seconds, (first_row - started).total_seconds(), labels, report)


def _run(command: list[str], folder: Path) -> str:
    """Its standard output; ends the benchmark with its standard error if it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INFER_")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def _cpu_of_children() -> float:
    """Of all that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
