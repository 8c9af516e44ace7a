"""Build a model: read the source, validate it, and write the artifact in one step or not at all."""

from __future__ import annotations

import hashlib
import platform
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import nn

import infer_app
from infer_app.artifact.artifact import Artifact, Preprocess, open_artifact, record_variant, save_manifest, write_file
from infer_app.artifact.check_description import check_description
from infer_app.artifact.description import Description
from infer_app.artifact.manifest import GOLDEN_OUTPUTS_FILE, GOLDEN_PIXELS_FILE, MODEL_FILES, Manifest
from infer_app.artifact.model_names import short_name
from infer_app.artifact.second_network import check_against_detector
from infer_app.artifact.specs import Tolerance
from infer_app.base.errors import ModelChanged, ModelError, PixelsChanged, UsageError
from infer_app.base.model_variants import variant_of
from infer_app.build.network.golden_set import load_pixels, make_golden_set
from infer_app.build.network.graph_source import EXPORT_OTHERWISE
from infer_app.build.network.model_source import find_source
from infer_app.build.network.source_kinds import make_first_variant, open_source
from infer_app.build.network.validate_detector import check_detection, complete_output
from infer_app.build.network.validate_source import check_meaning, try_source
from infer_app.build.own_files import head_of, num_labels, own_files, preprocess_of
from infer_app.build.variants.decoding_agreement import decoding_agreement
from infer_app.build.variants.openvino_variants import golden_details, tolerance_for
from infer_app.predict.runtimes.fixed_batch import FixedBatch
from infer_app.predict.runtimes.gpu_probe import first_variant
from infer_app.predict.runtimes.torchscript import source_rows
from infer_app.predict.verification.golden import (
    CHECK_BATCH,
    check_golden,
    check_rounded,
    golden_pixels,
    predict_all,
    save_array,
)
from infer_app.predict.verification.vectors import GOLDEN_FAILED


def build_model(described: Description, models_folder: Path, detector: Artifact | None = None) -> Artifact:
    """Build and check a model, and return its artifact; a second network needs its detector.

    If this very model exists already, return it unchanged with `reused` set.
    """
    check_description(described)
    input_spec, recipe, output = described.make_input(), described.make_recipe(), described.make_output()
    crop = described.make_crop(detector.manifest if detector else None)
    if crop and detector:
        check_against_detector(crop, recipe, detector.manifest, detector.labels)
    files = own_files(described, crop.rule if crop else None)
    preprocess = preprocess_of(described, files)
    source = find_source(described.source, described.weights).read(input_spec, recipe.size)
    module = open_source(source.kind, source.files, described.output_name)
    golden = make_golden_set(described.golden, recipe, preprocess)
    outputs = try_source(module, input_spec, golden.pixels, allow_several=output.kind == "detection")
    output = complete_output(output, outputs.shapes, num_labels(files), is_ordered=described.output_name is not None)

    files |= dict(zip(MODEL_FILES[source.kind], source.files, strict=True))
    files |= dict(zip(golden.names, golden.images, strict=True))
    files[GOLDEN_PIXELS_FILE] = save_array(golden.pixels)
    files[GOLDEN_OUTPUTS_FILE] = save_array(outputs.rows)
    manifest = Manifest(
        name=described.name,
        model_id="",
        output_name=described.output_name,
        crop=crop,
        recipe=recipe,
        input=input_spec.kind,
        mean=input_spec.mean,
        std=input_spec.std,
        output=output,
        num_outputs=outputs.rows.shape[1],
        source=described.source,
        weights=None if described.weights is None else str(described.weights),
        source_kind=source.kind,
        source_sha256=source.sha256,
        preprocess=described.preprocess,
        golden=golden.names,
        tolerance=Tolerance(),
        created_at=datetime.now(UTC).isoformat(),
        built_with=_built_with(module),
        files={relative: hashlib.sha256(data).hexdigest() for relative, data in sorted(files.items())},
    )
    manifest = replace(manifest, model_id=manifest.expected_id())
    folder = models_folder / manifest.name / manifest.model_id
    if known := _intact_artifact(folder):
        if described.golden is not None:
            _check_same_golden_images(known.manifest, manifest)
        load = partial(load_pixels, recipe=recipe, preprocess=preprocess)
        _check_same_outputs(known, load, partial(source_rows, module, input_spec))
        return known
    if output.kind == "detection":
        check_detection(output, recipe, outputs.rows, num_labels(files), head_of(described, files))
    else:
        check_meaning(outputs, output, num_labels(files))
    with replaced_folder(folder) as building, _told_by_runtime(manifest, module):
        _fill(building, manifest, files, preprocess, golden.photos)
    return open_artifact(folder)


