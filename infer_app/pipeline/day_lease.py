"""The lease of a day: a row in infer_runs for each model, which keeps two runs off one day."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from infer_app.database.listing.recorded_sources import SourceIdentity, record_source
from infer_app.database.project_database import ProjectDatabase
from infer_app.database.results.runs import RunModel, new_run_id
from infer_app.day import Day
from infer_app.errors import EXIT_BUG, DayHeld, as_known
from infer_app.pipeline.stop import Stop
from infer_app.telemetry.log import bound

log = logging.getLogger(__name__)

WAIT_S = 2.0  # between two attempts to take a day that another run holds


@contextmanager
def hold_day(
    project: ProjectDatabase, models: Sequence[RunModel], day: Day, stop: Stop, *, waits: bool
) -> Iterator[list[str]]:
    """Take the lease of a day for every model, and renew the leases until the end; yield the ids of the runs.

    Each run has a row in infer_runs, whose state is failed if the run fails. `waits`: for a run that holds the day now.
    Raises DayHeld.
    """
    run_ids: dict[str, str] = {}
    database, run_store = project.database, project.run_store
    try:
        with ExitStack() as leases:
            source_id = record_source(database, SourceIdentity.of(project.source, database), project.source.base)
            # In the order of their ids: two runs that wait can't each hold what the other one waits for.
            for model in sorted(models, key=lambda model: model.model_id):
                run_id = _open_run(project, day, model, source_id, stop if waits else None)
                run_ids[model.model_id] = run_id
                leases.enter_context(run_store.lease_renewal([run_id]))  # taking the next lease may wait
            in_order = [run_ids[model.model_id] for model in models]
            leases.enter_context(bound(date=str(day), run_id=", ".join(in_order)))
            yield in_order
    except BaseException as error:
        known = as_known(error)
        text = known.message if known else f"{type(error).__name__}: {error}"
        for run_id in run_ids.values():
            run_store.fail_run(run_id, known.exit_code if known else EXIT_BUG, text)
        raise


def _open_run(project: ProjectDatabase, day: Day, model: RunModel, source_id: int, stop: Stop | None) -> str:
    """Open a run that holds the day and return its id; with a `stop`, wait for the run that holds it now."""
    is_logged, run_id = False, new_run_id()
    while True:
        try:
            return project.ask(project.run_store.open_run, day, model, run_id, source_id)
        except DayHeld as held:
            if stop is None:
                raise
            stop.check(held)
            if not is_logged:
                log.info("waiting: %s", held)
                is_logged = True
            time.sleep(WAIT_S)
