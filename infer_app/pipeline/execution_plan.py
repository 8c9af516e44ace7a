"""Plans how a model runs on this host, by what was measured on it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from infer_app.domain import Alternative, Chunk, ImageRef
from infer_app.errors import ModelError
from infer_app.executors import CpuExecutor
from infer_app.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.images.read.read_image import ReadLimits
from infer_app.machine import cap_by_memory, usable_cores
from infer_app.models.artifact.artifact import Artifact
from infer_app.models.runtimes.variants import PRECISIONS, is_tensorrt, missing_for, runnable
from infer_app.models.selection.tuning import Layout, Speed, Tuning, load_tuning, new_tuning, save_tuning
from infer_app.models.selection.variant_selection import (
    AUTO,
    VariantRequest,
    VariantSelection,
    choose_variant,
    requested_precision,
)
from infer_app.workers.isolated_call import run_in_process

log = logging.getLogger(__name__)

LAYOUT_S = 2.0  # of steady work measured, for each layout
CHUNK_SIZE = 8  # images
NO_LIMIT = 1 << 40  # bytes and pixels: the golden images were checked when the model was built
TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """How a model will run on this host, decided before anything is loaded."""

    choice: VariantSelection
    batch_size: int | None  # None: the variant's own
    workers: int
    threads: int  # of each worker
    alternatives: tuple[Alternative, ...] = ()

    @property
    def variant(self) -> str:
        return self.choice.variant

    @property
    def device(self) -> str:
        """Return the device the executor is for, cpu or cuda."""
        return self.choice.device


def plan_execution(artifact: Artifact, request: VariantRequest, num_workers: int = 0) -> ExecutionPlan:
    """Plan by what was measured on this host; measure it now if it never was. `num_workers` 0: as measured.

    Raises UsageError for a variant the model doesn't have and ModelError if none can run here.
    """
    num_cores = usable_cores()
    choice = choose_variant(artifact.manifest, {}, request, missing_or_broken)
    if choice.device == "cuda":
        return ExecutionPlan(choice, None, num_workers or num_cores, 1)
    tuning = load_tuning(artifact.folder, num_cores) or _measure_if_needed(artifact, request, num_cores)
    choice = choose_variant(artifact.manifest, tuning.speeds, request, missing_or_broken)
    layout = tuning.layout_of(choice.variant) or Layout(num_cores, 1)
    workers = num_workers or cap_by_memory(layout.workers, tuning.worker_bytes)
    if workers < layout.workers and not num_workers:
        log.warning("%d workers instead of %d: there is not enough memory for more", workers, layout.workers)
    speed = tuning.speeds.get(choice.variant)
    return ExecutionPlan(
        choice,
        speed.batch_size if speed else None,
        workers,
        layout.threads if workers == layout.workers else 1,
        tuple(_alternatives(artifact, choice.variant, tuning)),
    )


def missing_or_broken(variant: str, requires: Mapping[str, Any]) -> str | None:
    """Return why the variant can't run here, None if it can; for TensorRT also whether torch-tensorrt really loads."""
    why = missing_for(variant, requires)
    if why is not None or not is_tensorrt(variant) or (broken := broken_tensorrt()) is None:
        return why
    return "; ".join(broken)


@cache
def broken_tensorrt() -> tuple[str, str] | None:
    """Return why torch-tensorrt can't be loaded and a fix, None if it can; tried once, in another process."""
    return run_in_process(why_tensorrt_fails)


def why_tensorrt_fails() -> tuple[str, str] | None:
    """Return why torch-tensorrt can't be loaded and how to fix it; None if it can.

    It loads torch, so call it in another process.
    """
    from infer_app.models.runtimes.tensorrt import why_unusable

    return why_unusable()


def measure_speeds(artifact: Artifact, is_quick: bool = False) -> Tuning:
    """Measure and save every variant with every batch size, or with few of them if `is_quick`, on one core."""
    from infer_app.models.selection.measure import measure_in_worker

    num_cores = usable_cores()
    tuning = new_tuning(num_cores, run_in_process(measure_in_worker, artifact.folder, is_quick))
    _save(artifact, tuning, num_cores)
    return tuning


def measure_speeds_here(artifact: Artifact) -> None:
    """Measure and save every variant with few batch sizes in this process, which has loaded torch already."""
    from infer_app.models.selection.measure import FEW_BATCH_SIZES, measure_variants

    num_cores = usable_cores()
    if load_tuning(artifact.folder, num_cores) is None:
        _save(artifact, new_tuning(num_cores, measure_variants(artifact, FEW_BATCH_SIZES)), num_cores)


