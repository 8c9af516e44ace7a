"""`infer explain`: shows everything about one image."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, date, datetime
from typing import Any

from infer_app.artifact.model_names import short_name
from infer_app.ask.image_report import Explanation, FileNow, explain, is_same_file
from infer_app.ask.missing_prediction import what_to_do
from infer_app.ask.page.drawn_boxes import draw_image
from infer_app.base.domain import DetectedObject, FileFacts
from infer_app.base.locations import shown as shown_location
from infer_app.base.model_variants import variant_facts, variant_of
from infer_app.base.printing import counted, printable
from infer_app.base.settings.load import load_settings
from infer_app.cli.commands.look_commands import ExplainOptions
from infer_app.cli.terminal.output import shown
from infer_app.tables.project_database import open_project_database
from infer_app.tables.queries.image_history import ModelHistory, StoredObject

MAX_LISTED = 20  # objects, those that are shown first
# By a second network of an object.
_MADE = ("object", "label", "score", "shown_label", "shown_score", "output", "vector_dtype", "vector_dim")


def show_image(options: ExplainOptions) -> None:
    """Print everything about one image."""
    loaded, image_id = load_settings(options.config), options.image
    day = None if options.date is None else loaded.day(options.date)
    with open_project_database(loaded, read_only=True) as project:
        found = explain(loaded, project, image_id, day, options.model)
    drawn = None if options.draw is None else draw_image(loaded, found, options.draw)
    if options.as_json:
        print(json.dumps(_to_json(found) | {"drawn": drawn}, default=_plain))
    else:
        for line in _lines(found):
            print(printable(line).replace("\n", "\\n"))
        if drawn:
            print(printable(f"\nwrote {drawn['file']}: {counted(drawn['objects'], 'object')} of {drawn['model']}"))


def _to_json(found: Explanation) -> dict[str, object]:
    file = found.file
    return {
        "image_id": found.image_id,
        "location": shown_location(found.location) if found.location else None,
        "time": found.time,
        "date": found.day,
        "allowed": None if file is None else file.is_allowed,
        "file": None if file is None else asdict(file.facts) | {"reason": file.reason, "detail": file.detail},
        "no_model": found.no_model,
        "models": [
            {
                "model": one.model,
                "model_id": one.model_id,
                "state": one.state,
                "prediction": _prediction(one.prediction),
                "rejection": one.rejection and shown(one.rejection),
                "run": one.run,
                "same_file": is_same_file(file, one),
                "missing": None if cause is None else asdict(cause),
            }
            for one, cause in zip(found.histories, found.causes, strict=True)
        ],
    }


def _prediction(row: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the row with facts of its variant, and without its vector, which is bytes; vector_dim has its length."""
    if row is None:
        return None
    found = None if row["objects"] is None else [_object(row, one) for one in row["objects"]]
    kept = {key: value for key, value in row.items() if key != "vector"}
    return kept | variant_facts(row["variant"]) | {"objects": found}


def _object(row: dict[str, object], one: StoredObject) -> dict[str, object]:
    found = {**one.found._asdict(), "shown": one.is_shown, "pixels": _pixels(row, one.found)}
    if row["detector_id"] is None:
        return found
    made = None if one.made is None else {key: one.made[key] for key in _MADE}
    return found | {"prediction": made}


def _pixels(row: dict[str, object], found: DetectedObject) -> dict[str, float] | None:
    """Return the box in pixels of the upright picture, or None if its size is unknown."""
    if row["width"] is None:
        return None
    lengths = {"x": row["width"], "y": row["height"], "width": row["width"], "height": row["height"]}
    return {name: round(getattr(found, name) * length, 1) for name, length in lengths.items()}


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, date | datetime) else str(value)


def _lines(found: Explanation) -> Iterator[str]:
    yield f"image     {found.image_id}"
    location = "no longer listed by the source" if found.location is None else shown_location(found.location) or "none"
    yield f"location  {location}"
    if found.location is not None:
        at = f", {found.time:%Y-%m-%d %H:%M} UTC" if found.time else ""
        yield f"day       {found.day or 'none: it has no time'}{at}"
    if found.file is not None:
        yield f"allowed   {'yes' if found.file.is_allowed else 'no: ' + (found.file.detail or '')}"
        yield f"file now  {_file(found.file)}"
    if found.no_model is not None:
        yield f"no model has run yet, and none can: {found.no_model}"
    for history, cause in zip(found.histories, found.causes, strict=True):
        yield ""
        yield f"{history.model} {history.model_id}: {history.state}"
        yield from ("  " + line for line in _result_lines(found.file, history))
        if cause is not None:
            yield f"  why       {cause.message}"
            if to_do := what_to_do(cause.fix, cause.command):
                yield f"  to do     {to_do}"


