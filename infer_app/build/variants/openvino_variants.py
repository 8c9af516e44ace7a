"""Build the OpenVINO variants of a model, compare them with the source, and then record them."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from infer_app.artifact.artifact import Artifact, record_variant
from infer_app.artifact.specs import Tolerance
from infer_app.base.errors import ModelError
from infer_app.base.machine import computes_bf16, has_vnni
from infer_app.base.model_variants import OPENVINO_BF16, OPENVINO_FP32, OPENVINO_INT8, variant_of
from infer_app.build.network.source_kinds import make_graph
from infer_app.build.variants.calibration import FITTED_FILE, Calibration, CalibrationImages, judge_on, load_calibration
from infer_app.build.variants.decoding_agreement import decoding_agreement
from infer_app.predict.runtimes import openvino
from infer_app.predict.runtimes.fixed_batch import FixedBatch
from infer_app.predict.runtimes.gpu_probe import VNNI, first_variant
from infer_app.predict.runtimes.open_variant import open_variant
from infer_app.predict.runtimes.openvino import Int8Settings
from infer_app.predict.verification.agreement import MARGIN, Report, find_min_agreement, judgement
from infer_app.predict.verification.golden import golden_parity, golden_pixels, predict_all
from infer_app.predict.verification.object_parity import EXACT_OBJECT, SAME_OBJECT
from infer_app.predict.verification.outputs import KINDS
from infer_app.predict.verification.parity import Parity

# Tried in this order, the fastest first, until MARGIN more labels or objects are kept than are needed.
INT8_SETTINGS = (
    Int8Settings("everything in int8"),
    Int8Settings("the first 3 convolutions and sums in fp32", 3, sums_in_fp32=True, is_thorough=True),
    Int8Settings("the first 3 and last 7 convolutions and sums in fp32", 3, 7, sums_in_fp32=True, is_thorough=True),
    Int8Settings("the first 24 convolutions and sums in fp32", 24, sums_in_fp32=True),  # for small detectors
)


@dataclass(frozen=True)
class QuantisedVariant:
    """A quantised graph and its parity on the images that choose."""

    graph: object
    model: FixedBatch
    settings: Int8Settings
    parity: Parity


def add_variants(
    artifact: Artifact, calibration: Calibration | None, report: Report, check: Callable[[], None] = lambda: None
) -> Artifact:
    """Add every variant that this machine can build and return the artifact; `report` gets the reasons for the others.

    `check` raises if int8 may not be replaced: a run may have begun while it was made. Raises ModelError if
    `calibration` is given, which requests int8, and int8 can't be built.
    """
    if artifact.manifest.is_quantised:
        report("the network is quantised already: int8 is its only variant, and --calibrate needs the float network")
        return artifact
    if calibration is not None and artifact.manifest.recipe.decode == "scaled":
        artifact = _record_decoding(artifact, calibration)
    known = {OPENVINO_FP32, OPENVINO_BF16} if computes_bf16() else {OPENVINO_FP32}
    if calibration is None and known <= artifact.manifest.variants.keys():
        return artifact
    try:
        graph = make_graph(artifact)
    except ModelError as error:
        if calibration is not None:
            raise
        report(f"{OPENVINO_FP32}: left out, {error}; {error.hint}")
        return artifact
    images = load_calibration(artifact, calibration) if calibration else None
    artifact = _record_fp32(artifact, graph, images)
    min_agreement = find_min_agreement(artifact.manifest.output, calibration.min_agreement if calibration else None)
    if computes_bf16():
        artifact = _add_bf16(artifact, graph, images, min_agreement, report)
    if images is None:
        return artifact
    return _add_int8(artifact, graph, images, min_agreement, report, check)


def _record_decoding(artifact: Artifact, calibration: Calibration) -> Artifact:
    """Measure on the user's own photos, not on the golden images, what inexact decoding changes, and record it."""
    variant = first_variant(artifact.manifest)
    model = open_variant(artifact, variant)
    recipe = artifact.manifest.recipe
    photos = (path.read_bytes() for path in calibration.files(recipe.size))
    agreement = decoding_agreement(artifact, model, photos, model.batch_size)
    details = artifact.manifest.variants[variant] | {recipe.decode: agreement.to_json() if agreement else None}
    return record_variant(artifact, variant, details)


