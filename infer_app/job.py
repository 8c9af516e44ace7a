"""Everything a run needs, opened from the settings in the order in which it can go wrong."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from infer_app.database.books import Books
from infer_app.database.connect import Database
from infer_app.database.foreign import ForeignSource
from infer_app.database.ledger import Ledger, RunModel
from infer_app.database.migrate import check_schema, upgrade
from infer_app.database.rows import RowReader
from infer_app.database.source import Source
from infer_app.day import Day
from infer_app.errors import DatabaseUnavailable, ModelError, UsageError
from infer_app.executors.cpu import CpuExecutor
from infer_app.executors.cuda import CudaExecutor
from infer_app.executors.executor import Executor
from infer_app.executors.spec import CacheSpec, LaneSpec, ModelSpec
from infer_app.images.location import ReadLimits
from infer_app.models.artifact import Artifact, find_artifact, list_artifacts
from infer_app.models.choice import AUTO, Wish
from infer_app.models.manifest import PREPROCESS_FILE
from infer_app.places import RemoteAccess
from infer_app.records import Alternative, Recipe
from infer_app.settings.loaded import LoadedSettings
from infer_app.tune import Plan, plan, probe_decoding

log = logging.getLogger(__name__)

PROBED_IMAGES = 12
SLOT_IMAGES = 64  # of a slot of the ring, of a chunk and of a batch


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
    models: tuple[RunModel, ...]  # more than one where they take the same pixels
    executor: Executor
    read: ReadLimits
    chunk_size: int  # 0: found while it runs
    max_rejected: str
    waits: bool = False  # for another run that holds the day
    alternatives: tuple[Alternative, ...] = ()  # cheaper ways through a stage, measured on this machine
    resume: Callable[[Sequence[str | None]], Job] | None = None  # the same with the variants that a day began with

    @property
    def model_ids(self) -> tuple[str, ...]:
        return tuple(model.model_id for model in self.models)

    @contextmanager
    def for_day(self, day: Day) -> Iterator[Job]:
        """The job as the day needs it: one that was begun with another variant goes on with that.

        Raises ModelError where no variant of that precision can run here.
        """
        began_with = [self._began_with(day, model) for model in self.models]
        if self.resume is None or not any(began_with):
            yield self
            return
        self.executor.close()  # two sets of workers would need twice the memory
        resumed = self.resume(began_with)
        try:
            yield resumed
        finally:
            resumed.executor.close()

    def probed(self, days: Sequence[Day]) -> Job:
        """The job with what only the images themselves can tell of cheaper ways: a dry run has time to try them."""
        pages = chain.from_iterable(self.tables.source.select_pages(day, *self.model_ids) for day in days)
        some = [new.ref.location for new in islice(chain.from_iterable(pages), PROBED_IMAGES)]
        return replace(self, alternatives=self.alternatives + tuple(probe_decoding(self.executor.lane, some)))

    def _began_with(self, day: Day, model: RunModel) -> str | None:
        """The variant of a day that was begun otherwise and isn't done."""
        tables, ride_out = self.tables, self.tables.database.ride_out
        variant = ride_out(lambda: tables.ledger.variant_of_day(day, model.model_id))
        if variant in (None, model.variant) or not ride_out(lambda: tables.books.count_new(day, model.model_id)):
            return None
        log.info("%s of %s began with %s and goes on with it", day, model.name, variant)
        return variant


@contextmanager
def open_tables(loaded: LoadedSettings, read_only: bool = False) -> Iterator[Tables]:
    """Raises what `open_database` and `open_source` raise."""
    with open_database(loaded, read_only) as database, open_source(loaded, database) as source:
        yield Tables(database, source, Books(database, source), Ledger(database))


