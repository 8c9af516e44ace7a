"""`infer model …`: build, check, list, show, verify."""

from __future__ import annotations

import json
import sys
import time
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from infer_app.cli.model.variant_tables import show_decoding, show_requirements, show_tuning, show_variants
from infer_app.cli.terminal.output import show_table
from infer_app.domain import Recipe
from infer_app.errors import ModelError, UsageError
from infer_app.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.handlers.open_handler import OpenCpuHandler
from infer_app.images.read.read_image import ReadLimits
from infer_app.machine import usable_cores
from infer_app.models.artifact.artifact import find_artifact, list_artifacts, scan_artifacts
from infer_app.models.artifact.manifest import Manifest
from infer_app.models.artifact.specs import OutputSpec
from infer_app.models.build.add_gpu_variants import BuildTarget, add_gpu_variants, check_gpu_variants
from infer_app.models.build.build_model import BuildRequest, build_model
from infer_app.models.build.calibration import Calibration
from infer_app.models.build.model_source import make_module
from infer_app.models.build.openvino_variants import add_variants
from infer_app.models.runtimes import openvino
from infer_app.models.runtimes.gpu_probe import Host, describe_host
from infer_app.models.runtimes.variants import runnable
from infer_app.models.selection.tuning import load_all, load_tuning
from infer_app.pipeline.execution_plan import measure_layouts, measure_speeds
from infer_app.settings.load import DEFAULT_CONFIG, load_settings
from infer_app.telemetry.printable import one_line

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True, slots=True)
class RecipeFlags:
    kind: str
    size: int
    resize: int | None
    crop_pct: float | None
    crop: float | None
    interpolation: str
    exif: str
    decode: str
    preprocess: str | None

    def recipe(self) -> Recipe:
        """The recipe with its defaults filled in. Raises UsageError for flags that don't belong to it."""
        if self.decode not in ("exact", "scaled", "gpu"):
            raise UsageError(f"--decode {self.decode!r} is not known", "it is exact, scaled or gpu")
        if self.preprocess is not None:
            if self.decode != "exact":
                raise UsageError(
                    f"--decode {self.decode} does not go with --preprocess: your function gets the whole picture",
                    "leave --decode out",
                )
            return Recipe("custom", self.size, interpolation=self.interpolation, exif=self.exif)
        if self.kind not in ("resize-crop", "crop-resize", "stretch"):
            raise UsageError(f"no recipe {self.kind!r}", "there are resize-crop, crop-resize and stretch")
        if self.interpolation not in ("bicubic", "bilinear"):
            raise UsageError(f"no interpolation {self.interpolation!r}", "there are bicubic and bilinear")
        if self.exif not in ("apply", "ignore"):
            raise UsageError(f"--exif {self.exif!r} is not known", "it is apply or ignore")
        self._check_crop()
        resize = self._resize() if self.kind == "resize-crop" else None
        crop = (self.crop if self.crop is not None else 0.875) if self.kind == "crop-resize" else None
        return Recipe(self.kind, self.size, resize, crop, self.interpolation, self.exif, self.decode)

    def _check_crop(self) -> None:
        if self.kind != "crop-resize" and self.crop is not None:
            raise UsageError("--crop belongs to --recipe crop-resize", "for resize-crop give --resize or --crop-pct")
        if self.kind != "resize-crop" and (self.resize is not None or self.crop_pct is not None):
            raise UsageError("--resize and --crop-pct belong to --recipe resize-crop", "for crop-resize give --crop")
        for share in (self.crop, self.crop_pct):
            if share is not None and not 0 < share <= 1:
                raise UsageError(f"a crop of {share} is not a share between 0 and 1")

    def _resize(self) -> int:
        if self.resize is not None and self.crop_pct is not None:
            raise UsageError("--resize and --crop-pct say the same", "give one of them")
        if self.resize is not None:
            return self.resize
        return int(self.size / (0.875 if self.crop_pct is None else self.crop_pct))  # timm rounds it down


@dataclass(frozen=True, slots=True)
class VariantFlags:
    calibrate: Path | None
    min_agreement: str
    tune: bool
    gpu: tuple[str, ...] = ()  # names, also several of them with commas between

    def gpu_variants(self, source: str, host: Host) -> list[str]:
        """In full. Raises UsageError for one there is not, ModelError for one that this machine can't make."""
        names = [name.strip() for given in self.gpu for name in given.split(",") if name.strip()]
        return check_gpu_variants(names, "torchscript" if Path(source).is_file() else "callable", host)

    def calibration(self) -> Calibration | None:
        """Raises UsageError for a folder that isn't there or a share that is none, and ModelError without NNCF."""
        try:
            text = self.min_agreement
            share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
        except ValueError:
            raise UsageError(f"--min-agreement {self.min_agreement!r} is no share", "for example 97%") from None
        if self.calibrate is None:
            return None
        if not openvino.can_quantise():
            raise ModelError("int8 needs NNCF", "pip install 'infer_app[int8]'")
        return Calibration(self.calibrate, share)


@dataclass(frozen=True, slots=True)
class OutputFlags:
    kind: str
    activation: str
    threshold: float
    top_k: int
    vector_dtype: str

    def spec(self) -> OutputSpec:
        return OutputSpec(self.kind, self.activation, self.threshold, self.top_k, self.vector_dtype)


