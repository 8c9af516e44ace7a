"""Measure how often int8 or bf16 that passes keeps less than it promises.

Each network is quantised once for each calibration, with settings that a build tries, and predicts all photos once. The
splits into photos that choose, that judge and that are left reuse these labels, which --work keeps: a calibration that
is there is not made again.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from machine import describe_machine
from networks import save_network, size_of
from photos import find_photos

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from infer_app.artifact.description import Description
from infer_app.base.machine import has_vnni
from infer_app.build.build_model import build_model
from infer_app.build.network.golden_set import load_pixels
from infer_app.build.network.source_kinds import make_graph
from infer_app.build.variants.openvino_variants import INT8_SETTINGS
from infer_app.predict.runtimes import openvino
from infer_app.predict.verification.agreement import MARGIN, MIN_JUDGED
from infer_app.predict.verification.golden import predict_all
from infer_app.predict.verification.share import Share

MEAN, STD = 127 / 255, 128 / 255
PROMISED = 0.99
NUM_CHOOSING = 200


@dataclass(frozen=True)
class Build:
    """What a variant that a build would store keeps, 0-1: of the photos that judge, of the rest, and of both."""

    network: str
    judged: Share
    rest: float
    overall: float  # of all photos that did not calibrate: what the network keeps of photos to come

    @property
    def passes(self) -> bool:
        """Return whether a run takes it."""
        return self.judged.kept >= PROMISED and self.judged.interval[0] >= PROMISED - MARGIN

    @property
    def passes_by_share(self) -> bool:
        """Return whether a run would take it if the share alone decided."""
        return self.judged.kept >= PROMISED


def measure(name: str, photos: list[Path], work: Path, calibrations: int, calibrating: int, settings: int) -> None:
    """Save the labels of all views of all photos, (views, photos), in full precision, bf16 and each int8."""
    missing = [number for number in range(calibrations) if not (work / f"{name}-{number}.npz").exists()]
    if not missing:
        return
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"{name}.ts"
        save_network(name, source, photos[0].parent)
        given = {"crop_pct": 0.875, "interpolation": "bicubic", "mean": (MEAN,) * 3, "std": (STD,) * 3}
        described = Description(source=str(source), name=name, recipe="crop-resize", size=size_of(name), **given)
        artifact = build_model(described, Path(folder) / "models")
        graph, recipe = make_graph(artifact), artifact.manifest.recipe
    pixels = np.stack([load_pixels(path.read_bytes(), recipe) for path in photos])

    def labels(graph: object, dtype: str = "fp32") -> np.ndarray:
        model = openvino.compile_graph(graph, recipe.size, dtype=dtype)
        return np.stack([predict_all(model, view, model.batch_size).argmax(1) for view in _views(pixels)])

    np.savez(work / f"{name}.npz", full=labels(graph), bf16=labels(graph, "bf16"))
    for number in missing:
        chosen = sorted(random.Random(number).sample(range(len(photos)), calibrating))
        samples = np.split(pixels[chosen], calibrating)
        tried = [
            labels(openvino.quantise(graph, samples, one, overflow_fix=not has_vnni()))
            for one in INT8_SETTINGS[:settings]
        ]
        np.savez(work / f"{name}-{number}.npz", calibrating=chosen, int8=np.stack(tried))
        print(f"{name}: calibration {number + 1} of {calibrations}", file=sys.stderr, flush=True)


def _views(pixels: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the photos as they are and mirrored: the rest of a split has both, of each other part one of the two."""
    yield pixels
    yield np.ascontiguousarray(pixels[:, :, ::-1])


def read_builds(name: str, work: Path, splits: int, num_judging: int) -> Iterator[tuple[Build, Build, Build]]:
    """Yield of each split int8 as a build makes it, as it did when 100 photos chose and judged, and bf16."""
    files = sorted(work.glob(f"{name}-*.npz"))
    stored = np.load(work / f"{name}.npz")
    full, bf16 = stored["full"], stored["bf16"] == stored["full"]
    draw = np.random.default_rng(0)
    for number in range(splits):
        made = np.load(files[number % len(files)])
        same = made["int8"] == full  # (settings, views, photos)
        others = draw.permutation(np.setdiff1d(np.arange(full.shape[1]), made["calibrating"]))
        choosing, judging, rest = np.split(others, [NUM_CHOOSING, NUM_CHOOSING + num_judging])
        views = draw.integers(len(full), size=full.shape[1])  # of a photo that chooses or judges one
        one = np.take_along_axis(same, views[None, None], 1)[:, 0]
        chosen = _choose(one[:, choosing].mean(1), PROMISED + MARGIN)
        before = _choose(one[:, judging[:100]].mean(1), PROMISED)
        half = bf16[views, np.arange(len(views))]
        yield (
            _build(name, one[chosen, judging], same[chosen], others, rest),
            _build(name, one[before, judging[:100]], same[before], others, rest),
            _build(name, half[judging], bf16, others, rest),
        )


def _choose(kept: np.ndarray, enough: float) -> int:
    """Return the number of the first settings that keep enough, or else of the best."""
    return int(np.argmax(kept >= enough) if (kept >= enough).any() else np.argmax(kept))


def _build(name: str, judging: np.ndarray, same: np.ndarray, others: np.ndarray, rest: np.ndarray) -> Build:
    judged = Share(float(judging.mean()), len(judging), "label")
    return Build(name, judged, float(same[:, rest].mean()), float(same[:, others].mean()))


def describe(what: str, builds: list[Build]) -> str:
    """Return a row of the table."""
    kept = [build.overall for build in builds]
    cells = [what, f"{len(builds)}", f"{100 * np.mean(kept):.2f} % ({100 * min(kept):.1f} to {100 * max(kept):.1f})"]
    passing = ([one for one in builds if one.passes_by_share], [one for one in builds if one.passes])
    least = PROMISED - MARGIN
    for one in passing:
        broken = sum(build.rest < least for build in one), sum(build.overall < least for build in one)
        cells += [f"{len(one)}", "{}, {}".format(*broken)]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=Path, default=find_photos(), help="1,000 different ones")
    parser.add_argument("--networks", nargs="+", default=["lite0", "lite1", "lite2"])
    parser.add_argument("--work", type=Path, required=True, help="folder for the labels")
    parser.add_argument("--calibrations", type=int, default=40)
    parser.add_argument("--calibrating", type=int, default=200, help="photos that calibrate")
    parser.add_argument("--settings", type=int, default=3, help="that a build tries")
    parser.add_argument("--splits", type=int, default=40)
    options = parser.parse_args()
    options.work.mkdir(exist_ok=True)
    photos = sorted(path for path in options.photos.iterdir() if path.suffix.lower() in (".jpg", ".jpeg"))
    for name in options.networks:
        measure(name, photos, options.work, options.calibrations, options.calibrating, options.settings)
    broken = "… that keep too little: of the rest, of all"
    print(f"| variant | splits | kept of all (worst to best) | pass by the share alone | {broken} | pass | {broken} |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for num_judging in (MIN_JUDGED, 400):
        pooled: list[Build] = []
        for name in options.networks:
            now, before, half = map(
                list, zip(*read_builds(name, options.work, options.splits, num_judging), strict=True)
            )
            if num_judging == MIN_JUDGED:
                print(describe(f"{name}, int8, 100 photos choose and judge", before))
            print(describe(f"{name}, int8, {num_judging} judge", now))
            print(describe(f"{name}, bf16, {num_judging} judge", half))
            pooled += now + half
        print(describe(f"all, {num_judging} judge", pooled))
    print(f"\n{describe_machine()}")


if __name__ == "__main__":
    main()
