"""Measure `infer run` with a detector that costs nothing beside a classifier that costs nothing, run in turns.

What differs is the work on objects: decoding of the outputs, sending, and writing a row for each object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from datetime import date
from pathlib import Path

from machine import describe_machine
from photos import collect_photos, find_photos
from timing import call

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import Tensor, nn

INFER = Path(sys.executable).with_name("infer")
SIZE = 224
DAY = "2026-11-20"


class NullClassifier(nn.Module):
    """Ten scores of the mean colour."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(3, 10)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.mix(pixels.mean((2, 3)))


class NullDetector(nn.Module):
    """(n, 4 + classes, boxes), for the head yolo: of many boxes so many have a score, which the mean colour moves."""

    grid: Tensor
    is_object: Tensor

    def __init__(self, num_boxes: int, num_classes: int, num_objects: int) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(0)
        corner, size = torch.rand(2, num_boxes, generator=random), torch.rand(2, num_boxes, generator=random)
        self.register_buffer("grid", torch.cat([corner * SIZE, 8 + size * SIZE / 8]))
        chosen = torch.randperm(num_boxes, generator=random)[:num_objects]
        self.register_buffer("is_object", torch.zeros(num_classes, num_boxes))
        self.is_object[torch.arange(num_objects) % num_classes, chosen] = 0.9

    def forward(self, pixels: Tensor) -> Tensor:
        scores = self.is_object * (0.5 + 0.5 * pixels.mean((1, 2, 3))[:, None, None])
        return torch.cat([self.grid.expand(pixels.shape[0], -1, -1), scores], 1)


def main() -> None:
    flags = read_flags()
    with tempfile.TemporaryDirectory(dir=flags.folder) as name:
        project = make_project(Path(name), flags)
        models = ["classifier", *(f"detector-{count}" for count in flags.objects)]
        rates: dict[str, list[float]] = {model: [] for model in models}
        outputs: dict[str, float] = {}
        for round_ in range(flags.rounds):
            for model in models if round_ % 2 == 0 else reversed(models):
                report = run(project, model)
                rates[model].append(report["steady_images_per_second"])
                outputs[model] = report["stages"].get("outputs", 0)
    print(f"| {flags.num_images:,} photos, {flags.rounds} rounds | images/s once running | ratio | outputs, CPU ms |")
    print("|---|---:|---:|---:|")
    for model in models:
        ratios = [own / other for own, other in zip(rates[model], rates["classifier"], strict=True)]
        shown = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"| {model} | {statistics.median(rates[model]):.0f} | {shown} | {outputs[model]:.2f} |")
    machine = describe_machine()
    print(f"\n{machine['processor']}, {machine['cores']} cores, {machine['instructions']}; {date.today().isoformat()}")


def make_project(folder: Path, flags: argparse.Namespace) -> Path:
    collect_photos(flags.photos or find_photos(), folder / "photos", flags.num_images)
    call([str(INFER), "init"], folder)
    call([str(INFER), "db", "upgrade"], folder)
    call([str(INFER), "images", "add", "photos", "--date", DAY], folder)
    modules: dict[str, tuple[nn.Module, list[str]]] = {"classifier": (NullClassifier(), [])}
    for count in flags.objects:
        module = NullDetector(flags.boxes, flags.classes, count)
        modules[f"detector-{count}"] = module, ["--output", "detection", "--head", "yolo"]
    for name, (module, more) in modules.items():
        torch.jit.save(torch.jit.trace(module.eval(), torch.rand(2, 3, SIZE, SIZE)), folder / f"{name}.ts")
        same = ["--recipe", "stretch", "--size", str(SIZE), "--interpolation", "bilinear", "--mean", "0", "--std", "1"]
        call([str(INFER), "model", "build", f"{name}.ts", "--name", name, *same, *more], folder)
    return folder


def run(project: Path, model: str) -> dict[str, object]:
    """Run the day with one model, after its results were deleted."""
    import sqlite3

    with sqlite3.connect(project / "infer.db") as connection:
        for table in ("infer_objects", "infer_predictions", "infer_runs"):
            connection.execute(f"DELETE FROM {table}")
    cost = call([str(INFER), "run", "--date", DAY, "--lookback", "0", "--model", model, "--json"], project)
    report: dict[str, object] = json.loads(cost.output)
    return report


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--num-images", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--objects", type=int, nargs="+", default=[0, 5, 50], help="objects of an image")
    parser.add_argument("--boxes", type=int, default=1029, help="boxes of the network; 1,029 as of 224x224")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--photos", type=Path, help="a folder of JPEGs")
    parser.add_argument("--folder", type=Path, help="where to make the project")
    return parser.parse_args()


if __name__ == "__main__":
    main()
