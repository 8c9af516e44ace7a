"""`infer model list`, `use` and `remove`."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from pathlib import Path

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.manifest import Manifest
from infer_app.artifact.model_names import short_name, versions_named
from infer_app.artifact.models_folder import find_artifact, find_folder, remove_folder, scan_artifacts, versions_of
from infer_app.base.errors import InferError, ModelError, UsageError, os_errors_as
from infer_app.base.model_variants import variant_of
from infer_app.base.printing import one_line, with_config
from infer_app.base.settings.load import load_settings
from infer_app.cli.model.model import built_at, has_project, models_folder, print_progress
from infer_app.cli.model.run_after_build import command_line, what_settings_say
from infer_app.cli.terminal.output import show_table
from infer_app.predict.verification.agreement import why_unfit
from infer_app.tables.choose_models import find_lost
from infer_app.tables.project_database import open_results_database, read_in_use
from infer_app.tables.results.model_versions import (
    RecordedVersion,
    count_predictions,
    read_versions,
    second_networks_of,
    switch_version,
)
from infer_app.tables.results.runs import RunStore
from infer_app.tables.results.schema import pictures


@dataclass(frozen=True, slots=True)
class Switch:
    """A change of the version in use; without one, `before` is the version itself or None."""

    name: str
    model_id: str
    before: RecordedVersion | None
    second_networks: Sequence[str] = ()  # that take its objects

    def lines(self) -> Iterator[str]:
        this = short_name(self.name, self.model_id)
        if self.before is None:
            yield f"{this} is in use now; no version of {self.name} was before"
        elif self.before.model_id == self.model_id:
            yield f"{this} is in use already, since {self.before.in_use_since:%Y-%m-%d %H:%M} UTC"
        else:
            former = short_name(self.name, self.before.model_id)
            yield f"{this} is in use now, before it was {former}"
            yield f"to go back: {command_line(f'model use {former}')}"
            yield f"what the next run predicts again: {command_line('list')}"
            if names := ", ".join(self.second_networks):
                yield f"of {names} what is of {former}'s objects is not shown until that or a backfill is done"


def list_models(as_json: bool, config: Path | None) -> None:
    """List the models and which are in use, and on standard error those that are damaged."""
    folder = models_folder(config)
    artifacts, damaged = scan_artifacts(folder)
    for error in damaged:
        print_progress(one_line(f"damaged: {error} ({with_config(error.hint)})"))
    recorded, counts = _read_records(config)
    by_version = {(one.name, one.model_id): one for one in recorded}
    found = [artifact.manifest for artifact in artifacts]
    here = {(manifest.name, manifest.model_id) for manifest in found}
    removed = [one for one in sorted(recorded, key=lambda one: one.name) if (one.name, one.model_id) not in here]
    removed = [one for one in removed if counts.get(one.model_id)]
    if as_json:
        keys = ("name", "model_id", "created_at", "source")
        models = [
            {key: getattr(manifest, key) for key in keys}
            | {"precisions": _precisions(manifest), "of": manifest.crop.of if manifest.crop else None}
            | _usage(by_version.get((manifest.name, manifest.model_id)), counts)
            for manifest in found
        ]
        gone = [{"name": one.name, "model_id": one.model_id} | _usage(one, counts) for one in removed]
        print(json.dumps({"models": models, "damaged": [str(error) for error in damaged], "removed": gone}))
        return
    if not found:
        print(f"no models in {folder}: make one with `infer model build SOURCE --name NAME`")
    cells = [*_cells_of(found, recorded, counts), *(_removed_cells(one, counts) for one in removed)]
    if cells:
        show_table(("model", "id", "in use", "predictions", "built", "precisions", "output"), cells)


def _cells_of(
    found: Sequence[Manifest], recorded: Sequence[RecordedVersion], counts: dict[str, int]
) -> Iterator[tuple[str, ...]]:
    by_version = {(one.name, one.model_id): one for one in recorded}
    names_in_use = {one.name for one in recorded if one.in_use_since}
    num_versions = Counter(manifest.name for manifest in found)
    for manifest in found:
        known = by_version.get((manifest.name, manifest.model_id))
        runs_first = manifest.name not in names_in_use and num_versions[manifest.name] == 1
        use = "from its first run on" if runs_first else _use_as_text(known)
        built = (built_at(manifest), ", ".join(_precisions(manifest)))
        count = f"{counts.get(manifest.model_id, 0):,}"
        output = f"{manifest.output.kind} of {manifest.crop.of}" if manifest.crop else manifest.output.kind
        yield manifest.name, manifest.model_id, use, count, *built, output


def _removed_cells(one: RecordedVersion, counts: dict[str, int]) -> tuple[str, ...]:
    count = f"{counts[one.model_id]:,}"
    return one.name, one.model_id, _use_as_text(one), count, "not in the folder", "", ""


def _precisions(manifest: Manifest) -> list[str]:
    """Return those in which a run takes the model, if it is asked for them."""
    taken = (name for name, details in manifest.variants.items() if not why_unfit(manifest, name, details))
    return list(dict.fromkeys(variant_of(name).precision for name in taken))


def use(wanted: str, as_json: bool, config: Path | None) -> None:
    """Put a version in use; of a NAME the newest."""
    artifact = find_artifact(models_folder(config), wanted)
    switch = put_in_use(artifact, config)
    if as_json:
        former = switch.before.model_id if switch.before else None
        print(json.dumps({"model": switch.name, "model_id": switch.model_id, "before": former}))
        return
    for line in [*switch.lines(), *what_settings_say(switch.name, load_settings(config).model_names)]:
        print(line)


def put_in_use(artifact: Artifact, config: Path | None) -> Switch:
    """Put a version in use. Raises ModelError if its files are not as they were built."""
    artifact.verify()
    manifest = artifact.manifest
    with open_results_database(load_settings(config)) as database:
        facts = json.loads(manifest.to_json()) | {"labels": artifact.labels}
        before = switch_version(database, manifest.name, manifest.model_id, facts)
        with database.read() as connection:
            return Switch(manifest.name, manifest.model_id, before, second_networks_of(connection, [manifest.name]))


def remove(wanted: str, force: bool, as_json: bool, config: Path | None) -> None:
    """Remove the files of a version; its predictions stay. Raises UsageError for the one that the next run takes."""
    folder = _folder_of(wanted, config)
    name, model_id = folder.parent.name, folder.name
    this = short_name(name, model_id)
    with open_results_database(load_settings(config)) if has_project(config) else nullcontext() as database:
        check = partial(_check_removable, folder, force=force)
        if database is None:
            check(())
        else:
            RunStore(database).end_use(name, model_id, check)
        count = count_predictions(database).get(model_id, 0) if database is not None else 0
        with os_errors_as(ModelError, str(folder), "it must be writable"):
            remove_folder(folder)
    if as_json:
        print(json.dumps({"model": name, "model_id": model_id, "predictions": count}))
    else:
        print(f"removed {this}; its {count:,} predictions stay in the database" if count else f"removed {this}")


def _folder_of(wanted: str, config: Path | None) -> Path:
    """Return the folder of a version, also where that of a version in use should be."""
    folder = models_folder(config)
    try:
        return find_folder(folder, wanted)
    except ModelError:
        loaded = load_settings(config) if has_project(config) else None
        lost = versions_named(wanted, find_lost(loaded, read_in_use(loaded)).items()) if loaded else []
        if not lost:
            raise
        return folder.joinpath(*lost[0])


def _check_removable(folder: Path, recorded: Sequence[RecordedVersion], *, force: bool) -> None:
    """Raise UsageError if the next run takes this version, unless it is the only one and its removal is forced."""
    name, model_id = folder.parent.name, folder.name
    versions = [one.manifest.model_id for one in versions_of(folder.parent.parent, name)]
    in_use = next((one.model_id for one in recorded if one.name == name and one.in_use_since), None)
    taken = in_use or (versions[0] if len(versions) == 1 else None)
    if taken != model_id:
        return
    this, others = short_name(name, model_id), [one for one in versions if one != model_id]
    if others:
        first = command_line(f"model use {short_name(name, others[0])}")
        raise UsageError(f"{this} is the version in use", f"put another one in use first: {first}")
    if not force:
        command = command_line(f"model remove --force {this}")
        raise UsageError(f"{this} is in use and the only version of {name}", f"if no run needs it any more: {command}")


def _read_records(config: Path | None) -> tuple[list[RecordedVersion], dict[str, int]]:
    """Return the recorded versions and numbers of predictions; none, with a note, if the database can't be read."""
    if not has_project(config):
        return [], {}
    loaded = load_settings(config)
    try:
        with open_results_database(loaded, read_only=True) as database:
            with database.read() as connection:
                versions = read_versions(connection)
            return versions, count_predictions(database, pictures.c.registered == int(loaded.lists_own_images))
    except InferError as error:
        print_progress(one_line(f"which versions are in use is not known: {error} ({with_config(error.hint)})"))
        return [], {}


def _usage(one: RecordedVersion | None, counts: dict[str, int]) -> dict[str, object]:
    since = one.in_use_since if one else None
    until = one.used_until if one else None
    return {
        "in_use": since is not None,
        "in_use_since": since and since.replace(tzinfo=UTC).isoformat(),
        "used_until": until and until.replace(tzinfo=UTC).isoformat(),
        "predictions": counts.get(one.model_id, 0) if one else 0,
    }


def _use_as_text(one: RecordedVersion | None) -> str:
    if one is None or not one.was_in_use:
        return ""
    if one.in_use_since:
        return f"since {one.in_use_since:%Y-%m-%d %H:%M} UTC"
    return f"until {one.used_until:%Y-%m-%d %H:%M} UTC"
