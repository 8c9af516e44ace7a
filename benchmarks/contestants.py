"""The compared programs, each run as a separate process, and the project folder they run in."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from networks import LARGE, save_network
from timing import Run, call, time_process

PROGRAMS = Path(__file__).resolve().parent / "programs"
INFER = Path(sys.executable).with_name("infer")
DATE = "2026-11-20"
MODEL = "network"
EXPERT = "OpenVINO, tuned by an expert"
RECIPE = "--recipe crop-resize --size 224 --set crop_pct=0.875 --set interpolation=bicubic"
DETECTOR = "--output detection --set head=yolo5 --size 1280 --set antialias=false"
MEAN = ",".join([repr(127 / 255)] * 3)
STD = ",".join([repr(128 / 255)] * 3)

DECODERS = {"pillow": "Pillow", "turbo": "libjpeg-turbo", "scaled": "libjpeg-turbo, scaled", "ffmpeg": "FFmpeg"}
DECODERS |= {"letterbox": "Pillow, OpenCV", "letterbox-turbo": "libjpeg-turbo, OpenCV"}
RUNTIMES = {
    "saved": "TorchScript, fp32",
    "frozen": "TorchScript, frozen, fp32",
    "fused": "TorchScript, frozen and fused by oneDNN, fp32",
    "optimized": "TorchScript, optimize_for_inference, fp32",
    "openvino-f32": "OpenVINO, fp32",
    "openvino-bf16": "OpenVINO, bf16",
}


@dataclass(frozen=True)
class Setting:
    """Settings of a program; its flags have the same names, and flags.py explains them."""

    decoder: str = "pillow"
    ready: str = "saved"
    batch_size: int = 8
    workers: int = 2
    threads: int = 0  # for the network; 0: torch's default

    def flags(self) -> list[str]:
        return [
            word for key in fields(self) for word in (f"--{key.name.replace('_', '-')}", str(getattr(self, key.name)))
        ]

    @property
    def stack(self) -> str:
        """Decoder, runtime and precision, for people."""
        return f"{DECODERS[self.decoder]}; {RUNTIMES[self.ready]}"

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
    network: str = "lite0"  # of NETWORKS; null measures loading only
    precision: str = "full"  # of infer run: full, half or int8
    scaled: str | None = None  # who may decode JPEGs at a fraction of their size: ours or all
    executor: str = "cpu"  # of infer run

    @property
    def is_detector(self) -> bool:
        return self.network == LARGE

    @property
    def decoder(self) -> str:
        """Return the decoder of the expert's program."""
        return "letterbox-turbo" if self.is_detector else "turbo"

    @property
    def cores(self) -> range:
        return range(self.num_cores)

    def programs(self) -> list[Program]:
        """Return the programs: stock with the best batch size and threads, tuned with every known optimisation."""
        if self.is_detector:
            return self._detectors()
        is_null = self.network == "null"
        decoder = "scaled" if self.scaled == "all" else "turbo"
        stock = Setting(workers=self.num_cores)
        fused = replace(stock, decoder=decoder, ready="fused", batch_size=4)
        tuned = replace(fused, ready="frozen", batch_size=32, threads=1) if is_null else fused
        common = {"batch_size": (4, 32), "threads": (1,)}
        best = {
            "ready": () if is_null else ("frozen", "optimized"),
            "batch_size": (8, 64) if is_null else (8, 32),
            "threads": (1,),
            "workers": (self.num_cores - 1, self.num_cores + 1) if self.num_cores > 1 else (2,),
        }
        hint = "openvino-bf16" if self.precision == "half" else "openvino-f32"
        expert = replace(tuned, ready=hint, threads=1)
        # In Ray the network's actors also load images: more actors than cores gain nothing.
        ray = {**best, "workers": best["workers"][:1] if self.num_cores > 1 else ()}
        return [
            Program("DataLoader", "dataloader.py", "torch", stock, common),
            Program("DataLoader, tuned", "dataloader.py", "torch", tuned, best),
            Program("SPDL", "spdl_pipeline.py", "spdl", stock, common),
            Program("SPDL, tuned", "spdl_pipeline.py", "spdl", tuned, {"decoder": ("ffmpeg",), **best}),
            Program("Ray Data", "ray_data.py", "ray", stock, common),
            Program("Ray Data, tuned", "ray_data.py", "ray", tuned, ray),
            Program(EXPERT, "openvino_processes.py", "openvino", expert, {"batch_size": (1, 2, 8, 16)}),
        ]

    def _detectors(self) -> list[Program]:
        """Return the programs for a network that takes seconds an image, so that loading costs next to nothing.

        The loop is how a detector's own runner works: an image at a time, on all cores.
        """
        loop = Setting("letterbox", batch_size=1, workers=0)
        tuned = Setting(self.decoder, "frozen", batch_size=1, workers=1)  # oneDNN's fusion fails on its heads
        whole = Setting(self.decoder, "openvino-f32", 1, workers=1, threads=self.num_cores)
        each = replace(whole, workers=self.num_cores, threads=1)
        return [
            Program("torch, an image at a time", "dataloader.py", "torch", loop),
            Program(
                "DataLoader, tuned", "dataloader.py", "torch", tuned, {"ready": ("optimized",), "batch_size": (2,)}
            ),
            Program(f"{EXPERT}: one process", "openvino_processes.py", "openvino", whole),
            Program(f"{EXPERT}: a process per core", "openvino_processes.py", "openvino", each),
        ]


