"""Which variant a run takes: decided before anything is loaded, from the manifest and what was measured here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from infer_app.errors import ModelError, UsageError
from infer_app.models.manifest import Manifest
from infer_app.models.specs import Tolerance
from infer_app.models.tuning import Speed
from infer_app.models.variants import missing_for, precision_of

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user allows, and what the day demands."""

    variant: str = AUTO
    allow_int8: bool = False
    began_with: str | None = None  # a day that is resumed keeps the variant it began with


@dataclass(frozen=True, slots=True)
class Choice:
    variant: str
    passed_over: dict[str, str]  # variant: why it was not taken


def choose_variant(
    manifest: Manifest,
    speeds: Mapping[str, Speed],
    wish: Wish,
    missing: Callable[[str], str | None] = missing_for,
) -> Choice:
    """The variant that was asked for, or the fastest here of the one precision that is allowed.

    Whether that is int8 or fp32 was decided when the model was built and travels with it, so that no host, no noise
    of a measurement and no missing library ever changes from one to the other. Raises UsageError for a variant the
    model hasn't, ModelError where none of the right precision can run here.
    """
    if wish.variant != AUTO:
        return Choice(_as_asked(manifest, wish.variant, missing), {})
    precision = wished_precision(manifest, wish)
    passed_over = {
        variant: why
        for variant in manifest.variants
        if (why := _why_not(manifest, variant, precision, wish.allow_int8, missing))
    }
    left = [variant for variant in manifest.variants if variant not in passed_over]
    if not left:
        told = "; ".join(f"{variant}: {why}" for variant, why in passed_over.items())
        raise ModelError(
            f"{manifest.name}: no {precision} variant can run here ({told})",
            "mend that, or choose the other precision yourself with --variant",
        )
    if wish.began_with in left:
        return Choice(wish.began_with, passed_over)
    fastest = min(left, key=lambda variant: (_ms(speeds, variant), left.index(variant)))
    slower = {variant: _slower(speeds, variant) for variant in left if variant != fastest}
    return Choice(fastest, passed_over | slower)


def wished_precision(manifest: Manifest, wish: Wish) -> str:
    """That of the variant a day began with, or else what is allowed."""
    return precision_of(wish.began_with) if wish.began_with else allowed_precision(manifest, wish.allow_int8)


def allowed_precision(manifest: Manifest, allow_int8: bool) -> str:
    """int8 where the user allows it and the model has an int8 variant that is good enough and was faster when built."""
    is_better = any(
        precision_of(variant) == "int8" and details.get("meets_bar") and details.get("is_faster")
        for variant, details in manifest.variants.items()
        if missing_for(variant) != "this infer_app does not know it"
    )
    return "int8" if allow_int8 and is_better else "fp32"


def _as_asked(manifest: Manifest, variant: str, missing: Callable[[str], str | None]) -> str:
    if variant not in manifest.variants:
        raise UsageError(
            f"{manifest.name} has no variant {variant!r}", f"it has {', '.join(manifest.variants)}; or auto"
        )
    if why := missing(variant):
        raise ModelError(f"{variant} can't run here: {why}", "mend that, or leave the choice to --variant auto")
    return variant


def _why_not(
    manifest: Manifest, variant: str, precision: str, allow_int8: bool, missing: Callable[[str], str | None]
) -> str | None:
    if why := missing(variant):
        return why
    own = precision_of(variant)
    if own != precision:
        return "int8 is not allowed: --allow-int8" if own == "int8" and not allow_int8 else f"{precision} is chosen"
    details = manifest.variants[variant]
    if own == "int8":
        return None if details.get("meets_bar") else "it changes too many labels"
    return _differs(details.get("parity", {}), manifest.tolerance_of(variant))


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
