"""`infer model list`, `show`, `tune` and `verify`."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path

from infer_app.cli.model.variant_tables import show_decoding, show_requirements, show_tuning, show_variants
from infer_app.cli.terminal.output import show_table
from infer_app.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.handlers.open_handler import OpenCpuHandler
from infer_app.images.read.read_image import ReadLimits
from infer_app.models.artifact.artifact import find_artifact, list_artifacts, scan_artifacts
from infer_app.models.artifact.manifest import Manifest
from infer_app.models.runtimes.variants import runnable
from infer_app.models.selection.tuning import load_all
from infer_app.pipeline.execution_plan import measure_speeds
from infer_app.pipeline.measurement import measure_layouts
from infer_app.settings.load import DEFAULT_CONFIG, load_settings
from infer_app.telemetry.printable import one_line


def list_models(as_json: bool, config: Path | None) -> None:
    """List the models, and on standard error those that are damaged."""
    folder = models_folder(config)
    artifacts, damaged = scan_artifacts(folder)
    found = [artifact.manifest for artifact in artifacts]
    for error in damaged:
        print_progress(one_line(f"damaged: {error} ({error.hint})"))
    if as_json:
        keys = ("name", "model_id", "created_at", "source")
        models = [{key: getattr(manifest, key) for key in keys} for manifest in found]
        print(json.dumps({"models": models, "damaged": [str(error) for error in damaged]}))
    elif found:
        cells = [(m.name, m.model_id, m.created_at, m.output.kind, m.recipe.kind, m.source) for m in found]
        show_table(("model", "id", "built", "output", "recipe", "source"), cells)
    else:
        print(f"no models in {folder}: make one with `infer model build SOURCE --name NAME`")


def show(name: str, as_json: bool, config: Path | None) -> None:
    artifact = find_artifact(models_folder(config), name)
    manifest, tunings = artifact.manifest, load_all(artifact.folder)
    if as_json:
        print(json.dumps(json.loads(manifest.to_json()) | {"tuning": [asdict(tuning) for tuning in tunings]}, indent=2))
        return
    print(f"{manifest.name} {manifest.model_id}, built {manifest.created_at} from {manifest.source}")
    print(f"recipe: {recipe_as_text(manifest)}; {manifest.output.kind}, {manifest.num_outputs} outputs per image")
    show_variants(manifest)
    show_requirements(manifest)
    show_decoding(manifest)
    for tuning in tunings:
        show_tuning(tuning)


def tune(name: str, config: Path | None) -> None:
    """Measure the variants and layouts again on this machine, and show them."""
    artifact = find_artifact(models_folder(config), name)
    show_tuning(measure_layouts(artifact, measure_speeds(artifact), print_progress))


def print_progress(text: str) -> None:
    """Print to standard error; standard output holds only results."""
    print(text, file=sys.stderr)


def recipe_as_text(manifest: Manifest) -> str:
    given = {key: value for key, value in asdict(manifest.recipe).items() if value is not None}
    text = ", ".join(f"{key} {value}" for key, value in given.items())
    return f"{text}; mean {manifest.mean}, std {manifest.std}"


def verify(name: str | None, as_json: bool, config: Path | None) -> None:
    """Verify one model or all. Raises ModelError for the first whose files or golden outputs differ from the build."""
    loaded = load_settings(config)
    folder, images = loaded.models_folder, loaded.images
    artifacts = list_artifacts(folder) if name is None else [find_artifact(folder, name)]
    for artifact in artifacts:
        artifact.verify()
        with redirect_stdout(sys.stderr):
            variants = [variant for device in ("cpu", "cuda") for variant in runnable(artifact.manifest, device)]
            models = tuple(ModelSpec(artifact.folder, variant) for variant in variants)
            OpenCpuHandler(HandlerSpec(models, ReadLimits((), images.max_bytes), images.max_pixels))()
        if not as_json:
            files = len(artifact.manifest.files)
            print(
                f"{artifact.manifest.name} {artifact.manifest.model_id}: {files} files and the golden images as built"
            )
    if as_json:
        print(json.dumps({"verified": [artifact.manifest.model_id for artifact in artifacts]}))


def models_folder(config: Path | None) -> Path:
    """Return the folder of infer.toml; without one ./models, so that a model can be built before a project is made."""
    if config is None and not DEFAULT_CONFIG.exists():
        return Path("models").absolute()
    return load_settings(config).models_folder
