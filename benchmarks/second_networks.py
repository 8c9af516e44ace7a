"""Measure a detector and a second network on its objects, beside a plain program with the same compiled networks.

The detector is FastestDet with a head that finds the same three objects in every photo; the second network is
EfficientNet-Lite0 on their boxes. Both together; the second one alone over stored objects; one whose gate takes none of
them; and photos of 12 megapixels, whose pictures are kept until the detector has answered.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from machine import describe_machine
from networks import save_network
from photos import DATA_BESIDE, collect_large_photos, collect_photos, find_photos
from processes import ProcessCost
from timing import call

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from infer_app.predict.runtimes.openvino import BATCH_SIZE

INFER = Path(sys.executable).with_name("infer")
PLAIN = Path(__file__).resolve().parent / "programs" / "crops.py"
DAY, DAY_OF_LARGE = "2026-11-20", "2026-11-21"
CORES = len(os.sched_getaffinity(0))
NETWORKS = ("detector's network", "second network")  # stages of the plain program
HEAD = """
import numpy as np

FOUND = np.array([[18, 18, 158, 123, 0.9, 0], [194, 35, 334, 211, 0.9, 1], [53, 194, 299, 334, 0.9, 2]], np.float32)


def head(output):
    return [FOUND] * len(output)
"""
DETECTOR = "--output detection --recipe stretch --set channels=bgr --set interpolation=bilinear"
SECOND = "--set of=detector --output classification --recipe stretch --size 224 --set interpolation=bilinear"
NORMALISE = ["--set", f"mean={127 / 255!r}", "--set", f"std={128 / 255!r}"]


@dataclass(frozen=True)
class Run:
    """A run of `infer run`: its whole process, and its report."""

    cost: ProcessCost
    report: dict[str, Any]

    @property
    def rate(self) -> float:
        """Return the images per second once running."""
        return float(self.report["steady_images_per_second"] or self.report["images_per_second"])


class Project:
    """A folder with the models, and databases of the photos without results and with the detector's."""

    def __init__(self, folder: Path, flags: argparse.Namespace) -> None:
        self.folder = folder
        source = flags.photos or find_photos()
        collect_photos(source, folder / "photos", flags.images)
        (folder / "of-large").mkdir()
        collect_large_photos(source, folder / "of-large" / "large", flags.large)
        (folder / "fixed.py").write_text(HEAD)
        save_network("lite0", folder / "lite0.ts", source or folder / "photos")
        self._infer("init")
        self._infer("images", "add", "photos", "--date", DAY)
        self._infer("images", "add", str(folder / "of-large" / "large"), "--date", DAY_OF_LARGE)
        given = ["--set", "head=fixed:head", "--labels", str(flags.fastestdet / "coco.names")]
        network = str(flags.fastestdet / "FastestDet.onnx")
        self._infer("model", "build", network, "--name", "detector", *given, *DETECTOR.split())
        for name, gate in (("second", "0.2"), ("strict", "0.95")):
            rule = ["--name", name, "--set", f"min_score={gate}", *SECOND.split(), *NORMALISE]
            self._infer("model", "build", "lite0.ts", *rule)
        self._keep("registered.db")

    def detect(self, day: str) -> Run:
        """Run the detector alone, and keep its objects for what follows."""
        self._restore("registered.db")
        run = self._run(day, "detector")
        self._keep("detected.db")
        return run

    def run_together(self, day: str = DAY) -> Run:
        self._restore("registered.db")
        return self._run(day, "detector", "second")

    def rerun(self, name: str) -> Run:
        """Run a second network over the stored objects."""
        self._restore("detected.db")
        return self._run(DAY, name)

    def run_plain(self, *more: str) -> ProcessCost:
        """Run the plain program over the stored objects."""
        self._restore("detected.db")
        (detector,), (second,) = (list((self.folder / "models" / name).iterdir()) for name in ("detector", "second"))
        command = [sys.executable, str(PLAIN), "infer.db", str(detector), str(second), "--workers", str(CORES)]
        batches = ["--detector-batch", str(BATCH_SIZE), "--second-batch", str(BATCH_SIZE)]
        return call([*command, *batches, *more], self.folder)

    def _run(self, day: str, *models: str) -> Run:
        names = [word for name in models for word in ("--model", name)]
        options = ["--workers", str(CORES), "--lookback", "0", "--json"]
        cost = call([str(INFER), "run", "--date", day, *names, *options], self.folder)
        return Run(cost, json.loads(cost.output))

    def _infer(self, *words: str) -> None:
        call([str(INFER), *words], self.folder)

    def _keep(self, name: str) -> None:
        shutil.copyfile(self.folder / "infer.db", self.folder / name)

    def _restore(self, name: str) -> None:
        for leftover in self.folder.glob("infer.db*"):  # -wal and -shm too
            leftover.unlink()
        shutil.copyfile(self.folder / name, self.folder / "infer.db")


