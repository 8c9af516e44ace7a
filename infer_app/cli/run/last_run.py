"""What a run leaves for the next one and for `infer status`: that it failed, what it told, and that it was the last."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.model_names import plain_name, short_name
from infer_app.artifact.models_folder import versions_of
from infer_app.base.day import Day
from infer_app.base.errors import InferError
from infer_app.base.settings.load import LoadedSettings
from infer_app.cli.run.run_output import RunOutput
from infer_app.tables.known_database import last_run_of, remember_run
from infer_app.tables.project_database import open_results_database, read_in_use
from infer_app.tables.results.runs import RunStore


def record_failure(loaded: LoadedSettings, day: Day, names: Collection[str], exit_code: int, error: str) -> None:
    """Record a failed run of the day for the versions in use of these names, or if none is known of all that ran.

    Not for a version that is only tried, nor where this process has held the day, which has its own row. While the
    database is away nothing can be recorded.
    """
    with suppress(InferError), open_results_database(loaded) as database:
        run_store, tried = RunStore(database), [name for name in loaded.model_names if name != plain_name(name)]
        names = names or run_store.names_that_ran()
        for version in read_in_use(loaded).items():
            if version[0] in names and not tried:
                run_store.record_failure(day, version, exit_code, error)


def with_last_run(loaded: LoadedSettings, output: RunOutput, artifacts: Sequence[Artifact]) -> RunOutput:
    """Return a run's output with what the run before it told, which a mail says once, and record what this one tells.

    If the database lacks this project's last run, a backup was restored, and models are in the versions of then.
    """
    known, this = last_run_of(loaded), output.summary.results[-1].last.run_id
    remember_run(loaded, this)
    with suppress(InferError), open_results_database(loaded) as database:
        run_store = RunStore(database)
        if known is not None and not run_store.has_run(known):
            uses = "; ".join(_describe_version(loaded, artifact) for artifact in artifacts)
            lacking = f"the database lacks run {known}, the last of this project: was a backup restored? {uses}"
            output = replace(output, restored=lacking)
        output = replace(output, told_before=run_store.exchange_attention(this, output.attention()))
    return output


def _describe_version(loaded: LoadedSettings, artifact: Artifact) -> str:
    name, model_id = artifact.manifest.name, artifact.manifest.model_id
    newest = versions_of(loaded.models_folder, name)[0].manifest
    told = f"{short_name(name, model_id)} was run"
    if newest.model_id == model_id:
        return told
    newer = short_name(name, newest.model_id)
    return f"{told}, and {newer} is newer: if that was in use, `infer model use {newer}`"
