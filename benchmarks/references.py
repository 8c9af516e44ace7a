"""What the libraries reach by themselves on the same cores, and our share of it.

The references are OpenVINO's own benchmark of our graph, and a loop that does nothing but decode.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from contestants import MODEL, PROGRAMS, Project
from networks import size_of
from timing import ProgramFailed, call

from infer_app.base.size import Size
from infer_app.predict.runtimes.openvino import BATCH_SIZE

BENCHMARK_APP = Path(sys.executable).with_name("benchmark_app")
SECONDS = 10
FP32, BF16, INT8 = "cpu-openvino-fp32", "cpu-openvino-bf16", "cpu-openvino-int8"


def shares(project: Project, report: dict[str, Any], seconds: float) -> dict[str, float]:
    """Return the references' images per second and our shares; `report` is of an infer run that took `seconds`.

    A stage's rate is the number of cores divided by its CPU time per image. Decoding at a fraction of the size has no
    reference.
    """
    cores, stages = project.contest.num_cores, report["stages"]
    rates = {"model": model_rate(project, report["variant"])}
    if not project.contest.scaled:
        rates["decode"] = decode_rate(project)
    limit = 1000 * cores / sum(stages.values())
    return {
        **{f"{stage}_reference": rate for stage, rate in rates.items()},
        **{f"{stage}_share": 1000 * cores / stages[stage] / rate for stage, rate in rates.items()},
        "limit": limit,
        "share_of_limit": (report["steady_images_per_second"] or float("nan")) / limit,
        "whole_share_of_limit": report["predicted"] / seconds / limit,
    }


def model_rate(project: Project, variant: str) -> float:
    """Return the images per second of OpenVINO's benchmark_app at the variant's batch size and precision."""
    (artifact,) = (project.folder / "models" / MODEL).iterdir()
    graph = artifact / "variants" / (INT8 if variant == INT8 else FP32) / "model.xml"
    size = size_of(project.contest.network)
    batch_size = Size.square(size).largest_batch(BATCH_SIZE)
    command = [str(BENCHMARK_APP), "-m", str(graph), "-d", "CPU", "-hint", "throughput", "-t", str(SECONDS)]
    command += ["-infer_precision", "bf16" if variant == BF16 else "f32", "-shape", f"[{batch_size},{size},{size},3]"]
    output = call(command, project.folder, project.contest.cores).output
    found = re.search(r"Throughput:\s+([\d.]+) FPS", output)
    if found is None:
        raise ProgramFailed(f"{' '.join(command)} printed no throughput\n{output}")
    return float(found[1])


def decode_rate(project: Project) -> float:
    """Return the images per second of libjpeg-turbo, on as many processes as cores."""
    command = [sys.executable, str(PROGRAMS / "decode_loop.py"), str(project.photos)]
    command += ["--processes", str(project.contest.num_cores)]
    return float(call(command, project.folder, project.contest.cores).output)
