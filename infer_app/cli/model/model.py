"""`infer model show`: a model, how exact its variants are, and where they run; and how `infer model` finds a model."""

import json
import sys
from datetime import datetime
from pathlib import Path

from infer_app.artifact.activation import doubt_activation
from infer_app.artifact.artifact import Artifact
from infer_app.artifact.manifest import Manifest
from infer_app.artifact.models_folder import find_artifact
from infer_app.artifact.specs import CropSpec, DetectionSpec
from infer_app.base.errors import InferError
from infer_app.base.model_variants import variant_facts, variant_of
from infer_app.base.packages import install_packages
from infer_app.base.printing import counted, one_line
from infer_app.base.settings.load import DEFAULT_CONFIG, load_settings
from infer_app.build.variants.decoding_agreement import describe_agreement
from infer_app.cli.terminal.output import show_table
from infer_app.predict.runtimes.gpu_probe import first_variant
from infer_app.predict.verification.agreement import why_unfit
from infer_app.predict.verification.golden import golden_classes
from infer_app.predict.verification.object_parity import COMPARED_SCORE, EXACT_OBJECT, SAME_OBJECT, compared_score
from infer_app.predict.verification.outputs import KINDS
from infer_app.predict.verification.parity import Parity
from infer_app.tables.project_database import read_in_use


def show(name: str, as_json: bool, config: Path | None) -> None:
    artifact = find_model(name, config)
    manifest = artifact.manifest
    if as_json:
        found = json.loads(manifest.to_json())
        for variant, details in found["variants"].items():
            details |= variant_facts(variant) | {"meets_bar": not why_unfit(manifest, variant, details)}
        print(json.dumps(found, indent=2))
        return
    print(f"{manifest.name} {manifest.model_id}, built {built_at(manifest)} UTC from {manifest.source}")
    outputs = counted(manifest.num_outputs, "output")
    print(f"recipe: {recipe_as_text(manifest)}; {manifest.output.kind}, {outputs} per image")
    print_specs(manifest)
    show_tables(manifest)


def built_at(manifest: Manifest) -> str:
    return f"{datetime.fromisoformat(manifest.created_at):%Y-%m-%d %H:%M}"


def print_specs(manifest: Manifest) -> None:
    """Print which objects a detector finds, and which are the pictures of a second network."""
    if manifest.output.detection:
        print(detection_as_text(manifest.output.detection))
    if manifest.crop:
        print(crop_as_text(manifest.crop))


def detection_as_text(detection: DetectionSpec) -> str:
    nms = f"IoU {detection.nms}" if detection.suppresses else "none"
    return (
        f"head {detection.head}: objects from a score of {detection.min_score}, non-maximum suppression: {nms}, at "
        f"most {counted(detection.max_objects, 'object')} per image"
    )


def crop_as_text(crop: CropSpec) -> str:
    """Describe whose objects are a second network's pictures, and how they are cut out."""
    rule, labels = crop.rule, ", ".join(crop.labels) or "all"
    margins = [f"{100 * rule.margin:g} %"] if rule.margin else []
    margins += [f"{rule.margin_px} pixels"] if rule.margin_px else []
    how = [f"margin {' and '.join(margins)}"] if margins else []
    how += [f"at least {rule.least_px} pixels"] if rule.least_px else []
    how += [] if rule.is_own else [f"rounding {rule.rounding}"]
    return (
        f"pictures: objects found by {crop.of} from a score of {crop.min_score:g} on, labels: {labels}; crop: "
        f"{', '.join([rule.kind, *how])}"
    )


def print_progress(text: str) -> None:
    """Print to standard error; standard output holds only results."""
    print(text, file=sys.stderr)


def recipe_as_text(manifest: Manifest) -> str:
    given = {key: value for key, value in manifest.recipe.to_json().items() if value is not None}
    text = ", ".join(f"{key} {value}" for key, value in given.items())
    return f"{text}; mean {manifest.mean}, std {manifest.std}"


def find_model(wanted: str, config: Path | None) -> Artifact:
    """Return the model that NAME, NAME@ID or ID names; a NAME means its version in use."""
    return find_artifact(models_folder(config), wanted, known_in_use(config))


def known_in_use(config: Path | None) -> dict[str, str] | None:
    """Return the id of the version in use of each name; None, with a note, if the database can't be read."""
    if not has_project(config):
        return {}
    try:
        return read_in_use(load_settings(config))
    except InferError as error:
        print_progress(one_line(f"which versions are in use is not known: {error} ({error.hint})"))
        return None


def has_project(config: Path | None) -> bool:
    """Return whether there is an infer.toml; without one there is no database."""
    return config is not None or DEFAULT_CONFIG.exists()


def models_folder(config: Path | None) -> Path:
    """Return the folder of infer.toml; without one ./models, so that a model can be built before a project is made."""
    if not has_project(config):
        return Path("models").absolute()
    return load_settings(config).models_folder


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
            *_parity_cells("golden" if images == "parity" else "judged", Parity(**details[images]), manifest),
        )
        for variant, details in manifest.variants.items()
        for images in ("parity", "calibration")
        if images in details
    ]
    figures = ("kept", "worst cosine", "worst difference", "score differs")
    show_table(("variant", "precision", "against the source on", *figures), rows)
    if any("calibration" in details for details in manifest.variants.values()):
        print(
            "Judged images are your own, and int8 was not fitted to them; of all such images as many are kept as the "
            "interval tells, in 95 % of cases. Golden images are few and may be synthetic. "
            + (_OBJECT_FIGURES if manifest.output.kind == "detection" else _LABEL_FIGURES)
        )
    for variant, details in manifest.variants.items():
        if why := why_unfit(manifest, variant, details):
            print(f"{variant}: {why}: no run takes it")


def unproven_boxes(manifest: Manifest) -> str:
    """Return a warning if no golden image of a detector shows an object, else nothing."""
    detection = manifest.output.detection
    if not detection or manifest.variants[first_variant(manifest)]["parity"].get("num_objects") != 0:
        return ""
    return (
        f"warning: no golden image shows an object with a score of {compared_score(detection):g} or more, so nothing "
        f"proves that {manifest.name} finds the right boxes and classes; build it with photos that show some: --set "
        "golden=FOLDER"
    )


def unproven_runtime(manifest: Manifest) -> str:
    """Return a warning if nothing but OpenVINO, which runs the network, computed its golden outputs, else nothing."""
    is_alone = manifest.built_with.get("reference", "").startswith("openvino")
    hint = f"of an ONNX file onnxruntime tells what it computes otherwise: {install_packages('onnxruntime')}"
    return f"attention: nothing but OpenVINO computed the golden outputs; {hint}" if is_alone else ""


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
        print(describe_agreement(Parity(**found) if found else None, manifest))


def _parity_cells(images: str, parity: Parity, manifest: Manifest) -> tuple[str, ...]:
    p99, worst = parity.p99_score_difference, parity.worst_score_difference
    share = KINDS[manifest.output.kind].share(parity)
    return (
        counted(parity.num_images, f"{images} image"),
        "-" if share is None else share.counts if images == "golden" else str(share),
        f"{parity.cosine:.6f}",
        f"{parity.worst_difference:.2g}",
        "-" if p99 is None or worst is None else f"{p99:.3f}, {worst:.3f}",
    )