def measure_layouts(artifact: Artifact, tuning: Tuning, report_progress: Callable[[str], None]) -> Tuning:
    """Measure numbers of workers and threads with the real executor, for each variant that `auto` may choose."""
    num_cores = usable_cores()
    for variant in _auto_variants(artifact, tuning):
        layouts = []
        for threads in _divisors(num_cores):
            workers = cap_by_memory(num_cores // threads, tuning.worker_bytes)
            rate, worker_bytes = _measure_layout(artifact, variant, tuning.speeds[variant], workers, threads)
            layouts.append(Layout(workers, threads, round(rate, 1)))
            tuning = replace(tuning, worker_bytes=max(worker_bytes, tuning.worker_bytes or 0))
            report_progress(f"{variant}: {workers} workers x {threads} threads: {rate:.0f} images/s")
        fastest_first = sorted(layouts, key=lambda layout: layout.images_per_second or 0.0, reverse=True)
        tuning = replace(tuning, layouts={**tuning.layouts, variant: tuple(fastest_first)})
    _save(artifact, tuning, num_cores)
    return tuning


def probe_decoding(handler: HandlerSpec, locations: Sequence[str]) -> list[Alternative]:
    """Measure scaled decoding on these images; return nothing if none of them is large enough."""
    from infer_app.models.build.decoding_agreement import decoding_ms

    given = (handler.models[0].artifact, handler.read, handler.max_pixels, locations)
    try:
        costs = run_in_process(decoding_ms, *given, timeout_s=TIMEOUT_S)
    except ModelError as error:  # a file can crash or hang the decoder; the run reports which one
        log.info("scaled decoding was not measured: %s", error)
        return []
    if costs is None:
        return []
    what = "a model built with --decode scaled (large JPEGs at a fraction of their size)"
    return [Alternative(what, ("decode", "transform"), costs["scaled"], costs["exact"])]


def _measure_if_needed(artifact: Artifact, request: VariantRequest, num_cores: int) -> Tuning:
    """Measure the variants, unless there is only one to choose."""
    manifest = artifact.manifest
    precision = requested_precision(manifest, request)
    candidates = [variant for variant in runnable(manifest) if PRECISIONS[variant] == precision]
    if request.variant != AUTO or len(candidates) < 2:
        return new_tuning(num_cores, {})
    log.info("%s has not been measured on this machine yet: measuring its variants once", manifest.name)
    try:
        return measure_speeds(artifact, is_quick=True)
    except ModelError as error:
        log.warning("%s can't be measured, its first variant is used: %s (%s)", manifest.name, error, error.hint)
        return new_tuning(num_cores, {})


def _save(artifact: Artifact, tuning: Tuning, num_cores: int) -> None:
    if not save_tuning(artifact.folder, num_cores, tuning):
        log.warning("%s can't be written: what was measured there will be measured again", artifact.folder)


def _auto_variants(artifact: Artifact, tuning: Tuning) -> list[str]:
    """Return the variants that `auto` chooses with and without int8 allowed."""
    requests = (VariantRequest(device="cpu"), VariantRequest(device="cpu", allow_int8=True))
    chosen = dict.fromkeys(choose_variant(artifact.manifest, tuning.speeds, request).variant for request in requests)
    return [variant for variant in chosen if variant in tuning.speeds]


def _divisors(num_cores: int) -> list[int]:
    """Return numbers of threads that divide the cores evenly: 1, 2, 4 … and all."""
    powers = [1 << bit for bit in range(num_cores.bit_length()) if num_cores % (1 << bit) == 0]
    return sorted({*powers, num_cores})


def _measure_layout(artifact: Artifact, variant: str, speed: Speed, workers: int, threads: int) -> tuple[float, int]:
    """Return the images per second once all workers run, and the private memory of a worker in bytes."""
    model = ModelSpec(artifact.folder, variant, speed.batch_size)
    spec = HandlerSpec((model,), ReadLimits((artifact.folder,), NO_LIMIT), NO_LIMIT, threads)
    stop_at = [float("inf")]
    seen: list[tuple[float, int]] = []
    with CpuExecutor(spec, workers, TIMEOUT_S) as executor:
        for result in executor.run(_golden_chunks(artifact, stop_at)):
            seen.append((time.monotonic(), result.num_images))
            if len(seen) == 2 * workers:  # all workers have started
                stop_at[0] = time.monotonic() + LAYOUT_S
        worker_bytes = max(map(_private_bytes, executor.worker_pids()), default=0)
    return _rate(seen[2 * workers - 1 :]), worker_bytes


def _golden_chunks(artifact: Artifact, stop_at: Sequence[float]) -> Iterator[Chunk]:
    refs = [ImageRef(name, str(artifact.folder / name)) for name in artifact.manifest.golden]
    some = tuple((refs * CHUNK_SIZE)[:CHUNK_SIZE])
    for number in count():
        if time.monotonic() > stop_at[0]:
            return
        yield Chunk(number, some)


def _rate(seen: Sequence[tuple[float, int]]) -> float:
    """Return the images per second from the first result on."""
    if len(seen) < 2:
        return 0.0
    return sum(num_images for _, num_images in seen[1:]) / (seen[-1][0] - seen[0][0])


def _private_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Private_"))


def _alternatives(artifact: Artifact, variant: str, tuning: Tuning) -> Iterator[Alternative]:
    """Yield int8 if it agrees enough, was measured here and isn't allowed yet."""
    for other, details in artifact.manifest.variants.items():
        if not details.get("meets_bar") or PRECISIONS.get(other) == PRECISIONS[variant]:
            continue
        if other in tuning.speeds and variant in tuning.speeds:
            kept = details.get("calibration", {}).get("label_agreement", 0.0)
            yield Alternative(
                f"--allow-int8 (kept {kept:.1%} of the labels when it was built)",
                ("model",),
                tuning.speeds[other].ms_per_image,
                tuning.speeds[variant].ms_per_image,
            )
