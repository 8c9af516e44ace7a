"""Measures how many workers and threads are fastest on this machine, by the real worker pool."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

from infer_app.artifact.artifact import Artifact
from infer_app.base.domain import Chunk, ImageRef
from infer_app.base.errors import ModelError
from infer_app.base.machine import cap_by_memory, usable_cores
from infer_app.base.model_variants import CPU_DTYPES
from infer_app.base.plurals import counted, shown_rate
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.predict.handlers.open_handler import open_cpu_handler
from infer_app.predict.planning.execution_plan import estimate_bytes, keep_tuning
from infer_app.predict.planning.tuning import Layout, Speed, Tuning
from infer_app.predict.planning.variant_selection import AUTO, VariantRequest, choose_variant
from infer_app.predict.workers.pool import Stage, WorkerPool

ALIKE = 0.05  # share of the rate, within the measurement's own variation
LAYOUT_S = 2.0  # of steady work measured, for each layout
CHUNK_SIZE = 8  # images; of slow models one batch
CHUNK_MS = 2000.0  # longest of CHUNK_SIZE images
NO_LIMIT = 1 << 40  # bytes and pixels: the golden images were checked when the model was built
TIMEOUT_S = 60.0


def measure_layouts(artifact: Artifact, tuning: Tuning, report_progress: Callable[[str], None]) -> Tuning:
    """Measure numbers of workers and threads with the real worker pool, for each variant that `auto` may choose."""
    num_cores = usable_cores()
    for variant in _auto_variants(artifact, tuning):
        layouts = []
        for threads in _divisors(num_cores):
            workers = cap_by_memory(num_cores // threads, tuning.worker_bytes or estimate_bytes(artifact, variant))
            rate, worker_bytes = _measure_layout(artifact, variant, tuning.speeds[variant], workers, threads)
            layouts.append(Layout(workers, threads, round(rate, 3)))
            tuning = replace(tuning, worker_bytes=max(worker_bytes, tuning.worker_bytes or 0))
            report_progress(
                f"{variant}: {counted(workers, 'worker')} x {counted(threads, 'thread')}: {shown_rate(rate)} images/s"
            )
        tuning = replace(tuning, layouts={**tuning.layouts, variant: best_first(layouts)})
    keep_tuning(artifact, tuning, num_cores)
    return tuning


def best_first(layouts: Sequence[Layout]) -> tuple[Layout, ...]:
    """Return the fastest first; of those about as fast, that with most workers: photos take longer to decode than the
    golden images, and a worker decodes on one core.
    """
    about_best = (1 - ALIKE) * max(layout.images_per_second or 0.0 for layout in layouts)

    def rank(layout: Layout) -> tuple[bool, float]:
        rate = layout.images_per_second or 0.0
        return rate < about_best, -(layout.workers if rate >= about_best else rate)

    return tuple(sorted(layouts, key=rank))


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
        for result in pool.run(_golden_chunks(artifact, _chunk_size(speed), stop_at)):
            seen.append((time.monotonic(), result.num_images))
            if len(seen) == 2 * workers:  # all workers have started
                stop_at[0] = time.monotonic() + LAYOUT_S
        worker_bytes = max(map(_private_bytes, pool.pids()), default=0)
    return _rate(seen[2 * workers - 1 :]), worker_bytes


def _chunk_size(speed: Speed) -> int:
    return CHUNK_SIZE if CHUNK_SIZE * speed.ms_per_image <= CHUNK_MS else speed.batch_size


def _golden_chunks(artifact: Artifact, num_images: int, stop_at: Sequence[float]) -> Iterator[Chunk]:
    refs = [ImageRef(name, str(artifact.folder / name)) for name in artifact.manifest.golden]
    some = tuple((refs * num_images)[:num_images])
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
