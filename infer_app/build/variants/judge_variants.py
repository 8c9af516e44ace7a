"""Compare variants on the user's images: judge those that round and keep the verdict; probe what a run could cost less.

A probe, of another variant or of scaled decoding, keeps nothing.
"""

import logging
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from infer_app.artifact.artifact import Artifact, open_artifact, record_variant
from infer_app.artifact.manifest import Manifest
from infer_app.base.errors import ModelError, UsageError
from infer_app.base.model_variants import OPENVINO_BF16, OPENVINO_INT8, VariantTrial, variant_of
from infer_app.base.read_limits import ReadLimits
from infer_app.base.run_report import Alternative
from infer_app.build.network.golden_set import load_pixels
from infer_app.build.variants.calibration import MIN_IMAGES, CalibrationImages, expected_outputs, judge_on
from infer_app.build.variants.decoding_agreement import decoding_ms
from infer_app.build.variants.openvino_variants import add_variants
from infer_app.predict.handlers.handler_spec import HandlerSpec
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.read_image import read_image
from infer_app.predict.runtimes.fixed_batch import FixedBatch
from infer_app.predict.runtimes.gpu_probe import missing_for, runnable
from infer_app.predict.runtimes.open_variant import open_variant
from infer_app.predict.verification.agreement import find_min_agreement, judgement, measure_parity
from infer_app.predict.verification.golden import predict_all
from infer_app.predict.verification.outputs import KINDS
from infer_app.predict.verification.parity import Parity
from infer_app.predict.workers.isolated_call import run_in_process

log = logging.getLogger(__name__)

GROUP = 8  # images that each variant computes in its turn; every batch size that is tried divides it
PROBED_IMAGES = 12  # by which scaled decoding is measured
TIMEOUT_S = 60.0  # of a process that measures
TRIAL_S = 10.0  # for decoding a sample and computing it by each variant


class Judged(NamedTuple):
    """What another variant keeps of the outputs on the user's images."""

    parity: Parity
    meets_bar: bool
    num_images: int  # that were compared this time; `parity` is of more if an earlier judgement was kept


@dataclass(frozen=True, slots=True)
class Trial:
    """The difference of a variant's outputs from those of the present one, and the costs of both on one thread."""

    parity: Parity
    score: float  # what must reach the minimum agreement
    ms: float  # CPU milliseconds per image
    instead_of: float


def judge_variants(
    folder: Path, limits: ReadLimits, locations: Sequence[str], min_agreement: float, keep_better: bool = False
) -> dict[str, Judged]:
    """Return the agreement of each variant that rounds, and whether it reaches the minimum; both are recorded.

    With `keep_better` an agreement that is recorded already, on more images than these, is kept and returned. It loads
    torch, so call it in another process. On a CPU that computes bf16, a model that was built without it gains that
    variant. Raises UsageError if fewer than MIN_IMAGES images can be decoded.
    """
    artifact = add_variants(open_artifact(folder), None, print)
    images = _load(artifact, limits, locations)
    judged = {}
    for variant in [*runnable(artifact.manifest), *runnable(artifact.manifest, "cuda")]:
        if variant_of(variant).is_exact:
            continue
        parity = judge_on(artifact, open_variant(artifact, variant), images)
        num_images, before = parity.num_images, artifact.manifest.variants[variant].get("calibration")
        if keep_better and before and before["num_images"] > num_images and before.get("num_objects") != 0:
            parity = Parity(**before)
        own = judgement(artifact, variant, parity, min_agreement, print)
        details = artifact.manifest.variants[variant] | own
        artifact = record_variant(artifact, variant, details)
        judged[variant] = Judged(parity, own["meets_bar"], num_images)
    if not judged:
        raise ModelError(
            f"{artifact.manifest.name} has no half precision or int8 that can run here",
            "half takes a CPU that computes bf16, or a GPU and --variant at the build; for int8 build it again with "
            "--calibrate",
        )
    return judged