@contextmanager
def open_database(loaded: LoadedSettings, read_only: bool = False) -> Iterator[Database]:
    """The database with our schema in it. Only a SQLite file of our own is ever created unasked.

    Raises DatabaseUnavailable or SchemaOutdated.
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
        yield database


@contextmanager
def open_source(loaded: LoadedSettings, results: Database) -> Iterator[Source]:
    """What lists the images, in the database of the results or in another, which is only read.

    Raises DatabaseUnavailable, or UsageError for a source that isn't there.
    """
    settings = loaded.settings.source
    with ExitStack() as stack:
        source = Source(results, settings)
        if loaded.source_url != loaded.database_url:
            listing = stack.enter_context(Database(loaded.source_url, read_only=True))
            if listing.sqlite_file is not None and not listing.sqlite_file.exists():
                raise DatabaseUnavailable(f"{listing.shown_url} does not exist", "[source] database_url names it")
            source = ForeignSource(listing, settings, results)
        source.check()
        yield source


@contextmanager
def open_job(
    loaded: LoadedSettings, artifacts: Sequence[Artifact], read_only: bool = False, trace: bool = False
) -> Iterator[Job]:
    """Models that take the same pixels, as one job.

    Raises what `open_tables` raises, and ModelError when a model was changed or can't run here.
    """
    run = loaded.settings.run
    _check_places(loaded.remote)
    with ExitStack() as stack:
        tables = stack.enter_context(open_tables(loaded, read_only))
        cache = None if read_only else _open_cache(loaded, artifacts[0].manifest.recipe.size)

        def open_with(began_with: Sequence[str | None]) -> Job:
            plans = plan_together(loaded, artifacts, began_with)
            models = tuple(_run_model(*one) for one in zip(artifacts, plans, strict=True))
            executor = stack.enter_context(open_executor(loaded, artifacts, plans, trace=trace, cache=cache))
            alternatives = plans[0].alternatives if len(plans) == 1 else ()
            resume = open_with if run.variant == AUTO else None
            most = executor.chunk_size  # and less only where it was asked for
            chunk_size = min(run.chunk_size or most, most) if most else run.chunk_size
            read = read_limits(loaded)
            return Job(tables, models, executor, read, chunk_size, run.max_rejected, run.wait, alternatives, resume)

        yield open_with([None] * len(artifacts))


def plan_run(
    loaded: LoadedSettings, artifact: Artifact, began_with: str | None = None, device: str | None = None
) -> Plan:
    """How the settings let the model run here; `began_with` is the variant of a day that is resumed.

    `device` instead of the configured one if given. Raises UsageError and ModelError as `tune.plan` does.
    """
    run = loaded.settings.run
    if run.executor == "cpu" and run.device == "cuda":
        raise UsageError("the cpu executor has no device cuda", "leave out --executor, or --device")
    if run.executor == "cpu" or (run.executor == "ray" and not loaded.settings.ray.num_gpus):
        device = "cpu"
    return plan(artifact, Wish(run.variant, run.allow_int8, began_with, device or run.device), run.workers)


def plan_together(
    loaded: LoadedSettings, artifacts: Sequence[Artifact], began_with: Sequence[str | None]
) -> list[Plan]:
    """Of models that share a lane, and so a device: the CPU where one of them has nothing for a GPU."""
    plans = [plan_run(loaded, *one) for one in zip(artifacts, began_with, strict=True)]
    if len({plan.device for plan in plans}) == 1:
        return plans
    log.warning("not every model has a variant for the GPU: all run on the CPU; or run them one by one")
    return [plan_run(loaded, *one, device="cpu") for one in zip(artifacts, began_with, strict=True)]


def open_executor(
    loaded: LoadedSettings,
    artifacts: Sequence[Artifact],
    plans: Sequence[Plan],
    roots: tuple[Path, ...] | None = None,
    trace: bool = False,
    cache: CacheSpec | None = None,
    executor: str | None = None,
) -> Executor:
    """What runs the plans; `roots`, whose paths are not mapped, and `executor` instead of what is configured."""
    images, limits = loaded.settings.images, read_limits(loaded)
    spec = LaneSpec(
        models=tuple(
            ModelSpec(artifact.folder, plan.variant, plan.batch_size)
            for artifact, plan in zip(artifacts, plans, strict=True)
        ),
        read=limits if roots is None else ReadLimits(roots, images.max_bytes),
        max_pixels=images.max_pixels,
        num_threads=plans[0].threads,
        trace=trace,
        cache=cache,
    )
    kind = executor or loaded.settings.run.executor
    if kind == "ray":
        if not loaded.settings.ray.num_gpus:
            _check_decoding(artifacts, is_asked_for=True)
        return _open_ray(loaded, spec, plans[0], artifacts[0].manifest.recipe.size)
    if kind == "cuda" or (kind == "auto" and plans[0].device == "cuda"):
        size = artifacts[0].manifest.recipe.size
        return CudaExecutor(spec, plans[0].workers, images.timeout_s, SLOT_IMAGES, size, plans[0].device)
    _check_decoding(artifacts, is_asked_for=kind == "cpu")
    return CpuExecutor(spec, plans[0].workers, images.timeout_s)


def _check_decoding(artifacts: Sequence[Artifact], is_asked_for: bool) -> None:
    """Raises where the cpu executor would decode otherwise than the model does."""
    for manifest in (artifact.manifest for artifact in artifacts):
        if manifest.recipe.decode == "gpu":
            raise (UsageError if is_asked_for else ModelError)(
                f"{manifest.name} decodes on a GPU, which the cpu executor does not",
                "let it run on one; or use --executor cuda, which does the same without one; "
                "or a model that was built with --decode exact",
            )


def _open_ray(loaded: LoadedSettings, lane: LaneSpec, plan: Plan, size: int) -> Executor:
    """Raises UsageError where Ray or its cluster is missing, and for SQLite together with more than one node."""
    from infer_app.executors.cluster import ClusterSpec
    from infer_app.executors.ray import RayExecutor  # which loads a library that only this one needs

    settings = loaded.settings
    spec = ClusterSpec(**dict(settings.ray))
    slot = (SLOT_IMAGES, size, plan.device) if spec.num_gpus else None
    lane = replace(lane, num_threads=min(lane.num_threads, spec.num_cpus or lane.num_threads))
    executor = RayExecutor(lane, settings.run.workers, settings.images.timeout_s, spec, slot)
    num_nodes = executor.num_nodes
    if num_nodes > 1 and loaded.database_url.startswith("sqlite"):
        executor.__exit__()
        raise UsageError(
            f"SQLite together with a Ray cluster of {num_nodes} nodes: its file is this machine's",
            'use PostgreSQL or MariaDB, or [ray] address = "local"',
        )
    return executor


def read_limits(loaded: LoadedSettings) -> ReadLimits:
    """What may be read of the source's images, and how."""
    settings = loaded.settings
    rows = RowReader(loaded.source_url, settings.source) if settings.source.bytes is not None else None
    return ReadLimits(loaded.roots, settings.images.max_bytes, loaded.remote, loaded.path_map, rows)


