"""Measure how often a build of int8 or bf16 that passes keeps less than it promises.

Each network is quantised once for each calibration, with each of the settings that a build tries, and predicts all
photos once. The splits into photos that choose, that judge and that are left reuse these labels.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from networks import save_network, size_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.description import Description
from infer_app.base.machine import has_vnni
from infer_app.build.build_model import build_model
from infer_app.build.network.golden_set import load_pixels
from infer_app.build.network.source_kinds import make_graph
from infer_app.build.variants.openvino_variants import INT8_SETTINGS
from infer_app.predict.runtimes import openvino
from infer_app.predict.verification.golden import predict_all

MEAN, STD = 127 / 255, 128 / 255
NUM_CALIBRATING = 200
SETTINGS = INT8_SETTINGS[:3]  # the fourth is for detectors
DARKER = 0.8


class Labels(NamedTuple):
    """The labels of all views of all photos, (views, photos), in full precision and by variant."""

    full: np.ndarray
    bf16: np.ndarray
    int8: np.ndarray  # (calibrations, settings, views, photos)
    calibrating: np.ndarray  # (calibrations, NUM_CALIBRATING): numbers of photos


def measure(name: str, photos: list[Path], num_calibrations: int) -> Labels:
    """Return the labels of a network's photos by each variant, with each calibration."""
    with tempfile.TemporaryDirectory() as folder:
        artifact = _build(name, Path(folder), photos[0].parent)
        graph = make_graph(artifact)
        pixels = np.stack([load_pixels(path.read_bytes(), artifact.manifest.recipe, None) for path in photos])
    size = artifact.manifest.recipe.size

    def labels(graph: object, dtype: str = "fp32") -> np.ndarray:
        model = openvino.compile_graph(graph, size, dtype=dtype)
        return np.stack([predict_all(model, view, model.batch_size).argmax(1) for view in _views(pixels)])

    draw = random.Random(0)
    sets = [sorted(draw.sample(range(len(photos)), NUM_CALIBRATING)) for _ in range(num_calibrations)]
    int8 = []
    for number, calibrating in enumerate(sets):
        samples = np.split(pixels[calibrating], NUM_CALIBRATING)
        quantised = (openvino.quantise(graph, samples, one, overflow_fix=not has_vnni()) for one in SETTINGS)
        int8.append([labels(one) for one in quantised])
        print(f"{name}: calibration {number + 1} of {num_calibrations}", file=sys.stderr, flush=True)
    return Labels(labels(graph), labels(graph, "bf16"), np.array(int8), np.array(sets))


def _build(name: str, folder: Path, photos: Path) -> Artifact:
    source = folder / f"{name}.ts"
    save_network(name, source, photos)
    normalise = {"mean": (MEAN,) * 3, "std": (STD,) * 3}
    recipe = {"recipe": "crop-resize", "size": size_of(name), "crop_pct": 0.875, "interpolation": "bicubic"}
    return build_model(Description(source=str(source), name=name, **recipe, **normalise), folder / "models")


def _views(pixels: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the photos as they are, mirrored, and darker: what is left of a split is judged on all three."""
    yield pixels
    yield np.ascontiguousarray(pixels[:, :, ::-1])
    yield (pixels * DARKER).astype(np.uint8)