def _built_with(module: nn.Module) -> dict[str, str]:
    """Return the versions of what builds a model, and of what runs the reference where that is not torch."""
    versions = {
        "infer_app": infer_app.__version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
    }
    runtime = getattr(module, "runtime", None)
    return versions | ({"reference": runtime} if runtime else {})


def _check_same_golden_images(known: Manifest, built_now: Manifest) -> None:
    """Raise UsageError if other golden images are given than those of the model that is there."""
    theirs, ours = ([one.files[path] for path in one.golden] for one in (known, built_now))
    if theirs != ours:
        version = short_name(known.name, known.model_id)
        raise UsageError(
            f"{version} is there already, with other golden images, which its variants were compared on",
            f"`infer model remove {version}`, then build it again: its results stay; or leave golden out",
        )


def _check_same_outputs(
    known: Artifact, load: Callable[[bytes], np.ndarray], predict: Callable[[np.ndarray], np.ndarray]
) -> None:
    """Raise ModelError if `predict` gives other outputs for the golden images of the model that is there."""
    try:
        check_golden(known, load, predict, first_variant(known.manifest))
    except ModelError as error:
        version = f"{known.manifest.name}@{known.manifest.model_id}"
        raise ModelError(
            f"{version} is there already, but what was built now gives other outputs: {error.message}",
            "something that the id does not cover has changed, such as a library; nothing was changed here. Go "
            f"back to that version of it; or build under another name; or `infer model remove {version}` and build "
            "again",
        ) from error


def _fill(
    folder: Path, manifest: Manifest, files: dict[str, bytes], preprocess: Preprocess | None, photos: Sequence[bytes]
) -> None:
    """Write the files, then read them back as a run does: run the golden check and measure the variant's parity."""
    for relative, data in files.items():
        write_file(folder, relative, data)
    save_manifest(folder, manifest)
    artifact = open_artifact(folder)
    batch_size = manifest.recipe.size.largest_batch(CHECK_BATCH)
    variant, predict, variant_files = _first_variant(artifact, batch_size)
    load = partial(load_pixels, recipe=manifest.recipe, preprocess=preprocess)
    tolerance = manifest.tolerance
    if not variant_of(variant).is_exact:
        rounded = predict_all(predict, golden_pixels(artifact), batch_size)
        tolerance = tolerance_for(check_rounded(artifact, rounded))
    check_golden(artifact, load, predict, variant, batch_size, tolerance=tolerance)
    details = golden_details(artifact, variant, predict)
    if manifest.recipe.decode == "scaled":
        agreement = decoding_agreement(artifact, predict, photos, batch_size)
        details[manifest.recipe.decode] = agreement.to_json() if agreement else None
    record_variant(artifact, variant, details, variant_files)


@contextmanager
def _told_by_runtime(manifest: Manifest, module: nn.Module) -> Iterator[None]:
    """Name both runtimes if the golden outputs differ, and give no hint for a model that was built before."""
    ours = "the module frozen for the CPU" if manifest.has_torchscript else f"OpenVINO {version('openvino')}"
    theirs = manifest.built_with.get("reference", f"torch {torch.__version__}")
    known = ", ".join(getattr(module, "differences", ()))
    try:
        yield
    except ModelChanged as error:
        what = f"compute this network differently: {error.message.removeprefix(GOLDEN_FAILED)}"
        hint = f"the network has {known}: {EXPORT_OTHERWISE}" if known else EXPORT_OTHERWISE
        raise ModelError(f"{ours} and {theirs} {what}", hint) from error
    except PixelsChanged as error:
        raise ModelError(error.message, "pictures are decoded otherwise here: `infer doctor` says by what") from error


def _first_variant(artifact: Artifact, batch_size: int) -> tuple[str, FixedBatch, dict[str, bytes]]:
    try:
        return make_first_variant(artifact, batch_size)
    except ModelError:
        raise
    except Exception as error:  # the module is the user's code, and torch.jit.Error is not a RuntimeError
        raise ModelError(f"the module can't be frozen for the CPU: {error}", "simplify it, or trace it") from error


def _intact_artifact(folder: Path) -> Artifact | None:
    """Return the model in a folder; None if it is missing or damaged and must be written again."""
    if not folder.is_dir():
        return None
    try:
        artifact = open_artifact(folder)
        artifact.verify()
    except ModelError:
        return None
    return replace(artifact, reused=True)


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder beside `folder`; it replaces `folder` on success and is removed after a failure."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    building, old = (folder.parent / f".{what}-{secrets.token_hex(8)}" for what in ("building", "replaced"))
    building.mkdir()  # not mkdtemp, whose folders are private: cron may run as another user
    try:
        yield building
        if folder.exists():  # damaged, or made by a build that just ended: the same model in either case
            folder.replace(old)
        building.replace(folder)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(building, ignore_errors=True)
