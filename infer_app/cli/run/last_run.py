"""What a run leaves for the next one and for `infer status`: how it ended, and what it found and told."""

import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.model_names import plain_name, short_name
from infer_app.artifact.models_folder import versions_of
from infer_app.base.day import Day
from infer_app.base.errors import DatabaseUnavailable, InferError
from infer_app.base.settings.load import LoadedSettings
from infer_app.run.run_result import RunSummary
from infer_app.tables.day.told import current_notices
from infer_app.tables.known_database import describe_failure, last_run_of, remember_failure, remember_run
from infer_app.tables.listing.stored_notices import OF_LISTING, OF_WALK, Notice, event, hold, mark_told, read_due
from infer_app.tables.project_database import ProjectDatabase, open_project_database, open_results_database, read_in_use
from infer_app.tables.results.runs import RunStore

log = logging.getLogger(__name__)


def record_failure(loaded: LoadedSettings, day: Day, names: Collection[str], exit_code: int, error: str) -> None:
    """Record a failed run of the day for the versions in use of these names, or if none is known of all that ran.

    Not for a version that is only tried, nor where this process has held the day, which has its own row. While the
    database is away, a file beside the settings keeps it for the next run.
    """
    try:
        with open_results_database(loaded) as database:
            run_store, tried = RunStore(database), [name for name in loaded.model_names if name != plain_name(name)]
            names = names or run_store.names_that_ran()
            for version in read_in_use(loaded).items():
                if version[0] in names and not tried:
                    run_store.record_failure(day, version, exit_code, error)
    except InferError:
        with suppress(InferError):  # a file that can't be read
            remember_failure(loaded, exit_code)


def update_notices(
    loaded: LoadedSettings,
    nights: Sequence[Day],
    summary: RunSummary,
    artifacts: Sequence[Artifact],
    *,
    is_backfill: bool,
) -> list[Notice]:
    """Store what a run has found out, and return what somebody should look at after it.

    `nights`: the look-back's first day to the last one. While the database is away it is [], as after a bug, which is
    logged: the run is done, and its results are told.
    """
    try:
        with open_project_database(loaded) as project:
            _record_surroundings(loaded, project, summary.results[-1].last.run_id, artifacts, is_backfill=is_backfill)
            older = {} if is_backfill else {result.last.model_id: result.older for result in summary.results}
            return current_notices(project, nights[0], nights[-1], older, stores=not is_backfill)
    except InferError:
        return []
    except Exception:
        log.warning("what somebody should look at can't be told", exc_info=True)
        return []


def _record_surroundings(
    loaded: LoadedSettings, project: ProjectDatabase, run_id: str, artifacts: Sequence[Artifact], *, is_backfill: bool
) -> None:
    """Record that a backup was restored, or that a night failed before, and what nothing looks for any more.

    If the database lacks this project's last run, a backup was restored, and models are in the versions of then.
    """
    known, found = last_run_of(loaded), list[Notice]()
    if known is not None and not is_backfill and not project.run_store.has_run(known):
        uses = "; ".join(_describe_version(loaded, artifact) for artifact in artifacts)
        lacking = f"the database lacks run {known}, the last of this project: was a backup restored? {uses}"
        found.append(event("restored database", lacking, known))
    if failure := describe_failure(loaded):
        found.append(event("failed night", failure, failure))
    not_looked_for = (() if loaded.watched else OF_WALK) + (() if project.source.table else OF_LISTING)
    project.database.transact(partial(hold, found=found, kinds=not_looked_for))
    remember_failure(loaded, None)
    if not is_backfill:
        remember_run(loaded, run_id)


def read_due_notices(loaded: LoadedSettings, teller: str, exit_code: int | None) -> list[Notice]:
    """Return what a teller of changes has to tell; [] while the database is away, as a run's exit code may say."""
    if exit_code == DatabaseUnavailable.exit_code:
        return []
    with suppress(InferError), open_results_database(loaded, read_only=True) as database, database.read() as connection:
        return read_due(connection, teller)
    return []


def mark_as_told(loaded: LoadedSettings, teller: str, told: Sequence[Notice]) -> None:
    """Store that these were told; while the database is away, the next run tells them again."""
    if not told:
        return
    with suppress(InferError), open_results_database(loaded) as database, database.write(wait_limit_s=2) as connection:
        mark_told(connection, teller, told)


def _describe_version(loaded: LoadedSettings, artifact: Artifact) -> str:
    name, model_id = artifact.manifest.name, artifact.manifest.model_id
    newest = versions_of(loaded.models_folder, name)[0].manifest
    told = f"{short_name(name, model_id)} was run"
    if newest.model_id == model_id:
        return told
    newer = short_name(name, newest.model_id)
    return f"{told}, and {newer} is newer: if that was in use, `infer model use {newer}`"
