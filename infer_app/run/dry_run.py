"""Measures a run on a sample of its images, and cheaper ways through a stage, without changing the database."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import NamedTuple

from infer_app.artifact.artifact import Artifact
from infer_app.base.day import Day
from infer_app.base.domain import NewImage
from infer_app.base.run_report import Alternative, RunReport
from infer_app.predict.chunking import FEW_IMAGES
from infer_app.predict.executors import Executor
from infer_app.predict.handlers.handler_spec import HandlerSpec
from infer_app.run.flow.failure_budget import FailureBudget
from infer_app.run.flow.flow import ModelRun
from infer_app.run.flow.run_plan import find_begun
from infer_app.run.group_run import GroupRun
from infer_app.run.run_day import find_left_out, predict, with_left_out
from infer_app.run.run_result import make_report
from infer_app.tables.dry_run_database import open_dry_run_database
from infer_app.tables.results.runs import RunStore

DRY_RUN_IMAGES = 256
DRY_RUN_CHUNKS = 8  # for each worker, at least; the first is slow
DRY_RUN_S = 60.0  # then no further images are taken, unless the user says how many
DRY_RUN_ID = "dry-run"
TRIED_IMAGES = 256  # by which other variants are measured


class Probes(NamedTuple):
    """Functions that measure cheaper ways on images at some locations. Passed in: a run loads no build code."""

    variants: Callable[[Artifact, HandlerSpec, Sequence[str]], list[Alternative]]
    decoding: Callable[[HandlerSpec, Sequence[str]], list[Alternative]]


def dry_run(
    group: GroupRun,
    days: Sequence[Day],
    probes: Probes,
    limit: int | None = None,
    unregistered: Sequence[NewImage] = (),
) -> list[RunReport]:
    """Run a sample of the days, oldest first, which begins with `unregistered`: images that a run would register first.

    Results are written to a temporary database, since a forecast must include the cost of writing.
    """
    project, executor = group.project, group.executors.open(group.plan)
    chunk_size, num_chunks = executor.limit_chunk(group.loaded.run.chunk_size), DRY_RUN_CHUNKS * executor.num_workers
    plan = replace(group.plan, max_images=limit or max(DRY_RUN_IMAGES, num_chunks * (chunk_size or FEW_IMAGES)))
    few = limit or num_chunks * (chunk_size or executor.least_chunk)
    left_out = "; ".join(filter(None, (find_left_out(project, day) for day in days)))

    def pages() -> Iterator[Sequence[NewImage]]:
        if unregistered:
            yield unregistered
        for day in days:
            yield from project.source.select_pages(day, *plan.model_ids)

    some = list(islice(chain.from_iterable(pages()), TRIED_IMAGES))
    alternatives = find_alternatives(group, executor, days[-1], some, probes)
    with open_dry_run_database(project.database) as database:
        if database.file is not None:  # each commit updates the run's row, which costs a page
            RunStore(database).open_run(days[-1], plan.models[0], DRY_RUN_ID)
        model_runs = [
            ModelRun(number, model, DRY_RUN_ID, database, FailureBudget(group.loaded.run), project.source.registered)
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


def find_alternatives(
    group: GroupRun, executor: Executor, day: Day, images: Sequence[NewImage], probes: Probes
) -> list[Alternative]:
    """Return the cheaper ways through a stage, some of which are measured on the images.

    Another variant is offered by what it changes in these images, unless the day was begun in one already.
    """
    plan, locations = group.plan, [new.ref.location for new in images]
    is_begun = any(find_begun(group.project, day, model) for model in plan.models)
    is_alone = len(plan.artifacts) == 1 and locations and not is_begun
    found = probes.variants(plan.artifacts[0], executor.handler, locations) if is_alone else []
    if plan.detector is not None:  # objects are cut out of whole pictures
        return found
    return found + probes.decoding(executor.handler, locations)
