"""Measures a run on a sample of its images, without changing the database."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from infer_app.base.day import Day
from infer_app.base.domain import NewImage
from infer_app.base.run_report import RunReport
from infer_app.predict.chunking import FEW_IMAGES
from infer_app.run.flow.failure_budget import FailureBudget
from infer_app.run.flow.flow import ModelRun
from infer_app.run.group_run import GroupRun
from infer_app.run.run_day import predict
from infer_app.run.run_result import make_report
from infer_app.tables.dry_run_database import open_dry_run_database
from infer_app.tables.results.runs import RunStore

DRY_RUN_IMAGES = 256
DRY_RUN_CHUNKS = 8  # for each worker, at least; the first is slow
DRY_RUN_S = 60.0  # then no further images are taken, unless the user says how many
DRY_RUN_ID = "dry-run"


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

    def pages() -> Iterator[Sequence[NewImage]]:
        if unregistered:
            yield unregistered
        for day in days:
            yield from project.source.select_pages(day, *plan.model_ids)

    with open_dry_run_database(project.database) as database:
        if database.file is not None:  # each commit updates the run's row, which costs a page
            RunStore(database).open_run(days[-1], plan.models[0], DRY_RUN_ID)
        model_runs = [
            ModelRun(number, model, DRY_RUN_ID, database, FailureBudget(group.loaded.run), project.source.registered)
            for number, model in enumerate(plan.models)
        ]
        tally = predict(group, plan, days, take_until(pages(), few, time.monotonic() + DRY_RUN_S), model_runs)
        reports = [make_report(group, days[-1], executor, one, tally) for one in model_runs]
        reports.sort(key=lambda one: -one.selected)  # the first has the costs: a detector may have nothing new
        return reports


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
