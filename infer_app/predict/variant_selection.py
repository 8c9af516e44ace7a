"""Select the variant of a run from the manifest, before anything is loaded."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from infer_app.artifact.manifest import Manifest
from infer_app.artifact.model_names import short_name
from infer_app.artifact.specs import Tolerance
from infer_app.base.errors import ModelError, PrecisionUnavailable
from infer_app.base.model_variants import (
    CPU_DTYPES,
    OPENVINO_BF16,
    OPENVINO_INT8,
    PREFERRED,
    BegunVariant,
    known_variant,
    variant_of,
)
from infer_app.predict.runtimes.gpu_probe import missing_for

AUTO = "auto"
OTHER_FILES = "its files are not those that the day was begun with: it was built anew since"

Missing = Callable[[str, Mapping[str, object]], str | None]


@dataclass(frozen=True, slots=True)
class VariantRequest:
    """The precision and the device that the user requests, and the variant that the day was begun in."""

    precision: str | None = None  # full, half or int8; None: full on a CPU (int8 of a quantised source), half on a GPU
    device: str = AUTO  # auto, cpu or cuda
    begun: BegunVariant | None = None  # that of the day, which keeps its precision


def choose_variant(
    manifest: Manifest, request: VariantRequest, missing: Missing = missing_for
) -> tuple[str, dict[str, str]]:
    """Select the first of PREFERRED that the model has, that the request allows and that can run here.

    Return it, and by variant why each other one was not selected.

    Exactly one precision of the CPU's is allowed, and a day keeps the one that it began with, so that no variant that
    can't run here changes it. GPU variants have half precision; they exist only if they were built. Raises ModelError
    if none can run here.
    """
    passed_over = {
        variant: why for variant in manifest.variants if (why := _why_not(manifest, variant, request, missing))
    }
    usable = [variant for variant in PREFERRED if variant in manifest.variants and variant not in passed_over]
    if not usable:
        raise _no_usable_variant(manifest, request, passed_over)
    best = request.begun.variant if request.begun and request.begun.variant in usable else usable[0]
    return best, passed_over | {variant: f"{best} comes first" for variant in usable if variant != best}


def _requested_dtype(manifest: Manifest, request: VariantRequest) -> str:
    """Return the dtype of a CPU variant: that of the variant a day began with, or else the requested one."""
    if request.begun:
        return known_variant(request.begun.variant).dtype
    return CPU_DTYPES[request.precision or ("int8" if manifest.is_quantised else "full")]


def _no_usable_variant(manifest: Manifest, request: VariantRequest, passed_over: Mapping[str, str]) -> ModelError:
    reasons = "; ".join(f"{variant}: {why}" for variant, why in passed_over.items())
    if request.device == "cuda":
        has_some = any(variant_of(variant).device == "cuda" for variant in manifest.variants)
        return ModelError(
            f"{manifest.name}: no variant can run on a GPU here ({reasons})",
            "fix that, or let --device auto take the CPU" if has_some else _how_to_make(manifest, "trt"),
        )
    dtype, name = _requested_dtype(manifest, request), manifest.name
    if request.begun:
        return _no_variant_to_resume(manifest, request.begun.variant, passed_over)
    hints = {
        "bf16": f"`infer model judge {name}` adds it on a CPU that computes bf16; or take --precision full",
        "int8": f"`infer model build SOURCE --name {name} --calibrate PATH` makes it; or take --precision full",
    }
    is_made = any(variant_of(variant).dtype == dtype for variant in manifest.variants)
    hint = "fix that, or choose another precision yourself with --precision"
    if not is_made:
        hint = hints.get(dtype, hint)
    elif request.precision in ("half", "int8") or manifest.is_quantised:
        is_unfit = any(why == _why_unfit(manifest, one, manifest.variants[one]) for one, why in passed_over.items())
        full = "build the network that is not quantised" if manifest.is_quantised else "take --precision full"
        another = ", or judge it with another --min-agreement" if "--min-agreement" in reasons else ""
        more = f"{_how_to_judge(manifest)}; or {full}{another}"
        hint = more if is_unfit else "run it on a machine that can; or take --precision full for days not begun yet"
    return ModelError(f"{manifest.name}: no {dtype} variant can run here ({reasons})", hint)


def _why_unfit(manifest: Manifest, variant: str, details: Mapping[str, object]) -> str | None:
    if variant_of(variant).is_exact:
        return None
    from infer_app.predict.verification.agreement import why_unfit  # loads numpy and Pillow, for a variant that rounds

    return why_unfit(manifest, variant, details)


def _how_to_judge(manifest: Manifest) -> str:
    if manifest.crop:
        return "build it with `--calibrate FOLDER` of more crops"
    version = shlex.quote(short_name(manifest.name, manifest.model_id))
    return f"`infer model judge {version} --date DATE --until DATE` judges it on more of your images"


def _no_variant_to_resume(manifest: Manifest, variant: str, passed_over: Mapping[str, str]) -> PrecisionUnavailable:
    begun, why = variant_of(variant), passed_over.get(variant, "the model here does not have it")
    return PrecisionUnavailable(
        f"{manifest.name}: the day was begun in {begun.words}, which it keeps, and no {begun.dtype} variant can run "
        f"here ({variant}: {why})",
        "restore the model's folder, with its manifest.json, from a backup; the images stay pending until then"
        if why == OTHER_FILES
        else f"finish it by the same command on a machine that runs {variant}; its images stay pending until then",
    )


def _how_to_make(manifest: Manifest, variant: str) -> str:
    if manifest.has_torchscript:
        command = f"`infer model build SOURCE --name {manifest.name} --variant {variant}`"
        return f"make it on the machine with the GPU: {command}"
    return (
        f"{manifest.source} has variants for a CPU only: leave out --device, or build from the Python callable that "
        "makes the module"
    )


def _why_not(manifest: Manifest, variant: str, request: VariantRequest, missing: Missing) -> str | None:
    if request.device not in (AUTO, variant_of(variant).device):
        return f"the device is {request.device}"
    if why := missing(variant, manifest.requires(variant)):
        return why
    if request.begun and variant == request.begun.variant:
        return None if request.begun.is_that_of(variant, manifest.variant_sha256(variant)) else OTHER_FILES
    details = manifest.variants[variant]
    if why := _other_dtype(manifest, variant, request):
        return why
    if (why := _why_unfit(manifest, variant, details)) or variant in (OPENVINO_BF16, OPENVINO_INT8):
        return why
    return _differs(details.get("parity", {}), manifest.tolerance_of(variant))


def _other_dtype(manifest: Manifest, variant: str, request: VariantRequest) -> str | None:
    """Return why a dtype is not allowed; half of a GPU is allowed unless the day began with another one."""
    own, wanted = variant_of(variant).dtype, _requested_dtype(manifest, request)
    is_half_on_gpu = variant_of(variant).device == "cuda" and request.precision in (None, "half")
    if own == wanted or (is_half_on_gpu and request.begun is None):
        return None
    if request.begun or own == "fp32":
        return f"{wanted} is chosen"
    return f"{variant_of(variant).option} chooses it"


def _differs(parity: Mapping[str, float], tolerance: Tolerance) -> str | None:
    """Return why the golden check of each run would reject a variant; None if it would not."""
    cosine, relative = parity.get("cosine", 1.0), parity.get("relative_difference", 0.0)
    if not cosine >= tolerance.cosine:  # written so that NaN fails
        return f"cosine {cosine:.6f} is below {tolerance.cosine:g}"
    if not relative <= tolerance.relative:
        return f"outputs differ by {relative:.2g} of the largest, not {tolerance.relative:g} at most"
    return None
