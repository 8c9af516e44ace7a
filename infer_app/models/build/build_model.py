"""Build a model: read the source, validate it, and write the artifact in one step or not at all."""

from __future__ import annotations

import hashlib
import platform
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import infer_app
from infer_app.errors import ModelError, UsageError
from infer_app.model_names import short_name
from infer_app.models.artifact.artifact import (
    Artifact,
    Preprocess,
    check_name,
    load_function,
    open_artifact,
    record_variant,
    save_manifest,
    write_file,
)
from infer_app.models.artifact.manifest import (
    GOLDEN_OUTPUTS_FILE,
    GOLDEN_PIXELS_FILE,
    HEAD_FILE,
    LABELS_FILE,
    PREPROCESS_FILE,
    Manifest,
    format_labels,
    model_files_of,
    parse_labels,
)
from infer_app.models.artifact.specs import WITH_LABELS, InputSpec, OutputSpec, Tolerance, floats3
from infer_app.models.build.callables import resolve_callable, standalone_code
from infer_app.models.build.computation import computation_sha256
from infer_app.models.build.decoding_agreement import decoding_agreement
from infer_app.models.build.golden_set import GoldenSet, load_pixels, make_golden_set
from infer_app.models.build.model_source import SourceFiles, find_source
from infer_app.models.build.validate_source import SourceOutputs, check_meaning, source_rows, try_source
from infer_app.models.detection.heads import OwnHead
from infer_app.models.detection.validate_detector import check_detection, complete_detection
from infer_app.models.runtimes.gpu_probe import first_variant
from infer_app.models.runtimes.source_kinds import SOURCE_KINDS, make_first_variant
from infer_app.models.verification.golden import (
    CHECK_BATCH,
    check_golden,
    golden_parity,
    golden_pixels,
    predict_all,
    save_array,
)
from infer_app.models.verification.object_parity import EXACT_OBJECT
from infer_app.recipe import Recipe


@dataclass(frozen=True)
class BuildRequest:
    """The arguments of `infer model build`."""

    source: str  # a file of TorchScript, ONNX or OpenVINO, a folder, timm:NAME, or package.module:function
    name: str
    recipe: Recipe
    weights: Path | None = None  # for a callable or a library's network: a state dict, or .safetensors
    labels: Path | None = None
    preprocess: str | None = None  # package.module:function, of a custom recipe
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)  # 0-1 scale
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    input: str = "float-nchw"
    output: OutputSpec = field(default_factory=OutputSpec)
    golden: Path | None = None  # a folder of images
    label_names: tuple[str, ...] = ()  # without a file of labels
    output_name: str | None = None  # of a network's file

    @property
    def input_spec(self) -> InputSpec:
        return InputSpec(self.input, floats3(self.mean), floats3(self.std))


def build_model(request: BuildRequest, models_folder: Path) -> Artifact:
    """Build and check a model, and return its artifact.

    If this very model exists already, return it unchanged with `reused` set.
    """
    _check_request(request)
    input_spec = request.input_spec
    files = _own_files(request)
    preprocess = _preprocess_of(request, files)
    source = find_source(request.source, request.weights).read(input_spec, request.recipe.size)
    module = SOURCE_KINDS[source.kind].open(source.files, request.output_name)
    golden = make_golden_set(request.golden, request.recipe, preprocess)
    outputs = try_source(module, input_spec, golden.pixels, allow_several=request.output.kind == "detection")
    if request.output.kind == "detection":
        request = replace(request, output=complete_detection(request.output, outputs.shapes, _num_labels(files)))

    files |= dict(zip(model_files_of(source.kind), source.files, strict=True))
    files |= dict(zip(golden.names, golden.images, strict=True))
    files[GOLDEN_PIXELS_FILE] = save_array(golden.pixels.numpy())
    files[GOLDEN_OUTPUTS_FILE] = save_array(outputs.rows.numpy())
    manifest = _manifest(request, source, golden, outputs, files)
    if runtime := getattr(module, "runtime", None):
        manifest = replace(manifest, built_with=manifest.built_with | {"reference": runtime})
    folder = models_folder / request.name / manifest.model_id
    if existing := _intact_artifact(folder):
        _check_same_golden_images(request, existing.manifest, manifest)
        load = partial(load_pixels, recipe=request.recipe, preprocess=preprocess)
        _check_same_outputs(existing, load, partial(source_rows, module, input_spec))
        return existing
    if former := _built_before(folder, manifest, source):
        _check_same_golden_images(request, former.manifest, manifest)
        return former
    _check_outputs(request, outputs, files)
    with _new_folder(folder) as building:
        _fill(building, manifest, files, preprocess, golden.photos)
    return open_artifact(folder)


