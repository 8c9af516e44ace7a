"""`infer model show`, and how the commands of `infer model` find a model."""

import json
import sys
from pathlib import Path

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.manifest import Manifest
from infer_app.artifact.models_folder import find_artifact
from infer_app.artifact.specs import CropSpec, DetectionSpec
from infer_app.base.errors import InferError
from infer_app.base.model_variants import variant_facts
from infer_app.base.printing import counted, one_line
from infer_app.base.settings.load import DEFAULT_CONFIG, load_settings
from infer_app.cli.model.variant_tables import show_tables
from infer_app.tables.project_database import read_in_use


def show(name: str, as_json: bool, config: Path | None) -> None:
    artifact = find_model(name, config)
    manifest = artifact.manifest
    if as_json:
        found = json.loads(manifest.to_json())
        for variant, details in found["variants"].items():
            details |= variant_facts(variant)
        print(json.dumps(found, indent=2))
        return
    print(f"{manifest.name} {manifest.model_id}, built {manifest.created_at} from {manifest.source}")
    outputs = counted(manifest.num_outputs, "output")
    print(f"recipe: {recipe_as_text(manifest)}; {manifest.output.kind}, {outputs} per image")
    print_specs(manifest)
    show_tables(manifest)


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
