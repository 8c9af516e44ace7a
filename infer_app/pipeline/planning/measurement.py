"""Measurements on this machine: numbers of workers and threads by the real worker pool, scaled decoding, dtypes."""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from infer_app.domain import Chunk, ImageRef
from infer_app.errors import ModelError
from infer_app.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.handlers.open_handler import open_cpu_handler
from infer_app.images.read.local_files import ReadLimits
from infer_app.machine import cap_by_memory, usable_cores
from infer_app.model_variants import CPU_DTYPES, OPENVINO_BF16, OPENVINO_INT8, VariantTrial, variant_of
from infer_app.models.artifact.artifact import Artifact
from infer_app.models.artifact.manifest import Manifest
from infer_app.models.runtimes.gpu_probe import missing_for
from infer_app.models.selection.tuning import Layout, Speed, Tuning, load_tuning
from infer_app.models.selection.variant_selection import AUTO, VariantRequest, choose_variant
from infer_app.pipeline.planning.execution_plan import keep_tuning
from infer_app.plurals import counted
from infer_app.run_report import Alternative
from infer_app.workers.isolated_call import run_in_process
from infer_app.workers.pool import Stage, WorkerPool

if TYPE_CHECKING:
    from infer_app.models.build.judge_variants import Trial

log = logging.getLogger(__name__)

LAYOUT_S = 2.0  # of steady work measured, for each layout
CHUNK_SIZE = 8  # images
NO_LIMIT = 1 << 40  # bytes and pixels: the golden images were checked when the model was built
TIMEOUT_S = 60.0
TRIAL_S = 10.0  # for decoding a sample and computing it by each variant


def measure_layouts(artifact: Artifact, tuning: Tuning, report_progress: Callable[[str], None]) -> Tuning:
    """Measure numbers of workers and threads with the real worker pool, for each variant that `auto` may choose."""
    num_cores = usable_cores()
    for variant in _auto_variants(artifact, tuning):
        layouts = []
        for threads in _divisors(num_cores):
            workers = cap_by_memory(num_cores // threads, tuning.worker_bytes)
            rate, worker_bytes = _measure_layout(artifact, variant, tuning.speeds[variant], workers, threads)
            layouts.append(Layout(workers, threads, round(rate, 1)))
            tuning = replace(tuning, worker_bytes=max(worker_bytes, tuning.worker_bytes or 0))
            report_progress(
                f"{variant}: {counted(workers, 'worker')} x {counted(threads, 'thread')}: {rate:.0f} images/s"
            )
        fastest_first = sorted(layouts, key=lambda layout: layout.images_per_second or 0.0, reverse=True)
        tuning = replace(tuning, layouts={**tuning.layouts, variant: tuple(fastest_first)})
    keep_tuning(artifact, tuning, num_cores)
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


def probe_variants(artifact: Artifact, handler: HandlerSpec, locations: Sequence[str]) -> list[Alternative]:
    """Measure the variants that round and can run here beside the present one, on these images, in some seconds."""
    from infer_app.models.build.judge_variants import try_variants

    spec, manifest = handler.models[0], artifact.manifest
    others = _others(manifest, spec.variant)
    if not others:
        return []
    tuning = load_tuning(artifact.folder, usable_cores())
    known = {variant: speed.batch_size for variant, speed in tuning.speeds.items()} if tuning else {}
    sizes = {spec.variant: spec.batch_size} | {variant: known.get(variant) for variant in others}
    given = (artifact.folder, sizes, handler.read, locations, TRIAL_S)
    try:
        trials = run_in_process(try_variants, *given, timeout_s=TIMEOUT_S)
    except ModelError as error:
        log.info("other variants were not measured: %s (%s)", error, error.hint)
        return []
    return [_alternative(manifest, variant, trial) for variant, trial in trials.items()]


def _others(manifest: Manifest, variant: str) -> list[str]:
    """Return bf16 and int8 if they can run here in place of a variant of the CPU that does not round.

    bf16 needs only the graph of fp32. What was judged before to change too much is left out.
    """
    if variant_of(variant).device != "cpu" or not variant_of(variant).is_exact:
        return []
    return [
        other
        for other in (OPENVINO_BF16, OPENVINO_INT8)
        if variant_of(other).stored_as in manifest.variants
        and missing_for(other) is None
        and manifest.variants.get(other, {}).get("meets_bar", True)
    ]


def _alternative(manifest: Manifest, variant: str, trial: Trial) -> Alternative:
    from infer_app.models.build.calibration import MIN_AGREEMENT
    from infer_app.models.build.judge_variants import describe_kept

    parity, known = trial.parity, manifest.variants.get(variant)
    min_agreement = (known or {}).get("min_agreement", MIN_AGREEMENT)
    found = VariantTrial(
        variant,
        parity.num_images,
        parity.label_agreement if manifest.output.kind == "classification" else None,
        parity.cosine,
        parity.p99_score_difference,
        parity.worst_score_difference,
        min_agreement,
        trial.score >= min_agreement,
        parity.object_agreement,
    )
    measured = f"{describe_kept(manifest, parity)}, measured on {parity.num_images:,} of your images"
    to_add = "" if known else f"; `infer model judge {shlex.quote(manifest.name)}` adds it to the model"
    what = f"{variant_of(variant).option} ({measured}{to_add})"
    return Alternative(what, ("model",), trial.ms, trial.instead_of, variant, found)


def _auto_variants(artifact: Artifact, tuning: Tuning) -> list[str]:
    """Return the variant that `auto` chooses for each dtype."""
    chosen = []
    for choice in CPU_DTYPES:
        with suppress(ModelError):  # the model has no such variant, or this CPU can't run it
            request = VariantRequest(AUTO, choice, device="cpu")
            chosen.append(choose_variant(artifact.manifest, tuning.speeds, request).variant)
    return [variant for variant in chosen if variant in tuning.speeds]


def _divisors(num_cores: int) -> list[int]:
    """Return numbers of threads that divide the cores evenly: 1, 2, 4 … and all."""
    powers = [1 << bit for bit in range(num_cores.bit_length()) if num_cores % (1 << bit) == 0]
    return sorted({*powers, num_cores})


def _measure_layout(artifact: Artifact, variant: str, speed: Speed, workers: int, threads: int) -> tuple[float, int]:
    """Return the images per second once all workers run, and the private memory of a worker in bytes."""
    model = ModelSpec.of(artifact, variant, speed.batch_size)
    spec = HandlerSpec((model,), ReadLimits((artifact.folder,), NO_LIMIT), NO_LIMIT, threads)
    stop_at = [float("inf")]
    seen: list[tuple[float, int]] = []
    with WorkerPool([Stage("predict", [partial(open_cpu_handler, spec)] * workers)], TIMEOUT_S) as pool:
        for result in pool.run(_golden_chunks(artifact, stop_at)):
            seen.append((time.monotonic(), result.num_images))
            if len(seen) == 2 * workers:  # all workers have started
                stop_at[0] = time.monotonic() + LAYOUT_S
        worker_bytes = max(map(_private_bytes, pool.pids()), default=0)
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