def _check_request(request: BuildRequest) -> None:
    check_name(request.name)
    if (request.recipe.kind == "custom") != (request.preprocess is not None):
        raise UsageError("--preprocess and the recipe custom belong together", "give both, or only another recipe")
    request.recipe.check()
    if request.labels is not None and request.output.kind not in WITH_LABELS:
        kinds = " and ".join(WITH_LABELS)
        raise UsageError(f"labels belong to {kinds}, not to {request.output.kind}", "leave --labels out")
    if request.output.kind == "detection" and request.recipe.kind == "custom":
        raise UsageError(
            "a detector can't use --preprocess: boxes can't be mapped back through a function of your own",
            "use --recipe letterbox or stretch, by which boxes are placed on the picture",
        )
    if request.output.kind == "detection" and request.recipe.exif == "ignore":
        raise UsageError(
            "a detector can't use --exif ignore: its boxes refer to the upright picture", "leave --exif out"
        )
    if request.input == "uint8-nhwc" and request.input_spec != InputSpec("uint8-nhwc"):
        raise UsageError("a uint8-nhwc module normalises by itself", "leave --mean and --std out")


def _own_files(request: BuildRequest) -> dict[str, bytes]:
    """Return the labels and the preprocess function as the artifact stores them."""
    files = {}
    if request.labels is not None:
        if not request.labels.is_file():
            raise UsageError(f"no file {request.labels}", "--labels takes a text file, one label a line")
        files[LABELS_FILE] = format_labels(parse_labels(request.labels.read_bytes(), str(request.labels)))
    elif request.label_names:
        text = format_labels(request.label_names)
        files[LABELS_FILE] = format_labels(parse_labels(text, f"the labels of {request.source}"))
    if request.preprocess is not None:
        files[PREPROCESS_FILE] = standalone_code(resolve_callable(request.preprocess))
    if (detection := request.output.detection) and detection.is_own:
        files[HEAD_FILE] = standalone_code(resolve_callable(detection.head))
    return files


def _preprocess_of(request: BuildRequest, files: dict[str, bytes]) -> Preprocess | None:
    """Load the preprocess function from the copy that runs will use, so that a file with local imports fails now."""
    if request.preprocess is None:
        return None
    return load_function(files[PREPROCESS_FILE], request.preprocess.rpartition(":")[2], request.preprocess)


def _head_of(request: BuildRequest, files: dict[str, bytes]) -> OwnHead | None:
    """Load the user's own head in the same way."""
    if HEAD_FILE not in files or request.output.detection is None:
        return None
    name = request.output.detection.head
    return load_function(files[HEAD_FILE], name.rpartition(":")[2], f"{request.name}/{HEAD_FILE}")


def _num_labels(files: dict[str, bytes]) -> int | None:
    return len(parse_labels(files[LABELS_FILE], LABELS_FILE)) if LABELS_FILE in files else None


def _manifest(
    request: BuildRequest, source: SourceFiles, golden: GoldenSet, outputs: SourceOutputs, files: dict[str, bytes]
) -> Manifest:
    output = request.output
    if output.kind == "raw":
        output = replace(output, shape=outputs.shapes[0])
    sums = {relative: hashlib.sha256(data).hexdigest() for relative, data in sorted(files.items())}
    manifest = Manifest(
        name=request.name,
        model_id="",
        output_name=request.output_name,
        recipe=request.recipe,
        input=request.input,
        mean=request.input_spec.mean,
        std=request.input_spec.std,
        output=output,
        num_outputs=outputs.rows.shape[1],
        source=request.source,
        weights=None if request.weights is None else str(request.weights),
        source_kind=source.kind,
        source_sha256=source.sha256,
        preprocess=request.preprocess,
        golden=golden.names,
        tolerance=Tolerance(),
        created_at=datetime.now(UTC).isoformat(),
        built_with={
            "infer_app": infer_app.__version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        },
        files=sums,
    )
    return replace(manifest, model_id=manifest.expected_id())


