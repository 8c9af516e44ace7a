"""Which variant a run takes: decided before anything is loaded, from the manifest and what was measured here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from infer_app.errors import ModelError, UsageError
from infer_app.models.artifact.manifest import Manifest
from infer_app.models.artifact.specs import Tolerance
from infer_app.models.runtimes.variants import GPU_VARIANTS, UNKNOWN, device_of, full_name, missing_for, precision_of
from infer_app.models.selection.tuning import Speed

AUTO = "auto"


Missing = Callable[[str, Mapping[str, Any]], str | None]


@dataclass(frozen=True, slots=True)
class VariantRequest:
    """What the user allows, and what the day demands."""

    variant: str = AUTO
    allow_int8: bool = False
    resume_variant: str | None = None  # a day that is resumed keeps the variant it began with
    device: str = AUTO  # auto, cpu or cuda


@dataclass(frozen=True, slots=True)
class VariantSelection:
    variant: str
    passed_over: dict[str, str]  # variant: why it was not taken

    @property
    def device(self) -> str:
        """cpu or cuda."""
        return device_of(self.variant)


def choose_variant(
    manifest: Manifest, speeds: Mapping[str, Speed], wish: VariantRequest, missing: Missing = missing_for
) -> VariantSelection:
    """The variant that was asked for; or TensorRT's, CUDA's, and then the fastest of the CPU, as far as they may run.

    On a CPU there is one precision that is allowed: whether that is int8 or fp32 was decided when the model was built
    and travels with it, so that no noise of a measurement and no missing library ever changes from one to the other.
    A GPU's variants have half precision; they exist where somebody built them, and met their bar. A day keeps the
    precision it began with. Raises UsageError for a variant the model hasn't, ModelError where none may run here.
    """
    if wish.variant != AUTO:
        return VariantSelection(_as_asked(manifest, wish, missing), {})
    passed_over = {variant: why for variant in manifest.variants if (why := _why_not(manifest, variant, wish, missing))}
    left = [variant for variant in manifest.variants if variant not in passed_over]
    if not left:
        raise _none_left(manifest, wish, passed_over)
    if wish.resume_variant in left:
        return VariantSelection(wish.resume_variant, passed_over)
    return _best(left, speeds, passed_over)


def wished_precision(manifest: Manifest, wish: VariantRequest) -> str:
    """On a CPU: that of the variant a day began with, or else what is allowed."""
    return precision_of(wish.resume_variant) if wish.resume_variant else allowed_precision(manifest, wish.allow_int8)


def allowed_precision(manifest: Manifest, allow_int8: bool) -> str:
    """int8 where the user allows it and the model has an int8 variant that is good enough and was faster when built."""
    is_better = any(
        precision_of(variant) == "int8" and details.get("meets_bar") and details.get("is_faster")
        for variant, details in manifest.variants.items()
        if missing_for(variant) != UNKNOWN
    )
    return "int8" if allow_int8 and is_better else "fp32"


def _best(left: list[str], speeds: Mapping[str, Speed], passed_over: dict[str, str]) -> VariantSelection:
    """What was measured is milliseconds of one core, which says nothing about a GPU: that is better by its kind."""
    on_gpu = [variant for variant in GPU_VARIANTS if variant in left]
    best = on_gpu[0] if on_gpu else min(left, key=lambda variant: (_ms(speeds, variant), left.index(variant)))
    others = {variant: f"{best} comes first" if on_gpu else _slower(speeds, variant) for variant in left}
    del others[best]
    return VariantSelection(best, passed_over | others)


def _none_left(manifest: Manifest, wish: VariantRequest, passed_over: Mapping[str, str]) -> ModelError:
    told = "; ".join(f"{variant}: {why}" for variant, why in passed_over.items())
    if wish.device == "cuda":
        has_some = any(device_of(variant) == "cuda" for variant in manifest.variants)
        return ModelError(
            f"{manifest.name}: no variant can run on a GPU here ({told})",
            "mend that, or let --device auto take the CPU"
            if has_some
            else "make one on the machine with the GPU: infer model build … --variant trt --variant cuda",
        )
    return ModelError(
        f"{manifest.name}: no {wished_precision(manifest, wish)} variant can run here ({told})",
        "mend that, or choose the other precision yourself with --variant",
    )


def _as_asked(manifest: Manifest, wish: VariantRequest, missing: Missing) -> str:
    variant = full_name(wish.variant)
    if variant not in manifest.variants:
        if variant in GPU_VARIANTS:
            raise ModelError(
                f"{manifest.name} has no variant {variant!r}",
                f"make it on the machine with the GPU: infer model build … --variant {variant}",
            )
        raise UsageError(
            f"{manifest.name} has no variant {variant!r}", f"it has {', '.join(manifest.variants)}; or auto"
        )
    if wish.device not in (AUTO, device_of(variant)):
        raise UsageError(f"{variant} does not run on {wish.device}", "leave out --device, or --variant")
    if why := missing(variant, _requires(manifest, variant)):
        raise ModelError(f"{variant} can't run here: {why}", "mend that, or leave the choice to --variant auto")
    return variant


def _why_not(manifest: Manifest, variant: str, wish: VariantRequest, missing: Missing) -> str | None:
    if wish.device not in (AUTO, device_of(variant)):
        return f"the device is {wish.device}"
    if why := missing(variant, _requires(manifest, variant)):
        return why
    details = manifest.variants[variant]
    if why := _other_precision(manifest, variant, wish):
        return why
    if precision_of(variant) == "int8":
        return None if details.get("meets_bar") else "it changes too many labels"
    return _differs(details.get("parity", {}), manifest.tolerance_of(variant))


def _other_precision(manifest: Manifest, variant: str, wish: VariantRequest) -> str | None:
    """Half precision is right for every day that didn't begin with another."""
    own = precision_of(variant)
    precision = wished_precision(manifest, wish)
    if own == precision or (device_of(variant) == "cuda" and wish.resume_variant is None):
        return None
    return "int8 is not allowed: --allow-int8" if own == "int8" and not wish.allow_int8 else f"{precision} is chosen"


def _requires(manifest: Manifest, variant: str) -> Mapping[str, Any]:
    return manifest.variants[variant].get("requires") or {}


def _differs(parity: Mapping[str, float], tolerance: Tolerance) -> str | None:
    """Why the golden check of every run would refuse it, where it would."""
    cosine, relative = parity.get("cosine", 1.0), parity.get("relative_difference", 0.0)
    if not cosine >= tolerance.cosine:  # NaN is not more than anything
        return f"cosine {cosine:.6f} is below {tolerance.cosine:g}"
    if not relative <= tolerance.relative:
        return f"outputs differ by {relative:.2g} of the largest, not {tolerance.relative:g} at most"
    return None


def _ms(speeds: Mapping[str, Speed], variant: str) -> float:
    return speeds[variant].ms_per_image if variant in speeds else float("inf")


def _slower(speeds: Mapping[str, Speed], variant: str) -> str:
    return f"slower here: {speeds[variant].ms_per_image:.2f} ms per image" if variant in speeds else "not measured here"
