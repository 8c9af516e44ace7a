"""`infer labels set`, `show` and `clear`: groups of a second network's labels, and which of them are allowed."""

import json
import logging
from pathlib import Path

from infer_app.artifact.taxonomy import Taxonomy, group_labels, read_allowed
from infer_app.ask.named_model import NamedModel
from infer_app.base.errors import UsageError
from infer_app.base.printing import counted, one_line
from infer_app.base.settings.load import LoadedSettings, load_settings
from infer_app.cli.terminal.output import show_table
from infer_app.tables.engine.column_types import MAX_ID
from infer_app.tables.engine.connect import Database
from infer_app.tables.label_groups import Groups, read_label_groups, replace_label_groups
from infer_app.tables.project_database import open_results_database

log = logging.getLogger(__name__)

FEW = 5  # labels named in a warning


def set_labels(name: str, taxonomy: Path | None, only: Path | None, config: Path | None) -> None:
    """Replace the groups of a model's labels and the list of those that are allowed."""
    if taxonomy is None and only is None:
        raise UsageError("no file is given", "--taxonomy FILE, --only FILE or both; `infer labels clear NAME` removes")
    loaded = load_settings(config)
    groups = Taxonomy({}) if taxonomy is None else Taxonomy.read(taxonomy)
    allowed = None if only is None else read_allowed(only)
    with open_results_database(loaded) as database:
        known = _find(database, loaded, name).known_labels
        _warn_of_unknown(name, taxonomy, groups.parents.keys() - groups.groups - known)
        if allowed is not None and only is not None:
            _check_allowed(name, only, allowed, known, groups)
        found = group_labels(groups, allowed, known)
        _check_lengths({*found, *groups.groups})  # those of the model that are not allowed are stored too
        before = read_label_groups(database, name)
        replace_label_groups(database, name, found)
    print(one_line(f"{name}: {_describe(found)}" + (f"; before: {_describe(before)}" if before else "")))


def show_labels(name: str, as_json: bool, config: Path | None) -> None:
    loaded = load_settings(config)
    with open_results_database(loaded, read_only=True) as database:
        _find(database, loaded, name)
        found = read_label_groups(database, name)
    if as_json:
        grouped = {label: chain[:-1] for label, chain in found.items() if chain is not None}
        barred = [label for label, chain in found.items() if chain is None]
        print(json.dumps({"model": name, "groups": grouped, "not_allowed": barred}))
        return
    rows = [(label, " > ".join(chain[:-1])) for label, chain in found.items() if chain is not None]
    if rows:
        show_table(("label", "groups"), rows, name)
    print(one_line(f"{name}: {_describe(found)}"))


def clear_labels(name: str, config: Path | None) -> None:
    loaded = load_settings(config)
    with open_results_database(loaded) as database:
        _find(database, loaded, name)
        replace_label_groups(database, name, {})
    print(one_line(f"{name}: {_describe({})}"))


def _find(database: Database, loaded: LoadedSettings, name: str) -> NamedModel:
    """Find a second network that classifies. Raises UsageError for any other model."""
    model = NamedModel.find(database, loaded, name)
    if not model.classifies_objects:
        what = "no second network" if model.detector is None else "a second network that gives no labels"
        raise UsageError(
            f"{name} is {what}",
            "groups are for classification of a detector's objects, which a model with the key `of` gives",
        )
    return model


def _check_lengths(labels: set[str]) -> None:
    if too_long := [label for label in labels if len(label) > MAX_ID]:
        raise UsageError(f"{too_long[0][:40]!r}… has more than {MAX_ID} characters", "no label or group may be longer")


def _warn_of_unknown(name: str, path: Path | None, labels: set[str]) -> None:
    if labels:
        few = ", ".join(map(one_line, sorted(labels)[:FEW])) + (", …" if len(labels) > FEW else "")
        log.warning("%s: %s that %s doesn't have: %s", path, counted(len(labels), "label"), name, few)


def _check_allowed(name: str, path: Path, allowed: set[str], known: set[str], taxonomy: Taxonomy) -> None:
    """Raise UsageError for a group in the list of labels, and if no label of the model is in it."""
    unknown = allowed - known
    if groups := sorted(unknown & taxonomy.groups):
        raise UsageError(
            f"{path}: {groups[0]!r} is a group, not a label of {name}", "list the labels in it, one a line"
        )
    if unknown == allowed:
        raise UsageError(f"{path} has no label of {name}: nothing would be allowed", f"`infer model show {name}`")
    _warn_of_unknown(name, path, unknown)


def _describe(groups: Groups) -> str:
    chains = [chain for chain in groups.values() if chain is not None]
    num_groups = len({group for chain in chains for group in chain[:-1]})
    num_barred = len(groups) - len(chains)
    grouped = f"{counted(len(chains), 'label')} in {counted(num_groups, 'group')}" if chains else "no groups"
    return f"{grouped}, {counted(num_barred, 'label')} not allowed" if num_barred else f"{grouped}, all labels allowed"
