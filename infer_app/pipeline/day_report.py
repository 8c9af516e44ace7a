"""The report of a run over a day: counts, rates, the bottleneck and the exit code of each model."""

from __future__ import annotations

from infer_app.day import Day
from infer_app.domain import RunReport
from infer_app.errors import EXIT_TOO_MANY_REJECTED
from infer_app.executors import Executor
from infer_app.pipeline.job import Job
from infer_app.pipeline.model_run import ModelRun
from infer_app.pipeline.stop import Stop
from infer_app.settings.sections import rejection_budget
from infer_app.telemetry.bottleneck import Cost, advise, find_bottleneck, rate_limits
from infer_app.telemetry.tally import Tally


def make_report(job: Job, day: Day, model_run: ModelRun, tally: Tally, stop: Stop) -> RunReport:
    """Return the report of one model. Its day's counts are read from the database."""
    seconds, steady = tally.seconds, tally.steady_images_per_second
    cost = _cost(job.executor, tally)
    rates = rate_limits(cost)
    limit = min(rates.values(), default=None)
    too_many = model_run.stopped is not None or model_run.rejected > rejection_budget(
        job.max_rejected, model_run.selected
    )
    return RunReport(
        date=day.date,
        model=model_run.model.name,
        model_id=model_run.model.model_id,
        variant=model_run.model.variant,
        run_id=model_run.run_id,
        executor=job.executor.name,
        device=job.executor.device,
        selected=model_run.selected,
        predicted=model_run.predicted,
        rejected=model_run.rejected,
        reasons=dict(sorted(model_run.reasons.items())),
        day=job.project.database.with_reconnect(
            lambda: job.project.day_queries.count_day(day, model_run.model.model_id)
        ),
        seconds=seconds,
        images_per_second=model_run.selected / seconds,
        steady_images_per_second=steady,
        limit_images_per_second=limit,
        stages=tally.cpu_ms(),
        exit_code=stop.exit_code or (EXIT_TOO_MANY_REJECTED if too_many else 0),
        walls=tally.wall_ms(),
        waits=tally.wait_ms(),
        limits=rates,
        limited_by=find_bottleneck(cost),
        share_of_limit=steady / limit if steady and limit else None,
        advice=advise(cost, job.alternatives),
        num_cores=job.executor.num_cores,
        num_workers=job.executor.num_workers + bool(job.executor.device_stages),
        passed_over=model_run.model.passed_over,
        nodes=tally.nodes(),
        stopped=model_run.stopped,
    )


def _cost(executor: Executor, tally: Tally) -> Cost:
    device_ms = {stage: ms for stage, ms in tally.wall_ms().items() if stage in executor.device_stages}
    return Cost(
        tally.cpu_ms(), tally.wait_ms(), executor.num_cores, executor.num_workers, executor.num_threads, device_ms
    )
