"""A job holds everything a run needs: the database, the models, the executor and the limits."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice

from infer_app.database.project_database import ProjectDatabase, open_project_database, read_in_use
from infer_app.database.results.runs import BegunVariant, RunModel, first_begun
from infer_app.day import Day
from infer_app.domain import NewImage
from infer_app.errors import ModelError, PrecisionUnavailable, UsageError
from infer_app.images.read.read_image import ReadLimits
from infer_app.locations import RemoteAccess
from infer_app.model_names import short_name
from infer_app.models.artifact.artifact import Artifact, find_artifact, scan_artifacts, versions_of
from infer_app.models.artifact.manifest import PREPROCESS_FILE
from infer_app.models.runtimes.variants import is_fitted, precision_of
from infer_app.models.selection.variant_selection import AUTO
from infer_app.pipeline.execution_plan import ExecutionPlan, plan_together
from infer_app.pipeline.executors import Executor, open_executor, read_limits
from infer_app.pipeline.measurement import probe_decoding, probe_precisions
from infer_app.recipe import Recipe
from infer_app.run_report import Alternative, precision_name, with_precision
from infer_app.settings.load import LoadedSettings
from infer_app.telemetry.log import names_and_ids

log = logging.getLogger(__name__)

PROBED_IMAGES = 12  # by which scaled decoding is measured
TRIED_IMAGES = 256  # by which other precisions are measured


@dataclass(frozen=True, slots=True)
class Job:
    """Models to run over a day, with all they need; `open_job` opens and closes it."""

    project: ProjectDatabase
    models: tuple[RunModel, ...]  # more than one if they take the same pixels
    executor: Executor
    read: ReadLimits
    chunk_size: int  # 0: found while it runs
    max_rejected: str
    waits: bool = False  # for another run that holds the day
    alternatives: tuple[Alternative, ...] = ()  # cheaper ways through a stage, measured on this machine
    # opens the job with the variants that a day was begun in, and an executor of its own; None if --variant names one
    resume: Callable[[Sequence[BegunVariant | None]], AbstractContextManager[Job]] | None = None
    artifacts: tuple[Artifact, ...] = ()  # of the models
    unregistered: tuple[NewImage, ...] = ()  # of a dry run: some images that a run would register first
    may_mix: bool = False  # the command names a variant: it finishes a day that other files of this variant began
    takes_none: bool = False  # the day is done, in other variants: images that come meanwhile wait for the next run

    @property
    def model_ids(self) -> tuple[str, ...]:
        return tuple(model.model_id for model in self.models)

    @contextmanager
    def for_day(self, day: Day) -> Iterator[Job]:
        """Yield the job for a day that is held; a day that was begun in other variants is continued in those.

        Raises PrecisionUnavailable if no variant of that precision can run here, or if --variant names another one.
        """
        begun = [self._begun_variant(day, model) for model in self.models]
        if all(one is None or one.is_that_of(model) for one, model in zip(begun, self.models, strict=True)):
            yield self
        elif not self.count_new([day]):
            yield replace(self, takes_none=True)
        elif self.resume is None:
            self._check_precision(day, begun)
            yield self
        else:
            self._log_resumed(day, begun)
            self.executor.pool.close()  # two sets of workers would need twice the memory
            with self.resume(begun) as resumed:
                yield resumed

    def probed(self, days: Sequence[Day]) -> Job:
        """Return the job with the alternatives that must be measured on the day's images, for a dry run.

        Another precision is offered by what it changes in these images, unless the last day was begun in one already.
        """
        some = [new.ref.location for new in islice(chain.from_iterable(self.new_pages(days)), TRIED_IMAGES)]
        found = list(self.alternatives)
        if any(self._begun_variant(days[-1], model) for model in self.models):
            found = [one for one in found if one.precision is None]
        elif some and self.resume is not None and len(self.artifacts) == 1:
            tried = probe_precisions(self.artifacts[0], self.executor.handler, some)
            known = {one.precision for one in tried}
            found = [one for one in found if one.precision not in known] + tried
        found += probe_decoding(self.executor.handler, some[:PROBED_IMAGES])
        return replace(self, alternatives=tuple(found))

    def new_pages(self, days: Sequence[Day]) -> Iterator[Sequence[NewImage]]:
        """Yield pages of the images of the days, oldest first, that are new for at least one of the models."""
        if self.unregistered:
            yield self.unregistered
        for day in days:
            yield from self.project.source.select_pages(day, *self.model_ids)

    def count_new(self, days: Sequence[Day], *model_ids: str) -> int:
        """Return the number of images of the days that are new for at least one of the models, by default the job's."""
        day_queries = self.project.day_queries
        return self.project.database.with_reconnect(
            lambda: sum(day_queries.count_new(day, *(model_ids or self.model_ids)) for day in days)
        )

    def _begun_variant(self, day: Day, model: RunModel) -> BegunVariant | None:
        """Return the variant that the model keeps on a day; None if the day is new or its results were deleted."""
        reconnect = self.project.database.with_reconnect
        found = reconnect(lambda: self.project.run_store.variants_of_day(day, model.model_id))
        for run_id, one in found.items():
            if not is_fitted(one.variant):
                found[run_id] = one._replace(sha256=None)  # any build of it goes on
        if not all(one.is_that_of(model) for one in found.values()):  # results of some runs may have been deleted
            left = reconnect(lambda: self.project.day_queries.runs_of(day, model.model_id))
            found = {run_id: one for run_id, one in found.items() if run_id in left}
        return first_begun(list(found.values()))

    def _check_precision(self, day: Day, begun: Sequence[BegunVariant | None]) -> None:
        """Raise PrecisionUnavailable if a day was begun in another precision than the variant that was named.

        Other files of that variant are refused as well, unless the command itself names it.
        """
        for one, model in zip(begun, self.models, strict=True):
            if one is not None and precision_of(one.variant) != precision_of(model.variant):
                raise PrecisionUnavailable(
                    f"{day} of {model.name} was begun in {precision_name(one.variant)} precision ({one.variant}), "
                    f"which it keeps: {model.variant} can't finish it",
                    f"`infer run --date {day} --variant auto` finishes it in the precision that it was begun in",
                )
            if one is not None and one.variant == model.variant and not (one.is_that_of(model) or self.may_mix):
                raise PrecisionUnavailable(
                    f"{day} of {model.name} was begun with other files of {model.variant}, which was built anew since",
                    f"restore them from a backup; or `infer run --date {day} --variant {model.variant}` finishes it "
                    f"with the new ones",
                )

    def _log_resumed(self, day: Day, begun: Sequence[BegunVariant | None]) -> None:
        for one, model in zip(begun, self.models, strict=True):
            if one is not None and not one.is_that_of(model):
                of_model = names_and_ids([(model.name, model.model_id)])
                text = "%s of %s was begun with %s and continues in its precision"
                log.info(text, day, model.name, one.variant, extra=of_model)