def try_variants(
    folder: Path, sizes: Mapping[str, int | None], limits: ReadLimits, locations: Sequence[str], seconds: float
) -> dict[str, Trial]:
    """Run the first variant of `sizes` and the others on the same images, in turns; return what each other changes.

    `sizes` has the batch size of each variant, None for its own. It loads torch, so call it in another process, which
    ends after about so many seconds: it takes as many of the images as that allows, none if they are fewer than
    MIN_IMAGES.
    """
    artifact = open_artifact(folder)
    end = time.monotonic() + seconds
    if torch := sys.modules.get("torch"):  # it compiles for its threads, and the clock measures only one of them
        torch.set_num_threads(1)
    models = {variant: open_variant(artifact, variant, size) for variant, size in sizes.items()}
    pixels = _decoded(artifact, limits, locations, time.monotonic() + (end - time.monotonic()) / 2)
    if not pixels or time.monotonic() + MIN_IMAGES * _seconds(models.values(), pixels[0]) > end:
        return {}
    outputs: dict[str, list[np.ndarray]] = {variant: [] for variant in models}
    spent = dict.fromkeys(models, 0.0)
    for group in [pixels[first : first + GROUP] for first in range(0, len(pixels), GROUP)]:
        for variant, model in models.items():
            started = time.thread_time()
            outputs[variant].append(predict_all(model, np.stack(group), model.batch_size))
            spent[variant] += time.thread_time() - started
        if time.monotonic() > end:
            break
    present, *others = (np.concatenate(outputs[variant]) for variant in models)
    if len(present) < MIN_IMAGES:
        return {}
    kind, ms = KINDS[artifact.manifest.output.kind], [1e3 * spent[variant] / len(present) for variant in models]
    parities = [measure_parity(present, other, artifact) for other in others]
    return {
        variant: Trial(parity, kind.agreement(artifact.manifest, parity), own_ms, ms[0])
        for variant, parity, own_ms in zip(list(models)[1:], parities, ms[1:], strict=True)
    }


def _seconds(models: Iterable[FixedBatch], pixels: np.ndarray) -> float:
    """Return the seconds in which all models together compute an image of a batch."""
    total = 0.0
    for model in models:
        started = time.monotonic()
        model(pixels[None])
        total += (time.monotonic() - started) / model.batch_size
    return total


def _load(artifact: Artifact, limits: ReadLimits, locations: Sequence[str]) -> CalibrationImages:
    pixels = _decoded(artifact, limits, locations)
    if len(pixels) < MIN_IMAGES:
        raise UsageError(
            f"{len(pixels)} of the day's images can be decoded, {MIN_IMAGES} are needed", "name a day with more images"
        )
    evaluation = np.stack(pixels)
    return CalibrationImages(evaluation[:0], evaluation, expected_outputs(artifact, evaluation))


def _decoded(
    artifact: Artifact, limits: ReadLimits, locations: Sequence[str], until: float = float("inf")
) -> list[np.ndarray]:
    """Return the pixels of the images that can be decoded before that time of the monotonic clock."""
    recipe, preprocess = artifact.manifest.recipe, artifact.preprocess()
    pixels = []
    for location in locations:
        try:
            pixels.append(load_pixels(read_image(location, limits).data, recipe, preprocess))
        except BadImage:
            continue
        if time.monotonic() > until:
            break
    return pixels


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
    what = "a model built with --set decode=scaled (large JPEGs at a fraction of their size)"
    return [Alternative(what, ("decode", "transform"), costs["scaled"], costs["exact"])]


def probe_variants(
    artifact: Artifact,
    handler: HandlerSpec,
    locations: Sequence[str],
    run: Callable[..., dict[str, Trial]] = run_in_process,
) -> list[Alternative]:
    """Measure the variants that round and can run here beside the present one, on these images, in some seconds."""
    spec, manifest = handler.models[0], artifact.manifest
    others = _others(manifest, spec.variant)
    if not others:
        return []
    sizes = dict.fromkeys((spec.variant, *others), spec.batch_size)
    given = (artifact.folder, sizes, handler.read, locations, TRIAL_S)
    try:
        trials = run(try_variants, *given, timeout_s=TIMEOUT_S)
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
    kept = KINDS[manifest.output.kind].describe_kept(manifest, parity)
    to_add = "" if known else f"; `infer model judge {shlex.quote(manifest.name)}` adds it to the model"
    what = f"{variant_of(variant).option} ({kept}, measured on {parity.num_images:,} of your images{to_add})"
    return Alternative(what, ("model",), trial.ms, trial.instead_of, found)