def _check_outputs(request: BuildRequest, outputs: SourceOutputs, files: dict[str, bytes]) -> None:
    """Raise ModelError if the outputs can't have the meaning that the request gives them."""
    if request.output.kind == "detection":
        own = _head_of(request, files)
        check_detection(request.output, request.recipe, outputs.rows, _num_labels(files), own)
    else:
        check_meaning(outputs, request.output, _num_labels(files))


def _intact_artifact(folder: Path) -> Artifact | None:
    """Return the existing model; None if it is missing or damaged and must be written again."""
    if not folder.is_dir():
        return None
    try:
        artifact = open_artifact(folder)
        artifact.verify()
    except ModelError:
        return None
    return replace(artifact, reused=True)


def _built_before(folder: Path, manifest: Manifest, source: SourceFiles) -> Artifact | None:
    """Return the model that an earlier release built from the same callable, whose id did not cover what was traced."""
    if source.former_sha256 is None:
        return None
    former_id = replace(manifest, source_sha256=source.former_sha256).expected_id()
    found = _intact_artifact(folder.with_name(former_id))
    if found is None:
        return None
    is_same = computation_sha256(found.read(found.manifest.model_file)) == computation_sha256(source.model)
    return found if is_same else None  # another network gets an id of its own


def _check_same_golden_images(request: BuildRequest, existing: Manifest, built_now: Manifest) -> None:
    """Raise UsageError if golden images are given, and those of the existing model are others."""
    theirs, ours = ([one.files[path] for path in one.golden] for one in (existing, built_now))
    if request.golden is not None and theirs != ours:
        version = short_name(existing.name, existing.model_id)
        raise UsageError(
            f"{version} is there already, with other golden images, which its variants were compared on",
            f"`infer model remove {version}`, then build it again: its results stay; or leave --golden out",
        )


def _check_same_outputs(
    existing: Artifact, load: Callable[[bytes], Tensor], predict: Callable[[Tensor], Tensor]
) -> None:
    """Raise ModelError if what is built now gives other outputs on an existing model's golden images."""
    try:
        check_golden(existing, load, predict)
    except ModelError as error:
        version = f"{existing.manifest.name}@{existing.manifest.model_id}"
        raise ModelError(
            f"{version} is there already, but what was built now gives other outputs: {error.message}",
            "something that the id does not cover has changed, such as a library; nothing was changed here. Go back to "
            f"that version of it; or build under another name; or `infer model remove {version}` and build again",
        ) from error


def _fill(
    folder: Path,
    manifest: Manifest,
    files: dict[str, bytes],
    preprocess: Preprocess | None,
    photos: Sequence[bytes],
) -> None:
    """Write the files, then read them back as a run does: run the golden check and measure the variant's parity."""
    for relative, data in files.items():
        write_file(folder, relative, data)
    save_manifest(folder, manifest)
    artifact = open_artifact(folder)
    predict, variant_files = _first_variant(artifact)
    check_golden(artifact, partial(load_pixels, recipe=manifest.recipe, preprocess=preprocess), predict)
    actual = predict_all(predict, golden_pixels(artifact), CHECK_BATCH)
    details: dict[str, Any] = {"parity": golden_parity(artifact, actual, EXACT_OBJECT).to_json()}
    if manifest.recipe.decode == "scaled":
        agreement = decoding_agreement(predict, manifest.recipe, photos, artifact=artifact)
        details[manifest.recipe.decode] = agreement.to_json() if agreement else None
    record_variant(artifact, first_variant(manifest), details, variant_files)


def _first_variant(artifact: Artifact) -> tuple[Callable[[Tensor], Tensor], dict[str, bytes]]:
    try:
        return make_first_variant(artifact, CHECK_BATCH)
    except ModelError:
        raise
    except Exception as error:  # the module is the user's code, and torch.jit.Error is not a RuntimeError
        raise ModelError(f"the module can't be frozen for the CPU: {error}", "simplify it, or trace it") from error


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder beside `folder`; it replaces `folder` on success and is removed after a failure."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    building = folder.parent / f".building-{secrets.token_hex(8)}"
    building.mkdir()  # not mkdtemp, whose folders are private: cron may run as another user
    try:
        yield building
        _move_in(building, folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _move_in(building: Path, folder: Path) -> None:
    if folder.exists():  # damaged, or made by a build that just ended: the same model in either case
        old = Path(tempfile.mkdtemp(prefix=".replaced-", dir=folder.parent))
        folder.replace(old)
        building.replace(folder)
        shutil.rmtree(old, ignore_errors=True)
        return
    building.replace(folder)