def _run_model(artifact: Artifact, plan: Plan) -> RunModel:
    manifest = artifact.manifest
    log.info("%s runs as %s, %d workers x %d threads", manifest.name, plan.variant, plan.workers, plan.threads)
    for variant, why in plan.choice.passed_over.items():
        log.info("%s was passed over: %s", variant, why)
    facts = json.loads(manifest.to_json())
    return RunModel(manifest.name, manifest.model_id, plan.variant, facts, plan.choice.passed_over)


def _open_cache(loaded: LoadedSettings, size: int) -> CacheSpec | None:
    """Tried here, so that what is wrong with it is said once and not by each worker."""
    max_bytes = int(loaded.settings.cache.max_size)
    if not max_bytes:
        return None
    from infer_app.images.cache import prepare_cache  # numpy, a tenth of a second that most runs need not wait for

    return CacheSpec(loaded.cache_folder, max_bytes) if prepare_cache(loaded.cache_folder, max_bytes, size) else None


def _check_places(remote: RemoteAccess) -> None:
    """Raises UsageError where what reads a place is not installed."""
    if remote.places:
        from infer_app.images.remote import check_installed  # what web servers need takes a while to load

        for place in remote.places:
            check_installed(place)


def choose_artifacts(loaded: LoadedSettings) -> list[Artifact]:
    """The models that are named, or the only one there is."""
    if names := loaded.model_names:
        return [find_artifact(loaded.models_folder, name) for name in names]
    found = sorted({artifact.manifest.name for artifact in list_artifacts(loaded.models_folder)})
    if len(found) != 1:
        raise UsageError(
            f"which model? there are {', '.join(found)}" if found else f"no model in {loaded.models_folder}",
            'name one with --model or [run] model = "…"' if found else "make one with `infer model build`",
        )
    return [find_artifact(loaded.models_folder, found[0])]


def choose_artifact(loaded: LoadedSettings) -> Artifact:
    """The one model of a command that takes one. Raises UsageError where several are named."""
    artifacts = choose_artifacts(loaded)
    if len(artifacts) > 1:
        raise UsageError("several models are set, this command takes one", "name it with --model")
    return artifacts[0]


def group_by_pixels(artifacts: Sequence[Artifact]) -> list[list[Artifact]]:
    """Models that take the same pixels together: an image is read and decoded once for each group."""
    groups: dict[tuple[Recipe, str | None, str | None], list[Artifact]] = {}
    for artifact in artifacts:
        manifest = artifact.manifest
        same = (manifest.recipe, manifest.preprocess, manifest.files.get(PREPROCESS_FILE))
        groups.setdefault(same, []).append(artifact)
    return list(groups.values())