def _file(file: FileNow) -> str:
    facts = file.facts
    problem = f"{file.reason}: {file.detail}" if file.reason else None
    modified = None if facts.modified is None else _time(facts.modified)
    known = (problem, "{}"), (facts.size, "{:,} bytes"), (modified, "of {}")
    return ", ".join(_texts(*known, (facts.sha256 or None, "sha256 {}")))


def _time(seconds: float) -> str:
    """Return a file's time; some file systems hold times that no calendar has."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"a time {seconds:.0f} s from 1970"


def _texts(*known: tuple[object, str]) -> list[str]:
    """Return each value as its format has it, without those that are None."""
    return [form.format(value) for value, form in known if value is not None]


def _result_lines(file: FileNow | None, history: ModelHistory) -> Iterator[str]:
    if (row := history.prediction) is not None:
        yield f"predicted{_predicted(row, '.6g')}"
        if row["objects"] is not None:
            yield from _object_lines(row)
        if row["width"] is not None:
            yield f"picture   {row['width']}x{row['height']} pixels"
        yield f"output    {json.dumps(row['output'], ensure_ascii=False)}"
        yield f"file then sha256 {row['sha256'] or 'not recorded'}{_same(is_same_file(file, history))}"
        yield f"made      {row['created_at']:%Y-%m-%d %H:%M:%S} UTC in variant {variant_of(row['variant'])}"
    if (row := history.rejection) is not None:
        yield f"rejected  {row['reason']} in {row['stage']}, attempt {row['attempts']}: {row['detail']}"
        then = FileFacts(row["size"], row["modified"], row["sha256"])
        yield f"file then {_file(FileNow(then)) or 'not recorded'}{_same(is_same_file(file, history))}"
        yield f"decoder   {row['decoder'] or 'not decoded'}"
        yield f"made      {row['created_at']:%Y-%m-%d %H:%M:%S} UTC"
    if (run := history.run) is not None:
        versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        variant = variant_of(run["variant"])
        yield f"run       {run['id']} on {run['host']}: {variant} by {run['executor']} on {run['device']}"
        yield f"with      {versions}"


def _object_lines(row: dict[str, Any]) -> Iterator[str]:
    num_shown = sum(one.is_shown for one in row["objects"])
    if row["detector_id"] is None:
        most = ", the most that the model keeps of an image" if len(row["objects"]) == row["max_objects"] else ""
        yield f"objects   {len(row['objects']):,}{most}, {num_shown:,} shown by the model's thresholds"
    else:
        found_by = short_name(row["detector"], row["detector_id"])
        of = f"of the {len(row['objects']):,} that {found_by} found"
        yield f"objects   {row['num_objects']:,} {of}, {num_shown:,} shown by its thresholds"
    best_first = sorted(row["objects"], key=lambda one: not one.is_shown)
    for one in best_first[:MAX_LISTED]:
        pixels = _pixels(row, one.found)
        box = "" if pixels is None else "".join(f" {name} {value:.0f}" for name, value in pixels.items())
        not_shown = "" if one.is_shown else ", not shown"
        yield f"          {one.found.label} {one.found.score:.3f}:{box}{not_shown}{_made(row, one)}"
    if left_out := best_first[MAX_LISTED:]:
        yield f"          and {len(left_out):,} more, which --json lists"


def _made(row: dict[str, Any], one: StoredObject) -> str:
    """Return what a second network made of an object, if the prediction is one of it."""
    if row["detector_id"] is None:
        return ""
    if one.made is None:
        return ", not taken"
    label, score = one.made["shown_label"], one.made["shown_score"]
    shown_as = "shown without a label" if label is None else f"shown as {label} {score:.3f}"
    as_shown = "" if label == one.made["label"] else f", {shown_as}"
    return f" →{_predicted(one.made, '.3f')}{as_shown}"


def _predicted(row: dict[str, Any], form: str) -> str:
    """Return label, score and vector of a prediction, each after a space."""
    vector = None if row["vector_dim"] is None else f"a vector of {row['vector_dim']:,} {row['vector_dtype']}"
    return "".join(_texts((row["label"], " {}"), (row["score"], f" {{:{form}}}"), (vector, " {}")))


def _same(is_same: bool | None) -> str:
    return "" if is_same is None else "; the file is still the same" if is_same else "; the file has CHANGED"
