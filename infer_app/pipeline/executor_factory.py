"""Plans how models run by the settings, and opens the executor: CPU, GPU or a Ray cluster."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from infer_app.database.listing.row_images import RowReader
from infer_app.errors import ModelError, UsageError
from infer_app.executors import CpuExecutor, CudaExecutor, Executor
from infer_app.handlers.handler_spec import CacheSpec, HandlerSpec, ModelSpec
from infer_app.images.read.read_image import ReadLimits
from infer_app.models.artifact.artifact import Artifact
from infer_app.models.selection.variant_selection import VariantRequest
from infer_app.pipeline.execution_plan import ExecutionPlan, plan_execution
from infer_app.settings.load import LoadedSettings

log = logging.getLogger(__name__)

SLOT_IMAGES = 64  # in a slot of the ring, in a chunk and in a batch


def plan_run(
    loaded: LoadedSettings, artifact: Artifact, resume_variant: str | None = None, device: str | None = None
) -> ExecutionPlan:
    """Plan by the settings how a model runs; `resume_variant` is the variant of a day that is resumed.

    `device` overrides the setting. Raises UsageError and ModelError as `plan_execution` does.
    """
    run = loaded.run
    if run.executor == "cpu" and run.device == "cuda":
        raise UsageError("the cpu executor has no device cuda", "leave out --executor, or --device")
    if run.executor == "cpu" or (run.executor == "ray" and not loaded.ray.num_gpus):
        device = "cpu"
    return plan_execution(
        artifact, VariantRequest(run.variant, run.allow_int8, resume_variant, device or run.device), run.workers
    )


def plan_together(
    loaded: LoadedSettings, artifacts: Sequence[Artifact], resume_variant: Sequence[str | None]
) -> list[ExecutionPlan]:
    """Plan models that share a handler, and so a device: the CPU if one of them has no variant for the GPU."""
    plans = [plan_run(loaded, *one) for one in zip(artifacts, resume_variant, strict=True)]
    if len({plan.device for plan in plans}) == 1:
        return plans
    log.warning("not every model has a variant for the GPU: all run on the CPU, unless you run them one by one")
    return [plan_run(loaded, *one, device="cpu") for one in zip(artifacts, resume_variant, strict=True)]


def open_executor(
    loaded: LoadedSettings,
    artifacts: Sequence[Artifact],
    plans: Sequence[ExecutionPlan],
    roots: tuple[Path, ...] | None = None,
    trace: bool = False,
    cache: CacheSpec | None = None,
    executor: str | None = None,
) -> Executor:
    """Open the executor that runs the plans.

    `roots`, whose paths are not mapped, and `executor` override the settings.
    """
    images, limits = loaded.images, read_limits(loaded)
    spec = HandlerSpec(
        models=tuple(
            ModelSpec(artifact.folder, plan.variant, plan.batch_size)
            for artifact, plan in zip(artifacts, plans, strict=True)
        ),
        read=limits if roots is None else ReadLimits(roots, images.max_bytes),
        max_pixels=images.max_pixels,
        num_threads=plans[0].threads,
        trace=trace,
        cache=cache,
    )
    kind = executor or loaded.run.executor
    if kind == "ray":
        if not loaded.ray.num_gpus:
            _check_decoding(artifacts, is_asked_for=True)
        return _open_ray(loaded, spec, plans[0], artifacts[0].manifest.recipe.size)
    if kind == "cuda" or (kind == "auto" and plans[0].device == "cuda"):
        size = artifacts[0].manifest.recipe.size
        return CudaExecutor(spec, plans[0].workers, images.timeout_s, SLOT_IMAGES, size, plans[0].device)
    _check_decoding(artifacts, is_asked_for=kind == "cpu")
    return CpuExecutor(spec, plans[0].workers, images.timeout_s)


def _check_decoding(artifacts: Sequence[Artifact], is_asked_for: bool) -> None:
    """Raise UsageError or ModelError if a model decodes on a GPU, which the cpu executor can't."""
    for manifest in (artifact.manifest for artifact in artifacts):
        if manifest.recipe.decode == "gpu":
            raise (UsageError if is_asked_for else ModelError)(
                f"{manifest.name} decodes on a GPU, which the cpu executor does not",
                "run it on a machine with a GPU; or use --executor cuda, which does the same without one; "
                "or a model that was built with --decode exact",
            )


def _open_ray(loaded: LoadedSettings, handler: HandlerSpec, plan: ExecutionPlan, size: int) -> Executor:
    """Open the executor on Ray. Raises UsageError without Ray or its cluster, and as `check_nodes` does."""
    from infer_app.cluster.ray_cluster import ClusterSpec
    from infer_app.cluster.ray_executor import RayExecutor  # loads ray

    spec = ClusterSpec(**dict(loaded.ray))
    slot = (SLOT_IMAGES, size, plan.device) if spec.num_gpus else None
    handler = replace(handler, num_threads=min(handler.num_threads, spec.num_cpus or handler.num_threads))
    with ExitStack() as closing:
        executor = RayExecutor(handler, loaded.run.workers, loaded.images.timeout_s, spec, slot)
        closing.push(executor)
        check_nodes(loaded, executor.num_nodes)
        closing.pop_all()
    return executor


def check_nodes(loaded: LoadedSettings, num_nodes: int) -> None:
    """Raise UsageError if more than one node would need an SQLite file, for the results or for images' bytes."""
    read_by_nodes = [loaded.source_url] if loaded.source.bytes is not None else []
    if num_nodes > 1 and any(url.startswith("sqlite") for url in (loaded.database_url, *read_by_nodes)):
        raise UsageError(
            f"SQLite together with a Ray cluster of {num_nodes} nodes: its file is on this machine",
            'use PostgreSQL or MariaDB, or [ray] address = "local"',
        )


def read_limits(loaded: LoadedSettings) -> ReadLimits:
    """Return the limits of the settings for reading the source's images."""
    rows = RowReader(loaded.source_url, loaded.source) if loaded.source.bytes is not None else None
    return ReadLimits(loaded.roots, loaded.images.max_bytes, loaded.remote_access, loaded.path_map, rows)