def main() -> None:
    flags = read_flags()
    with tempfile.TemporaryDirectory() as name:
        project = Project(Path(name), flags)
        alone = project.detect(DAY_OF_LARGE), project.detect(DAY)
        show_memory(flags, project, *alone)
        show_rates(flags, project)
        strict = project.rerun("strict")
        print(f"\na gate that takes none of {flags.images:,} photos' objects: {strict.cost.seconds:.1f} s")
    machine = describe_machine()
    print(f"\n{machine['processor']}, {machine['cores']} cores, {machine['instructions']}; {date.today().isoformat()}")


def show_memory(flags: argparse.Namespace, project: Project, large_alone: Run, alone: Run) -> None:
    large = project.run_together(DAY_OF_LARGE)
    together = project.run_together()
    print("| | images/s once running | CPU ms per image | peak memory, MiB | taken by others |")
    print("|---|---:|---:|---:|---:|")
    for name, count, run in (
        (f"{flags.images:,} photos, the detector alone", flags.images, alone),
        ("… and the second network", flags.images, together),
        (f"{flags.large} photos of 12 megapixels, the detector alone", flags.large, large_alone),
        ("… and the second network", flags.large, large),
    ):
        cost = run.cost
        cells = f"{run.rate:.1f} | {1e3 * cost.cpu_seconds / count:.1f} | {cost.peak_pss >> 20} | {cost.others:.0%}"
        print(f"| {name} | {cells} |")


def show_rates(flags: argparse.Namespace, project: Project) -> None:
    """Run both networks together, and the second one over stored objects, in turns with the plain program."""
    rows: list[dict[str, float]] = []
    for number in range(flags.rounds):
        turns = {
            "together": project.run_together,
            "plain together": lambda: project.run_plain("--detect"),
            "rerun": lambda: project.rerun("second"),
            "plain rerun": project.run_plain,
        }
        done: dict[str, Any] = {name: turns[name]() for name in list(turns)[:: -1 if number % 2 else 1]}
        rows.append(ratios_of(done, flags.images))
    stages = ", ".join(f"{name} {ms:.2f}" for name, ms in json.loads(done["plain together"].output).items())
    print(f"\nthe plain program's CPU ms per image: {stages}")
    print(f"`infer run`'s: {', '.join(f'{name} {ms:.2f}' for name, ms in done['together'].report['stages'].items())}")
    print(f"\n| {flags.rounds} rounds | median | rounds |\n|---|---:|---|")
    for name in rows[0]:
        values = [row[name] for row in rows]
        print(f"| {name} | {statistics.median(values):.2f} | {', '.join(f'{value:.2f}' for value in values)} |")


def ratios_of(done: dict[str, Any], num_images: int) -> dict[str, float]:
    """Return the figures of one round; what both networks cost is measured by the plain program."""
    together, again = done["together"], done["rerun"]
    costs = json.loads(done["plain together"].output)
    limit, of_networks = (1e3 * CORES / sum(costs[name] for name in names) for names in (costs, NETWORKS))
    plain, plain_again = done["plain together"], done["plain rerun"]
    return {
        "both networks: images/s once running": together.rate,
        "… that the costs allow": limit,
        "… that the networks' costs alone allow": of_networks,
        "… reached": together.rate / limit,
        "… of the networks' alone": together.rate / of_networks,
        "… by CPU time: that of the plain program's stages / ours, with its start": sum(costs.values())
        * num_images
        / together.cost.cpu_seconds
        / 1e3,
        "… seconds, times the plain program's": together.cost.seconds / plain.seconds,
        "rerun over stored objects: seconds": again.cost.seconds,
        "… times the plain program's": again.cost.seconds / plain_again.seconds,
        "… CPU seconds, times the plain program's": again.cost.cpu_seconds / plain_again.cpu_seconds,
        "taken by others": statistics.mean(one.others for one in (together.cost, again.cost, plain, plain_again)),
    }


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--images", type=int, default=10_000)
    parser.add_argument("--large", type=int, default=24, help="photos of 12 megapixels")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--photos", type=Path, help="a folder of JPEGs, repeated until there are enough")
    parser.add_argument("--fastestdet", type=Path, default=DATA_BESIDE / "networks" / "fastestdet")
    return parser.parse_args()


if __name__ == "__main__":
    main()
