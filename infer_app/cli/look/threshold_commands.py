"""`infer threshold set`, `show` and `remove`: from which score on objects and labels are shown."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from infer_app.ask.named_model import NamedModel, hint_of_known
from infer_app.base.errors import UsageError
from infer_app.base.printing import one_line
from infer_app.base.settings.load import LoadedSettings, load_settings
from infer_app.cli.terminal.output import show_table
from infer_app.tables.project_database import ProjectDatabase, open_project_database, open_results_database
from infer_app.tables.queries.thresholds import change_thresholds, count_shown, read_thresholds
from infer_app.tables.results.schema import ALL_LABELS

COUNTED_DAYS = (28, 7, 1)  # the first number of days that has few enough images
COUNTED_IMAGES = 100_000
COUNTED_OF_OBJECTS = 2_000  # images of a second network, whose shown labels take a millisecond an object


@dataclass(frozen=True, slots=True)
class ThresholdChange:
    """New thresholds, and how many objects or labels of the last days are shown; None: too many to count quickly."""

    thresholds: dict[str, float]
    counted_days: int | None
    before: int
    after: int


def set_thresholds(name: str, given: Sequence[str], default: str | None, as_json: bool, config: Path | None) -> None:
    """Set thresholds, and print them with what they change."""
    wanted = parse_thresholds(given, default)
    if not wanted:
        raise UsageError(
            "no threshold is given", "`infer threshold set NAME --default 0.3`, or with labels: NAME cat=0.6"
        )
    loaded = load_settings(config)
    with open_project_database(loaded) as project:
        model = NamedModel.find(project.database, loaded, name)
        model.check_kind()
        model.check_labels(project.database, wanted.keys() - {ALL_LABELS})
        _print_change(model, _change(project, loaded, model, wanted), as_json)


def remove_thresholds(name: str, labels: Sequence[str], as_json: bool, config: Path | None) -> None:
    """Remove the thresholds of labels or, without labels, all. Raises UsageError for a label that has none."""
    loaded = load_settings(config)
    with open_project_database(loaded) as project:
        model = NamedModel.find(project.database, loaded, name)
        known = read_thresholds(project.database, name)
        for label in labels:
            if label not in known or label == ALL_LABELS:
                raise UsageError(
                    f"{label!r} of {name} has no threshold of its own",
                    hint_of_known(label, known.keys() - {ALL_LABELS}) or "`infer threshold show NAME` lists them",
                )
        _print_change(model, _change(project, loaded, model, dict.fromkeys(labels or known)), as_json)


def show_thresholds(name: str, as_json: bool, config: Path | None) -> None:
    loaded = load_settings(config)
    with open_results_database(loaded, read_only=True) as database:
        model = NamedModel.find(database, loaded, name)
        thresholds = read_thresholds(database, name)
    if as_json:
        print(json.dumps(_as_json(model, thresholds)))
        return
    default = str(thresholds[ALL_LABELS]) if ALL_LABELS in thresholds else "all are shown"
    own = [(label, str(value)) for label, value in thresholds.items() if label != ALL_LABELS]
    show_table(("label", "shown from"), [*own, ("(all others)" if own else "(all)", default)], name)
    for note in _notes(model, thresholds):
        print(one_line(note))


def parse_thresholds(given: Sequence[str], default: str | None) -> dict[str, float]:
    """Parse LABEL=SCORE, where a label may have a = too, and the score of all labels. Raises UsageError."""
    found: dict[str, float] = {} if default is None else {ALL_LABELS: _score(default, "--default")}
    for text in given:
        label, equals, score = text.rpartition("=")
        if not equals:
            raise UsageError(f"{text!r} has no =", f"LABEL=SCORE, such as {text}=0.6")
        if not label:
            raise UsageError(
                f"{text!r} has no label", "LABEL=SCORE, such as cat=0.6, or --default SCORE for all labels"
            )
        if label in found:
            raise UsageError(f"{label!r} is given twice", "give each label one score")
        found[label] = _score(score, text)
    return found


def _score(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{where}: {text!r} is not a number", "a score is a number from 0 to 1, such as 0.6") from None
    if not 0 <= value <= 1:  # nor NaN
        raise UsageError(f"{where}: {text} is not between 0 and 1", "a score is a number from 0 to 1, such as 0.6")
    return value


def _change(
    project: ProjectDatabase, loaded: LoadedSettings, model: NamedModel, changes: Mapping[str, float | None]
) -> ThresholdChange:
    today, name = loaded.day("today"), model.name
    most = COUNTED_IMAGES if model.detector is None else COUNTED_OF_OBJECTS
    spans = ((number, replace(today, start=today.before(number - 1).start)) for number in COUNTED_DAYS)
    few = (span for span in spans if project.count(span[1]) <= most)
    counted_days, days = next(few, (None, None))
    before = 0 if days is None else count_shown(project.database, project.source, days, name)
    change_thresholds(project.database, name, changes)
    after = 0 if days is None else count_shown(project.database, project.source, days, name)
    return ThresholdChange(read_thresholds(project.database, name), counted_days, before, after)


def _print_change(model: NamedModel, change: ThresholdChange, as_json: bool) -> None:
    days = change.counted_days
    if as_json:
        shown = None if days is None else {"days": days, "before": change.before, "after": change.after}
        print(json.dumps(_as_json(model, change.thresholds) | {"shown": shown}))
        return
    what = "objects" if model.gives_objects else "labels"
    own = [f"{label} {value}" for label, value in change.thresholds.items() if label != ALL_LABELS]
    others = f"all {'other ' if own else ''}labels {change.thresholds.get(ALL_LABELS, 'without a threshold')}"
    print(one_line(f"{model.name}: {', '.join([*own, others])}"))
    if days is None:
        print(f"how many {what} are shown is not counted: today has more than {COUNTED_IMAGES:,} images")
    else:
        counted = "today" if days == 1 else f"last {days} days"
        print(f"{counted}: {change.after:,} {what} shown, {change.before:,} before")
    for note in _notes(model, change.thresholds):
        print(one_line(note))


def _as_json(model: NamedModel, thresholds: Mapping[str, float]) -> dict[str, object]:
    return {
        "model": model.name,
        "default": thresholds.get(ALL_LABELS),
        "labels": {label: value for label, value in thresholds.items() if label != ALL_LABELS},
        "stored_from": model.stored_from,
        "notes": _notes(model, thresholds),
    }


def _notes(model: NamedModel, thresholds: Mapping[str, float]) -> list[str]:
    """Return which thresholds show no more than a higher one would: what has a lower score was not stored."""
    stored_from = model.stored_from or 0.0
    low = [label or "the default" for label, value in thresholds.items() if value < stored_from]
    if not low:
        return []
    verb = "is" if len(low) == 1 else "are"
    return [f"{', '.join(low)} {verb} below {stored_from}, the minimum score that the model stores"]