def build(
    source: str,
    name: str,
    weights: Path | None,
    labels: Path | None,
    recipe: RecipeFlags,
    mean: str | None,
    std: str | None,
    input_format: str,
    output: OutputFlags,
    golden: Path | None,
    variants: VariantFlags,
    as_json: bool,
    config: Path | None,
) -> None:
    calibration = variants.calibration()
    gpu = variants.gpu_variants(source, describe_host())
    request = BuildRequest(
        source=source,
        name=name,
        weights=weights,
        labels=labels,
        recipe=recipe.recipe(),
        preprocess=recipe.preprocess,
        input=input_format,
        **_normalisation(input_format, mean, std),
        output=output.spec(),
        golden=golden,
    )
    started = time.monotonic()
    with redirect_stdout(sys.stderr):  # what the user's module prints is no part of the answer
        artifact = build_model(request, _models_folder(config))
        is_reused, num_variants = artifact.reused, len(artifact.manifest.variants)
        artifact = add_variants(artifact, calibration, say)
        if gpu:
            artifact = add_gpu_variants(artifact, gpu, partial(make_module, source, weights), BuildTarget.local(), say)
        is_same = is_reused and calibration is None and not gpu and len(artifact.manifest.variants) == num_variants
        if variants.tune and not (is_same and load_tuning(artifact.folder, usable_cores())):
            measure_layouts(artifact, measure_speeds(artifact), say)
    manifest = artifact.manifest
    if as_json:
        found = {"model": manifest.name, "model_id": manifest.model_id, "folder": str(artifact.folder)}
        print(json.dumps(found | {"reused": is_reused, "variants": list(manifest.variants)}))
        return
    if is_same:
        print(f"{manifest.name} {manifest.model_id} is there already, its files are unchanged: {artifact.folder}")
        print(f"the next run of {manifest.name} takes it")
        return
    print(f"built {manifest.name} {manifest.model_id} in {time.monotonic() - started:.1f} s: {artifact.folder}")
    print(f"recipe: {_recipe_in_words(manifest)}")
    print(f"{manifest.num_outputs} outputs per image, {len(manifest.golden)} golden images prove it before every run")
    show_variants(manifest)
    show_requirements(manifest)
    show_decoding(manifest)
    if tuning := load_tuning(artifact.folder, usable_cores()):
        show_tuning(tuning)


def list_models(as_json: bool, config: Path | None) -> None:
    folder = _models_folder(config)
    artifacts, damaged = scan_artifacts(folder)
    found = [artifact.manifest for artifact in artifacts]
    for error in damaged:
        say(one_line(f"damaged: {error} ({error.hint})"))
    if as_json:
        keys = ("name", "model_id", "created_at", "source")
        models = [{key: getattr(manifest, key) for key in keys} for manifest in found]
        print(json.dumps({"models": models, "damaged": [str(error) for error in damaged]}))
    elif found:
        cells = [(m.name, m.model_id, m.created_at, m.output.kind, m.recipe.kind, m.source) for m in found]
        show_table(("model", "id", "built", "output", "recipe", "source"), cells)
    else:
        print(f"no models in {folder}: make one with `infer model build`")


def show(name: str, as_json: bool, config: Path | None) -> None:
    artifact = find_artifact(_models_folder(config), name)
    manifest, tunings = artifact.manifest, load_all(artifact.folder)
    if as_json:
        print(json.dumps(json.loads(manifest.to_json()) | {"tuning": [asdict(tuning) for tuning in tunings]}, indent=2))
        return
    print(f"{manifest.name} {manifest.model_id}, built {manifest.created_at} from {manifest.source}")
    print(f"recipe: {_recipe_in_words(manifest)}; {manifest.output.kind}, {manifest.num_outputs} outputs per image")
    show_variants(manifest)
    show_requirements(manifest)
    show_decoding(manifest)
    for tuning in tunings:
        show_tuning(tuning)


def tune(name: str, config: Path | None) -> None:
    """Measures everything anew on this machine, and shows it."""
    artifact = find_artifact(_models_folder(config), name)
    show_tuning(measure_layouts(artifact, measure_speeds(artifact), say))


def say(what: str) -> None:
    """Progress: standard output is for the answer."""
    print(what, file=sys.stderr)


def _recipe_in_words(manifest: Manifest) -> str:
    given = {key: value for key, value in asdict(manifest.recipe).items() if value is not None}
    words = ", ".join(f"{key} {value}" for key, value in given.items())
    return f"{words}; mean {manifest.mean}, std {manifest.std}"


def verify(name: str | None, as_json: bool, config: Path | None) -> None:
    """Raises ModelError for the first model that isn't as it was built."""
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


def _models_folder(config: Path | None) -> Path:
    """That of infer.toml; without one, ./models, so that a model can be built before a project is made."""
    if config is None and not DEFAULT_CONFIG.exists():
        return Path("models").absolute()
    return load_settings(config).models_folder


def _normalisation(input_format: str, mean: str | None, std: str | None) -> dict[str, tuple[float, float, float]]:
    if input_format == "uint8-nhwc":
        if mean is not None or std is not None:
            raise UsageError("a uint8-nhwc module normalises by itself", "leave --mean and --std out")
        return {}
    return {
        "mean": IMAGENET_MEAN if mean is None else _three("--mean", mean),
        "std": IMAGENET_STD if std is None else _three("--std", std),
    }


def _three(flag: str, text: str) -> tuple[float, float, float]:
    try:
        red, green, blue = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{flag} {text!r} is not three numbers", "for example 0.485,0.456,0.406") from None
    return red, green, blue