@contextmanager
def open_job(
    loaded: LoadedSettings, artifacts: Sequence[Artifact], read_only: bool = False, trace: bool = False
) -> Iterator[Job]:
    """Open a job for models that take the same pixels.

    Raises what `open_project_database` raises, and ModelError if a model was changed or can't run here.
    """
    run = loaded.run
    _check_places(loaded.remote_access)
    with open_project_database(loaded, read_only) as project:

        @contextmanager
        def open_with(begun: Sequence[BegunVariant | None]) -> Iterator[Job]:
            plans = plan_together(loaded, artifacts, begun)
            models = tuple(_run_model(loaded, *one) for one in zip(artifacts, plans, strict=True))
            alternatives = plans[0].alternatives if len(plans) == 1 else ()
            resume = open_with if run.variant == AUTO else None
            read = read_limits(loaded)
            with open_executor(loaded, artifacts, plans, trace=trace) as executor:
                most = executor.chunk_size  # the setting can only lower it
                chunk_size = min(run.chunk_size or most, most) if most else run.chunk_size
                settings = (chunk_size, run.max_rejected, run.wait)
                may_mix = loaded.origins.get("run.variant") == "flag"
                yield Job(
                    project, models, executor, read, *settings, alternatives, resume, tuple(artifacts), may_mix=may_mix
                )

        with open_with([None] * len(artifacts)) as job:
            yield job


def _run_model(loaded: LoadedSettings, artifact: Artifact, plan: ExecutionPlan) -> RunModel:
    manifest = artifact.manifest
    values = (with_precision(plan.variant), plan.workers, plan.threads)
    of_model = names_and_ids([(manifest.name, manifest.model_id)])
    log.info("%s runs as %s, %d workers x %d threads", manifest.name, *values, extra=of_model)
    for variant, why in plan.choice.passed_over.items():
        log.info("%s was passed over: %s", variant, why, extra=of_model)
    facts = json.loads(manifest.to_json()) | {"labels": artifact.labels}  # exports name all classes, also unseen ones
    return RunModel(
        manifest.name,
        manifest.model_id,
        plan.variant,
        facts,
        plan.choice.passed_over,
        _runs_unasked(loaded, artifact),
        manifest.variant_sha256(plan.variant),
    )


