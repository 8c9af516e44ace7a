"""Compare ways of loading images, from a plain loop to what `infer run` does: alone, and with the model.

    python benchmarks/loading.py --images FOLDER --model models/flowers/0123456789abcdef

Each strategy is as people write it, and runs on the same files in a process of its own; one that fails does not affect
the others. Rates exclude the first quarter of the images, in which workers start.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from machine import describe_machine
from networks import NETWORKS, SIZE, save_network
from photos import collect_photos, find_photos
from processes import ProcessCost, run_measured, tree_cpu_seconds

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from loading_strategies.dataloaders import Unavailable
from loading_strategies.ours import find_broken
from loading_strategies.strategies import STRATEGIES, Strategy, find_strategy
from loading_strategies.workload import PixelReaders, Workload

from infer_app.artifact.artifact import open_artifact
from infer_app.artifact.description import Description
from infer_app.base.machine import usable_cores
from infer_app.base.printing import printable
from infer_app.base.read_limits import ReadLimits
from infer_app.base.settings.load import load_settings
from infer_app.base.telemetry.summary_line import describe_others
from infer_app.build.build_model import build_model
from infer_app.predict.images.read.folder_scan import find_images, folders_of

MIB = 1 << 20
STRATEGY_LIMIT_S = 900.0
WARM_UP_SHARE = 0.25  # of the images, which rates exclude
HEAD = (
    "| strategy | images/s | CPU s per 1,000 | peak MiB | first batch, s | what it is |\n|---|---:|---:|---:|---:|---|"
)


@dataclass(frozen=True, slots=True)
class Request:
    """All that a measured process needs to load the images and predict them."""

    paths: Sequence[str]
    roots: Sequence[str]
    model: str  # folder of the model
    config: str  # an empty infer.toml
    num_workers: int

    def workload(self) -> Workload:
        loaded = load_settings(Path(self.config))
        readers = PixelReaders(
            artifact=open_artifact(Path(self.model)),
            read_limits=ReadLimits(tuple(map(Path, self.roots)), loaded.images.max_bytes),
            max_pixels=loaded.images.max_pixels,
        )
        return Workload(self.paths, readers, self.num_workers, loaded)


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one strategy, or in `note` why it has none."""

    name: str
    description: str
    uses_model: bool
    num_images: int | None = None  # that were yielded
    images_per_second: float | None = None  # after the warm-up
    cpu_s_per_1000: float | None = None  # of the process and its workers, after the warm-up
    first_batch_s: float | None = None
    peak_pss: int | None = None  # bytes, of the whole process tree
    note: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    num_images: int
    seconds: float
    cpu_seconds: float


def main() -> None:
    flags = read_flags()
    if flags.measure:
        workload = Request(**json.load(sys.stdin)).workload()
        print(json.dumps(measure(find_strategy(flags.measure), workload)), flush=True)
        return
    with tempfile.TemporaryDirectory(prefix="infer-bench-") as folder:
        request = prepare(Path(folder), flags)
        broken = find_broken(request.workload())  # afterwards all files are in the page cache
        for path, reason in broken.items():
            print(f"broken: {printable(path)}: {reason}")
        if len(broken) == len(request.paths):
            raise SystemExit("none of the images can be read")
        rows = list(compare(request, broken, flags.only))
    print(render(rows))


def prepare(folder: Path, flags: argparse.Namespace) -> Request:
    """Collect the images, and build a model unless the flags name one."""
    images = flags.images or folder / "photos"
    if not flags.images:
        collect_photos(find_photos(), images, flags.num_images)
    paths = [path.absolute() for path in islice(find_images(images), flags.num_images) if path.is_file()]
    if not paths:
        raise SystemExit(f"no images in {images}")
    config = folder / "infer.toml"
    config.touch()
    model = flags.model or build(flags.network, folder, paths[0].parent)
    num_workers = flags.workers or usable_cores()
    print(f"{len(paths):,} images, {num_workers} workers", flush=True)
    roots = list(map(str, folders_of(images, paths)))
    return Request(list(map(str, paths)), roots, str(model.absolute()), str(config), num_workers)


def build(network: str, folder: Path, photos: Path) -> Path:
    file = folder / f"{network}.ts"
    save_network(network, file, photos)
    pixels = {"recipe": "crop-resize", "size": SIZE, "mean": 127 / 255, "std": 128 / 255}
    return build_model(Description(source=str(file), name=network, **pixels), folder / "models").folder


