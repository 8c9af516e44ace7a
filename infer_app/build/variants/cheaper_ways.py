"""Measures, on a user's own images, what a run could cost less: another variant, or scaled decoding."""

import logging
import shlex
from collections.abc import Sequence

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.manifest import Manifest
from infer_app.base.errors import ModelError
from infer_app.base.model_variants import OPENVINO_BF16, OPENVINO_INT8, VariantTrial, variant_of
from infer_app.base.run_report import Alternative
from infer_app.build.variants.decoding_agreement import decoding_ms
from infer_app.build.variants.judge_variants import Trial, try_variants
from infer_app.predict.handlers.handler_spec import HandlerSpec
from infer_app.predict.runtimes.gpu_probe import missing_for
from infer_app.predict.verification.agreement import describe_kept, find_min_agreement
from infer_app.predict.workers.isolated_call import run_in_process

log = logging.getLogger(__name__)

PROBED_IMAGES = 12  # by which scaled decoding is measured
TIMEOUT_S = 60.0  # of a process that measures
TRIAL_S = 10.0  # for decoding a sample and computing it by each variant


def probe_decoding(handler: HandlerSpec, locations: Sequence[str]) -> list[Alternative]:
    """Measure scaled decoding on these images; return nothing if none of them is large enough."""
    given = (handler.models[0].artifact, handler.read, handler.max_pixels, locations[:PROBED_IMAGES])
    try:
        costs = run_in_process(decoding_ms, *given, timeout_s=TIMEOUT_S)
    except ModelError as error:  # a file can crash or hang the decoder; the run reports which one
        log.info("scaled decoding was not measured: %s", error)
        return []
    if costs is None:
        return []
    what = "a model built with --decode scaled (large JPEGs at a fraction of their size)"
    return [Alternative(what, ("decode", "transform"), costs["scaled"], costs["exact"])]


def probe_variants(artifact: Artifact, handler: HandlerSpec, locations: Sequence[str]) -> list[Alternative]:
    """Measure the variants that round and can run here beside the present one, on these images, in some seconds."""
    spec, manifest = handler.models[0], artifact.manifest
    others = _others(manifest, spec.variant)
    if not others:
        return []
    sizes = dict.fromkeys((spec.variant, *others), spec.batch_size)
    given = (artifact.folder, sizes, handler.read, locations, TRIAL_S)
    try:
        trials = run_in_process(try_variants, *given, timeout_s=TIMEOUT_S)
    except ModelError as error:
        log.info("other variants were not measured: %s (%s)", error, error.hint)
        return []
    return [_alternative(manifest, variant, trial) for variant, trial in trials.items()]


def _others(manifest: Manifest, variant: str) -> list[str]:
    """Return bf16 and int8 if they can run here in place of a variant of the CPU that does not round.

    bf16 needs only the graph of fp32. What was judged before to change too much is left out.
    """
    if variant_of(variant).device != "cpu" or not variant_of(variant).is_exact:
        return []
    return [
        other
        for other in (OPENVINO_BF16, OPENVINO_INT8)
        if variant_of(other).stored_as in manifest.variants
        and missing_for(other, manifest.requires(other)) is None
        and manifest.variants.get(other, {}).get("meets_bar", True)
    ]


def _alternative(manifest: Manifest, variant: str, trial: Trial) -> Alternative:
    parity, known = trial.parity, manifest.variants.get(variant)
    min_agreement = find_min_agreement(manifest.output, (known or {}).get("min_agreement"))
    found = VariantTrial(
        variant,
        parity.num_images,
        parity.label_agreement if manifest.output.kind == "classification" else None,
        parity.cosine,
        parity.p99_score_difference,
        parity.worst_score_difference,
        min_agreement,
        trial.score >= min_agreement,
        parity.object_agreement,
    )
    measured = f"{describe_kept(manifest, parity)}, measured on {parity.num_images:,} of your images"
    to_add = "" if known else f"; `infer model judge {shlex.quote(manifest.name)}` adds it to the model"
    what = f"{variant_of(variant).option} ({measured}{to_add})"
    return Alternative(what, ("model",), trial.ms, trial.instead_of, variant, found)
