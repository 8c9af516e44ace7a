"""Measures a run on a sample of its images, and cheaper ways through a stage, without changing the database."""

import logging
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

from infer_app.database.listing.former_pictures import check_ids
from infer_app.database.results.dry_run_database import open_dry_run_database
from infer_app.database.results.runs import RunStore
from infer_app.day import Day
from infer_app.domain import NewImage
from infer_app.errors import ModelError
from infer_app.handlers.handler_spec import HandlerSpec
from infer_app.machine import usable_cores
from infer_app.model_variants import OPENVINO_BF16, OPENVINO_INT8, VariantTrial, variant_of
from infer_app.models.artifact.artifact import Artifact
from infer_app.models.artifact.manifest import Manifest
from infer_app.models.building.decoding_agreement import decoding_ms
from infer_app.models.building.judge_variants import Trial, try_variants
from infer_app.models.runtimes.gpu_probe import missing_for
from infer_app.models.selection.tuning import load_tuning
from infer_app.models.selection.variant_selection import AUTO
from infer_app.models.verification.agreement import describe_kept, find_min_agreement
from infer_app.pipeline.executors import Executor
from infer_app.pipeline.flow.chunking import FEW_IMAGES
from infer_app.pipeline.flow.failure_budget import FailureBudget
from infer_app.pipeline.flow.model_run import ModelRun
from infer_app.pipeline.group_run import GroupRun
from infer_app.pipeline.planning.run_plan import find_begun
from infer_app.pipeline.run_day import find_left_out, predict, with_left_out
from infer_app.pipeline.run_result import make_report
from infer_app.run_report import Alternative, RunReport
from infer_app.workers.isolated_call import run_in_process

log = logging.getLogger(__name__)

DRY_RUN_IMAGES = 256
DRY_RUN_CHUNKS = 8  # for each worker, at least; the first is slow
DRY_RUN_S = 60.0  # then no further images are taken, unless the user says how many
DRY_RUN_ID = "dry-run"
PROBED_IMAGES = 12  # by which scaled decoding is measured
TRIED_IMAGES = 256  # by which other variants are measured
TIMEOUT_S = 60.0  # of a process that measures
TRIAL_S = 10.0  # for decoding a sample and computing it by each variant


def dry_run(
    group: GroupRun, days: Sequence[Day], limit: int | None = None, unregistered: Sequence[NewImage] = ()
) -> list[RunReport]:
    """Run a sample of the days, oldest first, which begins with `unregistered`: images that a run would register first.

    Results are written to a temporary database, since a forecast must include the cost of writing.
    """
    project, executor = group.project, group.executors.open(group.plan)
    chunk_size, num_chunks = executor.limit_chunk(group.loaded.run.chunk_size), DRY_RUN_CHUNKS * executor.num_workers
    plan = replace(group.plan, max_images=limit or max(DRY_RUN_IMAGES, num_chunks * (chunk_size or FEW_IMAGES)))
    few = limit or num_chunks * (chunk_size or executor.least_chunk)
    left_out = "; ".join(filter(None, (find_left_out(project, day) for day in days)))
    for day in days:
        check_ids(project.database, project.source, day, plan.model_ids)

    def pages() -> Iterator[Sequence[NewImage]]:
        if unregistered:
            yield unregistered
        for day in days:
            yield from project.source.select_pages(day, *plan.model_ids)

    some = list(islice(chain.from_iterable(pages()), TRIED_IMAGES))
    alternatives = find_alternatives(group, executor, days[-1], some)
    with open_dry_run_database(project.database) as database:
        if database.file is not None:  # each commit updates the run's row, which costs a page
            RunStore(database).open_run(days[-1], plan.models[0], DRY_RUN_ID)
        model_runs = [
            ModelRun(number, model, DRY_RUN_ID, database, FailureBudget(group.loaded.run.max_rejected))
            for number, model in enumerate(plan.models)
        ]
        tally = predict(group, plan, days, take_until(pages(), few, time.monotonic() + DRY_RUN_S), model_runs)
        reports = [make_report(group, days[-1], executor, one, tally, alternatives) for one in model_runs]
        reports.sort(key=lambda one: -one.selected)  # the first has the costs: a detector may have nothing new
        return with_left_out(reports, left_out)


def take_until(pages: Iterator[Sequence[NewImage]], num_images: int, end: float) -> Iterator[Sequence[NewImage]]:
    """Yield so many images of the pages, and then others until that time of the monotonic clock."""
    for page in pages:
        if num_images > 0:
            yield page[:num_images]
        for image in page[max(0, num_images) :]:
            if time.monotonic() > end:
                return
            yield [image]
        num_images -= len(page)


def find_alternatives(group: GroupRun, executor: Executor, day: Day, images: Sequence[NewImage]) -> list[Alternative]:
    """Return the cheaper ways through a stage, some of which are measured on the images.

    Another variant is offered by what it changes in these images, unless the day was begun in one already.
    """
    plan, locations = group.plan, [new.ref.location for new in images]
    found = list(plan.alternatives)
    if any(find_begun(group.project, day, model) for model in plan.models):
        found = [one for one in found if one.variant is None]
    elif locations and group.loaded.run.variant == AUTO and len(plan.artifacts) == 1:
        tried = probe_variants(plan.artifacts[0], executor.handler, locations)
        known = {one.variant for one in tried}
        found = [one for one in found if one.variant not in known] + tried
    if plan.detector is not None:  # objects are cut out of whole pictures
        return found
    return found + probe_decoding(executor.handler, locations[:PROBED_IMAGES])


def probe_decoding(handler: HandlerSpec, locations: Sequence[str]) -> list[Alternative]:
    """Measure scaled decoding on these images; return nothing if none of them is large enough."""
    given = (handler.models[0].artifact, handler.read, handler.max_pixels, locations)
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
    tuning = load_tuning(artifact.folder, usable_cores())
    known = {variant: speed.batch_size for variant, speed in tuning.speeds.items()} if tuning else {}
    sizes = {spec.variant: spec.batch_size} | {variant: known.get(variant) for variant in others}
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
