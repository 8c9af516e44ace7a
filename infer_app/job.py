"""Everything a run needs, opened from the settings in the order in which it can go wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infer_app.database.books import Books
from infer_app.database.connect import Database
from infer_app.database.ledger import Ledger, RunModel
from infer_app.database.migrate import check_schema, upgrade
from infer_app.database.source import Source
from infer_app.errors import DatabaseUnavailable, UsageError
from infer_app.executors.cpu import CpuExecutor
from infer_app.executors.spec import LaneSpec
from infer_app.models.artifact import Artifact, find_artifact, list_artifacts
from infer_app.settings import LoadedSettings

CPU_VARIANT = "cpu-torchscript"


@dataclass(frozen=True, slots=True)
class Tables:
    """The database as the rooms see it."""

    database: Database
    source: Source
    books: Books
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Job:
    """What to run over a day: closed together by `open_job`."""

    tables: Tables
    model: RunModel
    executor: CpuExecutor
    roots: tuple[Path, ...]
    chunk_size: int
    max_rejected: str


@contextmanager
def open_tables(loaded: LoadedSettings, read_only: bool = False) -> Iterator[Tables]:
    """The database with our schema in it. Only a SQLite file of our own is ever created unasked.

    Raises DatabaseUnavailable, SchemaOutdated, or UsageError for a source that isn't there.
    """
    with Database(loaded.database_url, read_only) as database:
        file = database.sqlite_file
        if file is not None and not file.exists():
            if read_only or not loaded.lists_own_images:
                raise DatabaseUnavailable(
                    f"{database.shown_url} does not exist", "add images or `infer db upgrade` first"
                )
            upgrade(database)
        check_schema(database)
        source = Source(database, loaded.settings.source)
        source.check()
        yield Tables(database, source, Books(database, source), Ledger(database))


@contextmanager
def open_job(loaded: LoadedSettings, read_only: bool = False) -> Iterator[Job]:
    """Raises what `open_tables` raises, and ModelError when the model is missing or was changed."""
    artifact = choose_artifact(loaded)
    run = loaded.settings.run
    with open_tables(loaded, read_only) as tables, open_executor(loaded, artifact) as executor:
        manifest = artifact.manifest
        model = RunModel(manifest.name, manifest.model_id, CPU_VARIANT, json.loads(manifest.to_json()))
        yield Job(tables, model, executor, loaded.roots, run.chunk_size, run.max_rejected)


def open_executor(loaded: LoadedSettings, artifact: Artifact, roots: tuple[Path, ...] | None = None) -> CpuExecutor:
    """The executor that the settings name; `roots` instead of the configured ones where given."""
    run, images = loaded.settings.run, loaded.settings.images
    if run.variant not in ("auto", CPU_VARIANT):
        raise UsageError(f"unknown variant {run.variant!r}", f"this model has {CPU_VARIANT}")
    spec = LaneSpec(
        artifact.folder, CPU_VARIANT, loaded.roots if roots is None else roots, images.max_bytes, images.max_pixels
    )
    return CpuExecutor(spec, run.workers, images.timeout_s)


def choose_artifact(loaded: LoadedSettings) -> Artifact:
    """The model that is named, or the only one there is."""
    name = loaded.settings.run.model
    if name is not None:
        return find_artifact(loaded.models_folder, name)
    names = sorted({artifact.manifest.name for artifact in list_artifacts(loaded.models_folder)})
    if len(names) != 1:
        raise UsageError(
            f"which model? there are {', '.join(names)}" if names else f"no model in {loaded.models_folder}",
            'name one with --model or [run] model = "…"' if names else "make one with `infer model build`",
        )
    return find_artifact(loaded.models_folder, names[0])
