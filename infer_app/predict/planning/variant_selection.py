"""Select the variant of a run from the manifest and this machine's measurements, before anything is loaded."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from infer_app.artifact.manifest import Manifest
from infer_app.artifact.specs import Tolerance
from infer_app.base.errors import ModelError, PrecisionUnavailable, UsageError
from infer_app.base.model_variants import (
    CPU_DTYPES,
    GPU_VARIANTS,
    OPENVINO_BF16,
    OPENVINO_INT8,
    full_name,
    known_variant,
    variant_of,
)
from infer_app.predict.planning.tuning import Speed
from infer_app.predict.runtimes.gpu_probe import missing_for

AUTO = "auto"
CHANGES_TOO_MUCH = "it changes too much"
OTHER_FILES = "its files are not those that the day was begun with: it was built anew since"

Missing = Callable[[str, Mapping[str, object]], str | None]


@dataclass(frozen=True, slots=True)
class VariantRequest:
    """The variant that the user requests and allows, and the one that the day requires."""

    variant: str = AUTO
    precision: str | None = None  # full, half or int8; None: full on a CPU, and on a GPU the half that was built
    resume_variant: str | None = None  # a day that is resumed keeps the variant it began with
    device: str = AUTO  # auto, cpu or cuda
    resume_sha256: str | None = None  # of the files of `resume_variant`; None if they are not known


@dataclass(frozen=True, slots=True)
class VariantSelection:
    """The selected variant, and why each other one was not selected."""

    variant: str
    passed_over: dict[str, str]  # variant: why it was not selected

    @property
    def device(self) -> str:
        """Return cpu or cuda."""
        return variant_of(self.variant).device


def choose_variant(
    manifest: Manifest, speeds: Mapping[str, Speed], request: VariantRequest, missing: Missing = missing_for
) -> VariantSelection:
    """Select the requested variant; or else TensorRT's, CUDA's, or the fastest of the CPU's, in this order.

    On a CPU exactly one precision is allowed, which the request and the build decide, so that neither a noisy
    measurement nor a variant that can't run here changes it. GPU variants have half precision; they exist only if they
    were built and met their minimum. A day keeps the precision that it began with. Raises UsageError for a variant that
    the model does not have, ModelError if none can run here.
    """
    if request.variant != AUTO:
        return VariantSelection(_requested_variant(manifest, request, missing), {})
    passed_over = {
        variant: why for variant in manifest.variants if (why := _why_not(manifest, variant, request, missing))
    }
    usable = [variant for variant in manifest.variants if variant not in passed_over]
    if not usable:
        raise _no_usable_variant(manifest, request, passed_over)
    if request.resume_variant in usable:
        return VariantSelection(request.resume_variant, passed_over)
    return _best(usable, speeds, passed_over)


def requested_dtype(request: VariantRequest) -> str:
    """Return the dtype of a CPU variant: that of the variant a day began with, or else the requested one."""
    if request.resume_variant:
        return known_variant(request.resume_variant).dtype
    return CPU_DTYPES[request.precision or "full"]


def _best(usable: list[str], speeds: Mapping[str, Speed], passed_over: dict[str, str]) -> VariantSelection:
    """Select a GPU variant by its kind, or else the CPU variant that was measured to be the fastest.

    Measurements are milliseconds on one CPU core, so they can't rank the GPU's.
    """
    on_gpu = [variant for variant in GPU_VARIANTS if variant in usable]
    best = on_gpu[0] if on_gpu else min(usable, key=lambda variant: (_ms(speeds, variant), usable.index(variant)))
    others = {variant: f"{best} comes first" if on_gpu else _slower(speeds, variant) for variant in usable}
    del others[best]
    return VariantSelection(best, passed_over | others)


def _no_usable_variant(manifest: Manifest, request: VariantRequest, passed_over: Mapping[str, str]) -> ModelError:
    reasons = "; ".join(f"{variant}: {why}" for variant, why in passed_over.items())
    if request.device == "cuda":
        has_some = any(variant_of(variant).device == "cuda" for variant in manifest.variants)
        return ModelError(
            f"{manifest.name}: no variant can run on a GPU here ({reasons})",
            "fix that, or let --device auto take the CPU" if has_some else _how_to_make(manifest, "trt"),
        )
    dtype, name = requested_dtype(request), manifest.name
    if request.resume_variant:
        return _no_variant_to_resume(manifest, request.resume_variant, dtype, passed_over)
    hints = {
        "bf16": f"`infer model judge {name}` adds it on a CPU that computes bf16; or take --precision full",
        "int8": f"`infer model build SOURCE --name {name} --calibrate PATH` makes it; or take --precision full",
    }
    is_made = any(variant_of(variant).dtype == dtype for variant in manifest.variants)
    hint = "fix that, or choose the other precision yourself with --variant"
    if not is_made:
        hint = hints.get(dtype, hint)
    elif request.precision in ("half", "int8"):
        is_unfit = CHANGES_TOO_MUCH in passed_over.values()
        show = f"`infer model show {name}` prints what it changes; take --precision full, or choose it with --variant"
        hint = show if is_unfit else "run it on a machine that can; or take --precision full for days not begun yet"
    return ModelError(f"{manifest.name}: no {dtype} variant can run here ({reasons})", hint)


def _no_variant_to_resume(
    manifest: Manifest, variant: str, dtype: str, passed_over: Mapping[str, str]
) -> PrecisionUnavailable:
    why = passed_over.get(variant, "the model here does not have it")
    is_ready = why in (CHANGES_TOO_MUCH, OTHER_FILES)
    return PrecisionUnavailable(
        f"{manifest.name}: the day was begun in {variant_of(variant).words}, which it keeps, and no "
        f"{dtype} variant can run here ({variant}: {why})",
        f"--variant {variant} finishes it nevertheless"
        if is_ready
        else f"finish it by the same command on a machine that runs {variant}; its images stay pending until then",
    )


def _how_to_make(manifest: Manifest, variant: str) -> str:
    if manifest.has_torchscript:
        command = f"`infer model build SOURCE --name {manifest.name} --variant {variant}`"
        return f"make it on the machine with the GPU: {command}"
    return (
        f"{manifest.source} has variants for a CPU only: leave out --variant and --device, or build from the Python "
        "callable that makes the module"
    )


def _requested_variant(manifest: Manifest, request: VariantRequest, missing: Missing) -> str:
    variant = full_name(request.variant)
    if variant not in manifest.variants:
        if variant in GPU_VARIANTS:
            raise ModelError(
                f"{manifest.name} has no variant {variant!r}",
                _how_to_make(manifest, variant),
            )
        raise UsageError(
            f"{manifest.name} has no variant {variant!r}", f"it has {', '.join(manifest.variants)}; or auto"
        )
    if request.device not in (AUTO, variant_of(variant).device):
        raise UsageError(f"{variant} does not run on {request.device}", "leave out --device, or --variant")
    if why := missing(variant, manifest.requires(variant)):
        raise ModelError(f"{variant} can't run here: {why}", "fix that, or leave the choice to --variant auto")
    return variant


def _why_not(manifest: Manifest, variant: str, request: VariantRequest, missing: Missing) -> str | None:
    if request.device not in (AUTO, variant_of(variant).device):
        return f"the device is {request.device}"
    if why := missing(variant, manifest.requires(variant)):
        return why
    if variant == request.resume_variant and request.resume_sha256 not in (None, manifest.variant_sha256(variant)):
        return OTHER_FILES
    details = manifest.variants[variant]
    if why := _other_dtype(variant, request):
        return why
    if variant in (OPENVINO_BF16, OPENVINO_INT8):
        return None if details.get("meets_bar") else CHANGES_TOO_MUCH
    if not details.get("meets_bar", True):  # of a GPU, which may not have been judged
        return CHANGES_TOO_MUCH
    return _differs(details.get("parity", {}), manifest.tolerance_of(variant))


def _other_dtype(variant: str, request: VariantRequest) -> str | None:
    """Return why a dtype is not allowed; half of a GPU is allowed unless the day began with another one."""
    own, wanted = variant_of(variant).dtype, requested_dtype(request)
    is_half_on_gpu = variant_of(variant).device == "cuda" and request.precision in (None, "half")
    if own == wanted or (is_half_on_gpu and request.resume_variant is None):
        return None
    if request.resume_variant or own == "fp32":
        return f"{wanted} is chosen"
    return f"{own} is not chosen: {variant_of(variant).option}"


def _differs(parity: Mapping[str, float], tolerance: Tolerance) -> str | None:
    """Return why the golden check of each run would reject a variant; None if it would not."""
    cosine, relative = parity.get("cosine", 1.0), parity.get("relative_difference", 0.0)
    if not cosine >= tolerance.cosine:  # written so that NaN fails
        return f"cosine {cosine:.6f} is below {tolerance.cosine:g}"
    if not relative <= tolerance.relative:
        return f"outputs differ by {relative:.2g} of the largest, not {tolerance.relative:g} at most"
    return None


def _ms(speeds: Mapping[str, Speed], variant: str) -> float:
    return speeds[variant].ms_per_image if variant in speeds else float("inf")


def _slower(speeds: Mapping[str, Speed], variant: str) -> str:
    return f"slower here: {speeds[variant].ms_per_image:.2f} ms per image" if variant in speeds else "not measured here"