def _runs_unasked(loaded: LoadedSettings, artifact: Artifact) -> bool:
    """Return whether a plain run takes this version while none of its name is in use; others are only tried."""
    is_flag = "flag" in (loaded.origins.get("run.model"), loaded.origins.get("run.models"))
    is_only = len(versions_of(loaded.models_folder, artifact.manifest.name)) == 1
    return is_only or (bool(loaded.model_names) and not is_flag)


def _check_places(remote: RemoteAccess) -> None:
    """Raise UsageError if the package that reads a place is not installed."""
    if remote.places:
        from infer_app.images.read.remote import check_installed  # loading it takes a while

        for place in remote.places:
            check_installed(place)


def choose_names(loaded: LoadedSettings) -> list[str]:
    """Return what the settings name, as NAME, NAME@ID or ID, else the names of all models.

    Raises UsageError if there is no model.
    """
    if names := loaded.model_names:
        return list(names)
    artifacts, damaged = scan_artifacts(loaded.models_folder)
    found = sorted({artifact.manifest.name for artifact in artifacts})
    if damaged and not found:
        raise damaged[0]
    if not found:
        raise UsageError(f"no model in {loaded.models_folder}", "make one with `infer model build SOURCE --name NAME`")
    return found


def choose_artifacts(
    loaded: LoadedSettings, in_use: Mapping[str, str] | None = None, failures: dict[str, ModelError] | None = None
) -> list[Artifact]:
    """Return the models named in the settings, else one of each name; a name means its version in use.

    `in_use` is read from the database unless it is given. Raises what `read_in_use` raises, and ModelError or
    UsageError for a model that isn't there, or that has several versions of which none is in use; if the settings name
    none, `failures` gets the errors by name, as long as there is another model.
    """
    known = read_in_use(loaded) if in_use is None else in_use
    names = choose_names(loaded)
    if not loaded.model_names:
        for error in scan_artifacts(loaded.models_folder)[1]:
            log.warning("left out: %s (%s)", error, error.hint)
    found = []
    for name in names:
        try:
            artifact = find_artifact(loaded.models_folder, name, known)
            _check_chosen(loaded, name, known)
            found.append(artifact)
            _log_choice(artifact, known)
        except ModelError as error:
            if failures is None or loaded.model_names:
                raise
            failures[name] = error
    if failures and not found:
        raise next(iter(failures.values()))
    twice = [name for name, count in Counter(artifact.manifest.name for artifact in found).items() if count > 1]
    if twice:
        raise UsageError(f"two versions of {twice[0]} in one run", "run one, then the other")
    return found


def _check_chosen(loaded: LoadedSettings, name: str, in_use: Mapping[str, str]) -> None:
    """Raise ModelError for a name with several versions of which none is in use: another may have made the results.

    So it is with a folder of models that was copied to a new database.
    """
    versions = [] if name in in_use else versions_of(loaded.models_folder, name)  # none of NAME@ID or ID
    if len(versions) > 1:
        listed = [short_name(name, one.manifest.model_id) for one in versions]
        raise ModelError(
            f"{name} has {len(versions)} versions, and none is in use in {loaded.shown_url}: {', '.join(listed)}",
            f"put one in use: `infer model use {name}` takes the newest, {listed[0]}",
        )


def _log_choice(artifact: Artifact, in_use: Mapping[str, str]) -> None:
    """Log which version runs if it is not the one in use."""
    name, model_id = artifact.manifest.name, artifact.manifest.model_id
    if in_use.get(name, model_id) != model_id:
        this, using = short_name(name, model_id), short_name(name, in_use[name])
        log.info("%s is tried, %s stays in use; to switch: `infer model use %s`", this, using, this)


def group_by_pixels(artifacts: Sequence[Artifact]) -> list[list[Artifact]]:
    """Group the models that take the same pixels: an image is read and decoded once for each group.

    Two names of one model are never in one group, since a run holds its day by the model's id.
    """
    groups: dict[tuple[Recipe, str | None, str | None, int], list[Artifact]] = {}
    named: Counter[str] = Counter()
    for artifact in artifacts:
        manifest = artifact.manifest
        same = (manifest.recipe, manifest.preprocess, manifest.files.get(PREPROCESS_FILE), named[manifest.model_id])
        named[manifest.model_id] += 1
        groups.setdefault(same, []).append(artifact)
    return list(groups.values())
