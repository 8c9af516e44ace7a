"""The tables of `infer model show`: how exact a model's variants are, and where they run."""

from typing import Any

from infer_app.artifact.activation import doubt_activation
from infer_app.artifact.artifact import Artifact
from infer_app.artifact.manifest import Manifest
from infer_app.base.model_variants import variant_of
from infer_app.base.printing import counted
from infer_app.build.variants.decoding_agreement import describe_agreement
from infer_app.cli.terminal.output import show_table
from infer_app.predict.runtimes.gpu_probe import first_variant
from infer_app.predict.verification.golden import golden_classes
from infer_app.predict.verification.object_parity import COMPARED_SCORE, EXACT_OBJECT, SAME_OBJECT, compared_score
from infer_app.predict.verification.parity import Parity

_LABEL_FIGURES = (
    "The best label's score differs by no more than the first figure on 99 % of the images, and by the second at worst."
)
_OBJECT_FIGURES = (
    f"Objects with a score of {COMPARED_SCORE} or more are kept if one of the same class overlaps them by (IoU) "
    f"{SAME_OBJECT}, in full precision by {EXACT_OBJECT}; new ones count as lost. Scores of 99 % of the kept objects "
    "differ by no more than the first figure, and of all by no more than the second."
)


def show_tables(manifest: Manifest) -> None:
    """Show a model's variants and where they run."""
    show_variants(manifest)
    _show_requirements(manifest)
    show_decoding(manifest)


def show_variants(manifest: Manifest) -> None:
    """Show how far each variant is from the fp32 source, on the golden and on the calibration images."""
    rows = [
        (
            variant,
            variant_of(variant).precision,
            *_parity_cells("golden" if images == "parity" else "judged", details[images], manifest.output.kind),
        )
        for variant, details in manifest.variants.items()
        for images in ("parity", "calibration")
        if images in details
    ]
    is_detector = manifest.output.kind == "detection"
    differences = (
        "objects kept" if is_detector else "labels kept",
        "worst cosine",
        "worst difference",
        "score differs",
    )
    show_table(("variant", "precision", "against the source on", *differences), rows)
    if any("calibration" in details for details in manifest.variants.values()):
        print(
            "Judged images are your own; those of --calibrate may be among them. Golden images are few and may be "
            "synthetic. " + (_OBJECT_FIGURES if is_detector else _LABEL_FIGURES)
        )
    for variant, details in manifest.variants.items():
        if not details.get("meets_bar", True):
            kept = f"keeps less than {details.get('min_agreement', 1.0):.1%}"
            if details.get("calibration", {}).get("num_objects") == 0:
                kept = "was judged on images without an object"
            print(f"{variant} {kept}: no run takes it")


def unproven_boxes(manifest: Manifest) -> str:
    """Return a warning if no golden image of a detector shows an object, else nothing."""
    detection = manifest.output.detection
    if not detection or manifest.variants[first_variant(manifest)]["parity"].get("num_objects") != 0:
        return ""
    return (
        f"warning: no golden image shows an object with a score of {compared_score(detection):g} or more, so nothing "
        f"proves that {manifest.name} finds the right boxes and classes; build it with photos that show some: --golden "
        "FOLDER"
    )


def unproven_activation(artifact: Artifact) -> str:
    """Return a warning if the golden outputs leave open whether the activation is right, else nothing."""
    raw = golden_classes(artifact)
    return "" if raw is None else doubt_activation(raw, artifact.manifest.output.activation)


def _show_requirements(manifest: Manifest) -> None:
    """Print on which machines each variant for a GPU runs."""
    for variant, details in manifest.variants.items():
        needs = details.get("requires", {})
        if "compute_capability" in needs:
            capability, version = needs["compute_capability"], needs.get("tensorrt")
            print(f"{variant} runs on: compute capability {capability}, TensorRT {version}, {needs['platform']}")


def show_decoding(manifest: Manifest) -> None:
    """Print what decoding changes for a model that decodes large JPEGs smaller."""
    if manifest.recipe.decode == "scaled":
        found = manifest.variants.get(first_variant(manifest), {}).get("scaled")
        print(describe_agreement(Parity.from_json(found) if found else None, manifest.output.kind))


def _parity_cells(images: str, parity: dict[str, Any], output_kind: str) -> tuple[str, ...]:
    p99, worst = parity.get("p99_score_difference"), parity.get("worst_score_difference")
    return (
        counted(parity["num_images"], f"{images} image"),
        _kept(parity, output_kind),
        f"{parity['cosine']:.6f}",
        f"{parity['worst_difference']:.2g}",
        "-" if p99 is None or worst is None else f"{p99:.3f}, {worst:.3f}",
    )


def _kept(parity: dict[str, object], output_kind: str) -> str:
    if output_kind != "detection":
        return f"{parity['label_agreement']:.1%}"
    if "object_agreement" not in parity:
        return "no objects"
    return f"{parity['object_agreement']:.1%} of {parity.get('num_objects', 0):,}"