def _record_fp32(artifact: Artifact, graph: object, images: CalibrationImages | None) -> Artifact:
    """Record the fp32 graph, or how exact the one is that is there: days may have been begun with its files."""
    known = artifact.manifest.variants.get(OPENVINO_FP32)
    if known is not None:
        model, files = open_variant(artifact, OPENVINO_FP32), None
    else:
        model, files = openvino.compile_graph(graph, artifact.manifest.recipe.size), openvino.serialise(graph)
    details = (known or {}) | golden_details(artifact, OPENVINO_FP32, model)
    if images is not None:
        details["calibration"] = judge_on(artifact, model, images.judging, EXACT_OBJECT).to_json()
    return record_variant(artifact, OPENVINO_FP32, details, files)


def _add_bf16(
    artifact: Artifact, graph: object, images: CalibrationImages | None, min_agreement: float, report: Report
) -> Artifact:
    """Record the variant that computes the fp32 graph in bf16; its labels are judged only on the user's images."""
    model = openvino.compile_graph(graph, artifact.manifest.recipe.size, dtype="bf16")
    details = golden_details(artifact, OPENVINO_BF16, model)
    if images is not None:
        details |= judgement(artifact, OPENVINO_BF16, judge_on(artifact, model, images.judging), min_agreement, report)
    return record_variant(artifact, OPENVINO_BF16, details)


def _add_int8(
    artifact: Artifact,
    graph: object,
    images: CalibrationImages,
    min_agreement: float,
    report: Report,
    check: Callable[[], None],
) -> Artifact:
    best, highest, kind = None, 0.0, KINDS[artifact.manifest.output.kind]
    enough = min(1.0, min_agreement + MARGIN)
    for candidate in _quantised(artifact, graph, images):
        report(f"{OPENVINO_INT8}: {candidate.settings.name}: {kind.describe_kept(artifact.manifest, candidate.parity)}")
        kept = kind.agreement(artifact.manifest, candidate.parity)
        if best is None or kept > highest:
            best, highest = candidate, kept
        if kept >= enough or candidate.parity.num_objects == 0:  # without objects others would tell no more
            break
    assert best is not None  # because INT8_SETTINGS is not empty
    details = golden_details(artifact, OPENVINO_INT8, best.model)
    judged = judge_on(artifact, best.model, images.judging)
    details |= judgement(artifact, OPENVINO_INT8, judged, min_agreement, report)
    details |= {"settings": asdict(best.settings), "requires": {"instructions": VNNI} if has_vnni() else {}}
    check()
    files = openvino.serialise(best.graph) | {FITTED_FILE: "\n".join(images.fitted).encode()}
    return record_variant(artifact, OPENVINO_INT8, details, files)


def _quantised(artifact: Artifact, graph: object, images: CalibrationImages) -> Iterator[QuantisedVariant]:
    """Yield int8 graphs, each slower and nearer to the source than the one before."""
    calibration = np.split(images.calibration, len(images.calibration))
    for settings in INT8_SETTINGS:
        quantised = openvino.quantise(graph, calibration, settings, overflow_fix=not has_vnni())
        model = openvino.compile_graph(quantised, artifact.manifest.recipe.size)
        yield QuantisedVariant(quantised, model, settings, judge_on(artifact, model, images.choosing))


def golden_details(artifact: Artifact, variant: str, model: FixedBatch) -> dict[str, Any]:
    """Return the manifest's entry of a variant that is not judged: how exact it is on the golden images."""
    is_exact = variant_of(variant).is_exact
    actual = predict_all(model, golden_pixels(artifact), model.batch_size)
    golden = golden_parity(artifact, actual, EXACT_OBJECT if is_exact else SAME_OBJECT)
    if is_exact:
        return {"parity": golden.to_json()}
    return {"parity": golden.to_json(), "tolerance": asdict(tolerance_for(golden))}


def tolerance_for(golden: Parity) -> Tolerance:
    """Return a tolerance with room for another processor's rounding: twice the distance that was measured here."""
    return Tolerance(
        cosine=min(Tolerance().cosine, 1 - 2 * (1 - golden.cosine)),
        relative=max(Tolerance().relative, 2 * golden.relative_difference),
    )
