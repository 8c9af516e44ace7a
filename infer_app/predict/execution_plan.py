"""Plans how a model runs on this host."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from infer_app.artifact.artifact import Artifact
from infer_app.base.errors import UsageError
from infer_app.base.machine import ASSUMED_WORKER_BYTES, cap_by_memory, usable_cores
from infer_app.base.model_variants import BegunVariant, variant_of
from infer_app.base.printing import counted
from infer_app.base.settings.load import LoadedSettings
from infer_app.base.size import Size
from infer_app.predict.runtimes.gpu_probe import missing_for
from infer_app.predict.variant_selection import VariantRequest, choose_variant
from infer_app.predict.workers.isolated_call import run_in_process

log = logging.getLogger(__name__)

OWN_BATCH = 4  # images, at most, of a variant by itself
BYTES_PER_PIXEL = 300  # of the input: a detector of 1280x1280 pixels took 0.8 to 1.4 GB


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """How a model will run on this host, decided before anything is loaded."""

    variant: str
    passed_over: dict[str, str]  # why each other variant was not selected
    batch_size: int | None  # None: the variant's own
    workers: int  # 0: on a cluster, one for each CPU of an actor
    threads: int  # of each worker
    is_idle: bool = False  # it has nothing to predict, so its network is not opened
    worker_bytes: int = field(default=0, compare=False)  # private memory of a worker with this model alone, on the CPU

    @property
    def device(self) -> str:
        """Return the device the executor is for, cpu or cuda."""
        return variant_of(self.variant).device


def plan_run(
    loaded: LoadedSettings, artifact: Artifact, begun: BegunVariant | None = None, device: str | None = None
) -> ExecutionPlan:
    """Plan by the settings how a model runs; `begun` is the variant of a day that is resumed.

    `device` overrides the setting. Raises UsageError and ModelError as `plan_execution` does.
    """
    run = loaded.run
    if run.executor == "cpu" and run.device == "cuda":
        raise UsageError("the cpu executor has no device cuda", "leave out --executor, or --device")
    if run.executor == "cpu" or (run.executor == "ray" and not loaded.ray.num_gpus):
        device = "cpu"
    request = VariantRequest(run.precision, device or run.device, begun)
    plan = plan_execution(artifact, request, 0 if run.executor == "ray" else run.workers)
    return replace(plan, workers=run.workers) if run.executor == "ray" else plan  # each node has its own cores


def plan_together(
    loaded: LoadedSettings, artifacts: Sequence[Artifact], begun: Sequence[BegunVariant | None]
) -> list[ExecutionPlan]:
    """Plan models that share a handler, and so a device: the CPU if one of them has no variant for the GPU."""
    seconds = [artifact.manifest.name for artifact in artifacts if artifact.manifest.crop]
    if seconds:
        _check_on_cpu(loaded, seconds)
    plans = [plan_run(loaded, *one) for one in zip(artifacts, begun, strict=True)]
    devices = {plan.device for plan in plans}
    if devices == {"cpu"} or (len(devices) == 1 and not seconds):
        return _fit_together(loaded, plans)
    if seconds:
        why = f"{', '.join(seconds)} can't run on the GPU yet: all run on the CPU, unless the detector was run before"
    else:
        why = "not every model has a variant for the GPU: all run on the CPU, unless you run them one by one"
    log.warning("%s", why)
    return _fit_together(loaded, [plan_run(loaded, *one, device="cpu") for one in zip(artifacts, begun, strict=True)])


def _fit_together(loaded: LoadedSettings, plans: list[ExecutionPlan]) -> list[ExecutionPlan]:
    """Return the plans with as many workers as fit into memory, each of which loads all models, libraries once."""
    if len(plans) == 1 or loaded.run.workers or loaded.run.executor == "ray" or plans[0].device != "cpu":
        return plans
    of_models = sum(max(0, plan.worker_bytes - ASSUMED_WORKER_BYTES) for plan in plans)
    workers = cap_by_memory(plans[0].workers, ASSUMED_WORKER_BYTES + of_models)
    if workers == plans[0].workers:
        return plans
    log.warning("%d workers instead of %d: there is not enough memory for more", workers, plans[0].workers)
    return [replace(plan, workers=workers, threads=usable_cores() // workers) for plan in plans]


def _check_on_cpu(loaded: LoadedSettings, seconds: Sequence[str]) -> None:
    """Raise UsageError if the settings ask for a GPU: its process gets pixels of whole pictures only."""
    run = loaded.run
    if run.executor == "cuda" or run.device == "cuda" or (run.executor == "ray" and loaded.ray.num_gpus):
        raise UsageError(
            f"{', '.join(seconds)} takes the objects of a detector, which a GPU does not get yet",
            "run it with --executor cpu",
        )


def plan_execution(artifact: Artifact, request: VariantRequest, num_workers: int = 0) -> ExecutionPlan:
    """Plan `num_workers`, or one for each core, as many as fit into memory; a variant's batch is that of its runtime.

    Raises ModelError if none can run here.
    """
    num_cores = usable_cores()
    if num_workers > num_cores:
        cores = counted(num_cores, "core")
        log.info("%d workers on %s: more than one a core only help while others wait for images", num_workers, cores)
    variant, passed_over = choose_variant(artifact.manifest, request, missing_or_broken)
    if variant_of(variant).device == "cuda":
        return ExecutionPlan(variant, passed_over, None, num_workers or num_cores, 1)
    worker_bytes = estimate_bytes(artifact, variant)
    workers, threads = num_workers or cap_by_memory(num_cores, worker_bytes), 1
    if workers < num_cores and not num_workers:
        log.warning("%d workers instead of %d: there is not enough memory for more", workers, num_cores)
        threads = num_cores // workers
    batch_size = _batch_size(artifact.manifest.recipe.size)
    return ExecutionPlan(variant, passed_over, batch_size, workers, threads, worker_bytes=worker_bytes)


def _batch_size(size: Size) -> int | None:
    """Return the batch size for inputs of a size; None: the runtime's own, which suits all but large ones."""
    most = size.largest_batch(OWN_BATCH)
    return most if most < OWN_BATCH else None


def estimate_bytes(artifact: Artifact, variant: str) -> int:
    """Return about how much private memory a worker needs: for the weights as compiled, and by TorchScript as read too.

    OpenVINO maps the file that it reads them from, which workers share. What a network keeps of a picture meanwhile
    grows with its input.
    """
    size = artifact.manifest.recipe.size
    weights = max((artifact.folder / path).stat().st_size for path in artifact.manifest.files_of(variant))
    compiled = (1 if variant_of(variant).runtime == "openvino" else 2) * weights
    return ASSUMED_WORKER_BYTES + compiled + BYTES_PER_PIXEL * size.width * size.height


def missing_or_broken(variant: str, requires: Mapping[str, object]) -> str | None:
    """Return why the variant can't run here, None if it can; for TensorRT also whether torch-tensorrt really loads."""
    why = missing_for(variant, requires)
    if why is not None or variant_of(variant).runtime != "tensorrt" or (broken := broken_tensorrt()) is None:
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
    from infer_app.predict.runtimes.tensorrt import why_unusable

    return why_unusable()
