"""Plans how a model runs on this host, by what was measured on it."""

import logging
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.model_names import short_name
from infer_app.base.errors import ModelError, UsageError
from infer_app.base.machine import ASSUMED_WORKER_BYTES, cap_by_memory, usable_cores
from infer_app.base.model_variants import OPENVINO_BF16, BegunVariant, variant_of
from infer_app.base.plurals import counted
from infer_app.base.run_report import Alternative
from infer_app.base.settings.load import LoadedSettings
from infer_app.base.size import Size
from infer_app.predict.planning.tuning import Layout, Tuning, load_tuning, new_tuning, save_tuning
from infer_app.predict.planning.variant_selection import (
    AUTO,
    VariantRequest,
    VariantSelection,
    choose_variant,
    requested_dtype,
)
from infer_app.predict.runtimes.gpu_probe import missing_for, runnable
from infer_app.predict.workers.isolated_call import run_in_process

log = logging.getLogger(__name__)

OWN_BATCH = 4  # images, at most, of a variant by itself


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """How a model will run on this host, decided before anything is loaded."""

    choice: VariantSelection
    batch_size: int | None  # None: the variant's own
    workers: int  # 0: on a cluster, one for each CPU of an actor
    threads: int  # of each worker
    alternatives: tuple[Alternative, ...] = ()
    is_idle: bool = False  # it has nothing to predict, so its network is not opened
    worker_bytes: int = field(default=0, compare=False)  # private memory of a worker with this model alone, on the CPU

    @property
    def variant(self) -> str:
        return self.choice.variant

    @property
    def device(self) -> str:
        """Return the device the executor is for, cpu or cuda."""
        return self.choice.device


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
    resume = (begun.variant, begun.sha256) if begun else (None, None)
    request = VariantRequest(run.variant, run.precision, resume[0], device or run.device, resume[1])
    plan = plan_execution(artifact, request, 0 if run.executor == "ray" else run.workers)
    if plan.variant == OPENVINO_BF16 and "calibration" not in artifact.manifest.variants[OPENVINO_BF16]:
        version = shlex.quote(short_name(artifact.manifest.name, artifact.manifest.model_id))
        words = variant_of(plan.variant).words
        of_crops = "a build with `--calibrate FOLDER` of crops does"
        judge = of_crops if artifact.manifest.crop else f"`infer model judge {version} --date DATE` does"
        log.warning("%s was never compared on your images: %s", words, judge)
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
    """Plan by what was measured on this host; measure it now if it never was. `num_workers` 0: as measured.

    Raises UsageError for a variant the model doesn't have and ModelError if none can run here.
    """
    num_cores = usable_cores()
    if num_workers > num_cores:
        cores = counted(num_cores, "core")
        log.info("%d workers on %s: more than one a core only help while others wait for images", num_workers, cores)
    choice = choose_variant(artifact.manifest, {}, request, missing_or_broken)
    if choice.device == "cuda":
        return ExecutionPlan(choice, None, num_workers or num_cores, 1)
    tuning = load_tuning(artifact.folder, num_cores) or _measure_if_needed(artifact, request, num_cores)
    choice = choose_variant(artifact.manifest, tuning.speeds, request, missing_or_broken)
    layout = tuning.layout_of(choice.variant) or Layout(num_cores, 1)
    worker_bytes = tuning.worker_bytes or estimate_bytes(artifact, choice.variant)
    workers = num_workers or cap_by_memory(layout.workers, worker_bytes)
    if workers < layout.workers and not num_workers:
        log.warning("%d workers instead of %d: there is not enough memory for more", workers, layout.workers)
        layout = Layout(workers, num_cores // workers)
    speed = tuning.speeds.get(choice.variant)
    return ExecutionPlan(
        choice,
        speed.batch_size if speed else _untuned_batch(artifact.manifest.recipe.size),
        workers,
        layout.threads if workers == layout.workers else 1,
        tuple(_alternatives(artifact, choice.variant, tuning)),
        worker_bytes=worker_bytes,
    )


def _untuned_batch(size: Size) -> int | None:
    """Return the batch size of a variant that was not measured; None: its own, which suits all but large inputs."""
    most = size.largest_batch(OWN_BATCH)
    return most if most < OWN_BATCH else None


def estimate_bytes(artifact: Artifact, variant: str) -> int:
    """Return about how much private memory a worker needs: for the weights as compiled, and by TorchScript as read too.

    OpenVINO maps the file that it reads them from, which workers share.
    """
    weights = max((artifact.folder / path).stat().st_size for path in artifact.manifest.files_of(variant))
    return ASSUMED_WORKER_BYTES + (1 if variant_of(variant).runtime == "openvino" else 2) * weights


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


def measure_speeds(artifact: Artifact, is_quick: bool = False) -> Tuning:
    """Measure and save every variant with every batch size, or with few of them if `is_quick`, on one core."""
    from infer_app.predict.planning.measure import measure_in_worker

    num_cores = usable_cores()
    tuning = new_tuning(num_cores, run_in_process(measure_in_worker, artifact.folder, is_quick))
    keep_tuning(artifact, tuning, num_cores)
    return tuning


def measure_speeds_here(artifact: Artifact) -> None:
    """Measure and save every variant with few batch sizes in this process, which has loaded torch already."""
    from infer_app.predict.planning.measure import FEW_BATCH_SIZES, measure_variants

    num_cores = usable_cores()
    if load_tuning(artifact.folder, num_cores) is None:
        keep_tuning(artifact, new_tuning(num_cores, measure_variants(artifact, FEW_BATCH_SIZES)), num_cores)


def _measure_if_needed(artifact: Artifact, request: VariantRequest, num_cores: int) -> Tuning:
    """Measure the variants, unless there is only one to choose."""
    manifest = artifact.manifest
    dtype = requested_dtype(request)
    candidates = [variant for variant in runnable(manifest) if variant_of(variant).dtype == dtype]
    if request.variant != AUTO or len(candidates) < 2:
        return new_tuning(num_cores, {})
    log.info("%s has not been measured on this machine yet: measuring its variants once", manifest.name)
    try:
        return measure_speeds(artifact, is_quick=True)
    except ModelError as error:
        log.warning("%s can't be measured, its first variant is used: %s (%s)", manifest.name, error, error.hint)
        return new_tuning(num_cores, {})


def keep_tuning(artifact: Artifact, tuning: Tuning, num_cores: int) -> None:
    """Save what was measured with the artifact, or log that it can't be saved."""
    if not save_tuning(artifact.folder, num_cores, tuning):
        log.warning("%s can't be written: what was measured there will be measured again", artifact.folder)


def _alternatives(artifact: Artifact, variant: str, tuning: Tuning) -> Iterator[Alternative]:
    """Yield the variants that round, agree enough and were measured here, in place of one that does not."""
    for other, details in artifact.manifest.variants.items():
        if variant_of(other).is_exact or not variant_of(variant).is_exact or not details.get("meets_bar"):
            continue
        if other in tuning.speeds and variant in tuning.speeds:
            is_detector = artifact.manifest.output.detection is not None
            things, key = ("objects", "object_agreement") if is_detector else ("labels", "label_agreement")
            kept = details.get("calibration", {}).get(key)
            command = f"`infer model judge {shlex.quote(artifact.manifest.name)} --date DATE`"
            judge = f"{command} compares it on the images of a day"
            what = f"kept {kept:.1%} of the {things} where it was compared" if kept else judge
            yield Alternative(
                f"{variant_of(other).option} ({what})",
                ("model",),
                tuning.speeds[other].ms_per_image,
                tuning.speeds[variant].ms_per_image,
                other,
            )