@dataclass(frozen=True)
class Project:
    """A folder with a model and a database of photos without predictions."""

    folder: Path
    contest: Contest

    @property
    def torchscript(self) -> Path:
        return self.folder / f"{MODEL}.ts"

    @property
    def photos(self) -> Path:
        return self.folder / "photos"

    def set_up(self, originals: Path) -> None:
        """Set the project up as a user does once, before the first run; `originals` are shown to a random network."""
        if self.contest.is_detector:
            originals = self.photos  # the small ones show it other objects
        save_network(self.contest.network, self.torchscript, originals)
        convert = [sys.executable, str(PROGRAMS / "openvino_convert.py"), str(self.torchscript), self.contest.decoder]
        call(convert, self.folder)
        self._infer("init")
        self._infer("images", "add", str(self.photos), "--date", DATE)
        options = DETECTOR.split()
        if not self.contest.is_detector:
            options = [*RECIPE.split(), "--set", f"mean={MEAN}", "--set", f"std={STD}", "--output", "classification"]
        if self.contest.scaled:
            options += ["--set", "decode=scaled"]
        if self.contest.precision == "int8":
            options += ["--calibrate", str(self.photos)]  # more of them than originals: 300 must judge
            options += ["--min-agreement", "10%"] if self.contest.is_detector else []  # its weights are random
        self._infer("model", "build", str(self.torchscript), "--name", MODEL, *options)
        if self.contest.precision == "half":
            self._infer("model", "judge", MODEL, "--date", DATE)
        (self.folder / "infer.db").rename(self._registered)

    def run_infer(self, precision: str | None = None) -> Run:
        """Run `infer run` in this precision, or in that of the contest."""
        database = self.fresh("infer.db")
        command = [str(INFER), "run", "--date", DATE, "--model", MODEL, "--executor", self.contest.executor, "--json"]
        command += ["--precision", precision or self.contest.precision]
        return time_process(command, self.folder, database, "infer_current_predictions", self.contest.cores)

    def run_program(self, program: Program, setting: Setting, limit: int = -1) -> Run:
        database = self.fresh("peer.db")
        script = [sys.executable, str(PROGRAMS / program.script), str(database), str(self.torchscript)]
        command = [*script, *setting.flags(), "--limit", str(limit)]
        return time_process(command, self.folder, database, "predictions", self.contest.cores)

    @property
    def _registered(self) -> Path:
        return self.folder / "registered.db"

    def fresh(self, name: str) -> Path:
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