def compare(request: Request, broken: dict[str, str], only: Sequence[str]) -> Iterator[Row]:
    """Yield a row for each strategy; only those that drop broken files are given them."""
    intact = replace(request, paths=[path for path in request.paths if path not in broken])
    for strategy in STRATEGIES:
        if not only or strategy.name in only:
            row = row_of(strategy, request if strategy.takes_broken else intact)
            rate = f"{row.images_per_second:.0f} images/s" if row.images_per_second else row.note
            print(f"{row.name}: {printable(rate)}", flush=True)
            yield row


def row_of(strategy: Strategy, request: Request) -> Row:
    row = Row(strategy.name, strategy.description, strategy.uses_model)
    try:
        cost = run(strategy.name, request)
    except subprocess.TimeoutExpired:
        return replace(row, note=f"took more than {STRATEGY_LIMIT_S:.0f} s")
    if cost.exit_code:
        return replace(row, note=f"failed: {(cost.errors.strip().splitlines() or [f'exit code {cost.exit_code}'])[-1]}")
    figures: dict[str, Any] = json.loads(cost.output.splitlines()[-1])
    num_broken = len(request.paths) - figures.get("num_images", len(request.paths))
    notes = (
        figures.pop("note", ""),
        f"{num_broken:,} broken dropped" if num_broken else "",
        describe_others(cost.others),
    )
    return replace(row, **figures, peak_pss=cost.peak_pss, note=", ".join(filter(None, notes)))


def run(strategy: str, request: Request) -> ProcessCost:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("INFER_")}
    command = [sys.executable, __file__, "--measure", strategy]
    return run_measured(command, environ=environ, stdin=json.dumps(asdict(request)), timeout_s=STRATEGY_LIMIT_S)


def measure(strategy: Strategy, workload: Workload) -> dict[str, Any]:
    """Run a strategy to its end in this process and return the figures that are read between its batches."""
    if not strategy.uses_model:
        torch.set_num_threads(1)  # the technique is measured, not torch's own threads
    try:
        samples = list(sample(strategy, workload))
    except Unavailable as reason:
        return {"note": str(reason)}
    last = samples[-1]
    warm = next(sample for sample in samples if sample.num_images >= WARM_UP_SHARE * last.num_images)
    figures = {"num_images": last.num_images, "first_batch_s": samples[0].seconds}
    if counted := last.num_images - warm.num_images:
        figures["images_per_second"] = counted / (last.seconds - warm.seconds)
        figures["cpu_s_per_1000"] = 1000 * (last.cpu_seconds - warm.cpu_seconds) / counted
    return figures


def sample(strategy: Strategy, workload: Workload) -> Iterator[Sample]:
    """Yield the clocks after each batch."""
    batches = strategy.run(workload)
    started, num_images = time.perf_counter(), 0
    for batch in batches:
        num_images += len(batch)
        yield Sample(num_images, time.perf_counter() - started, tree_cpu_seconds(os.getpid()))


def render(rows: Sequence[Row]) -> str:
    lines = []
    for title, uses_model in (("Loading only: pixels arrive and are dropped", False), ("With the model", True)):
        cells = ["| " + " | ".join(cells_of(row)) + " |" for row in rows if row.uses_model == uses_model]
        lines += [f"\n{title}:\n", HEAD, *cells] if cells else []
    return "\n".join([*lines, "", f"{', '.join(describe_machine().values())}"])


def cells_of(row: Row) -> tuple[str, ...]:
    figures = (row.images_per_second, row.cpu_s_per_1000, row.peak_pss and row.peak_pss / MIB, row.first_batch_s)
    forms = ("{:.0f}", "{:.2f}", "{:.0f}", "{:.2f}")
    shown = ("-" if figure is None else form.format(figure) for figure, form in zip(figures, forms, strict=True))
    return (row.name, *shown, f"{row.description} ({row.note})" if row.note else row.description)


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [strategy.name for strategy in STRATEGIES]
    parser.add_argument("--images", type=Path, help="a folder of images; default: photos as for peers.py")
    parser.add_argument(
        "-n", "--num-images", type=int, default=1000, help="at most; with fewer than 300 only the start is measured"
    )
    parser.add_argument("--model", type=Path, help="the folder of a model: models/NAME/ID; default: one of --network")
    parser.add_argument("--network", choices=list(NETWORKS), default="lite0")
    parser.add_argument("--workers", type=int, default=0, help="processes or threads; default: one for each core")
    parser.add_argument("--only", nargs="+", choices=names, default=[], metavar="STRATEGY", help=", ".join(names))
    parser.add_argument("--measure", choices=names, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
