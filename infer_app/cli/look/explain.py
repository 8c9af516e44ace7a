"""`infer explain`: shows everything about one image."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime
from typing import Any

from infer_app.artifact.model_names import short_name
from infer_app.ask.image_report import Explanation, FileNow, explain, is_same_file
from infer_app.ask.missing_prediction import what_to_do
from infer_app.ask.page.drawn_boxes import draw_image
from infer_app.base.domain import DetectedObject
from infer_app.base.locations import shown as shown_location
from infer_app.base.model_variants import variant_facts, variant_of
from infer_app.base.printing import counted, printable
from infer_app.base.settings.load import load_settings
from infer_app.cli.commands.look_commands import ExplainOptions
from infer_app.cli.terminal.output import shown
from infer_app.tables.project_database import open_project_database
from infer_app.tables.rows.image_history import ModelHistory, StoredObject
from infer_app.tables.rows.results import PredictedCrop, Rejection, Result, StoredOutput

MAX_LISTED = 20  # objects, those that are shown first
# Of a prediction, in the order in which JSON has them.
_STORED = "picture model_id run_id variant label score output vector_dtype vector_dim sha256 created_at width height"
_STORED += " num_objects detector_id image_id location"


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
                "prediction": _prediction(one),
                "rejection": one.rejection and _rejection(one.rejection),
                "run": one.run and dict(one.run),
                "same_file": is_same_file(file, one),
                "missing": None if cause is None else asdict(cause),
            }
            for one, cause in zip(found.histories, found.causes, strict=True)
        ],
    }


def _prediction(of: ModelHistory) -> dict[str, Any] | None:
    """Return the row with facts of its variant, and without its vector, which is bytes; vector_dim has its length."""
    if (row := of.prediction) is None:
        return None
    found = {name: getattr(row, name, None) for name in _STORED.split()} | _output(row.output)
    found |= {"size": row.seen.size, "modified": row.seen.modified}
    if of.objects is None:
        return found | {"objects": None} | variant_facts(row.variant)
    detector = {} if of.detector is None else {"detector": of.detector}
    objects = [_object(row, one) for one in of.objects]
    return found | detector | {"max_objects": of.max_objects, "objects": objects} | variant_facts(row.variant)


def _rejection(row: Rejection) -> dict[str, object]:
    return {name: value for name, value in shown(asdict(row)).items() if name != "is_settled"}


def _output(of: StoredOutput) -> dict[str, Any]:
    return {"output": of.details, "vector_dtype": of.vector_dtype, "vector_dim": of.vector_dim}


def _object(row: Result, one: StoredObject) -> dict[str, object]:
    found = {**one.found._asdict(), "shown": one.is_shown, "pixels": _pixels(row, one.found)}
    if row.detector_id is None or one.made is None:
        return found if row.detector_id is None else found | {"prediction": None}
    made = {"object": one.place, "label": one.made.label, "score": one.made.score}
    as_shown = {"shown_label": one.shown_label, "shown_score": one.shown_score}
    return found | {"prediction": made | as_shown | _output(one.made.output)}


def _pixels(row: Result, found: DetectedObject) -> dict[str, float] | None:
    """Return the box in pixels of the upright picture, or None if its size is unknown."""
    if row.upright is None:
        return None
    lengths = zip(("x", "y", "width", "height"), row.upright * 2, strict=True)
    return {name: round(getattr(found, name) * length, 1) for name, length in lengths}


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
        if history.objects is not None:
            yield from _object_lines(history, row, history.objects)
        if row.width is not None:
            yield f"picture   {row.width}x{row.height} pixels"
        yield f"output    {json.dumps(row.output.details, ensure_ascii=False)}"
        yield f"file then sha256 {row.sha256 or 'not recorded'}{_same(is_same_file(file, history))}"
        yield f"made      {row.created_at:%Y-%m-%d %H:%M:%S} UTC in variant {variant_of(row.variant)}"
    if (failed := history.rejection) is not None:
        yield f"rejected  {failed.reason} in {failed.stage}, attempt {failed.attempts}: {failed.detail}"
        yield f"file then {_file(FileNow(failed.file)) or 'not recorded'}{_same(is_same_file(file, history))}"
        yield f"decoder   {failed.decoder or 'not decoded'}"
        yield f"made      {failed.created_at:%Y-%m-%d %H:%M:%S} UTC"
    if (run := history.run) is not None:
        versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        variant = variant_of(run["variant"])
        yield f"run       {run['id']} on {run['host']}: {variant} by {run['executor']} on {run['device']}"
        yield f"with      {versions}"


def _object_lines(history: ModelHistory, row: Result, objects: Sequence[StoredObject]) -> Iterator[str]:
    num_shown = sum(one.is_shown for one in objects)
    if row.detector_id is None:
        most = ", the most that the model keeps of an image" if len(objects) == history.max_objects else ""
        yield f"objects   {len(objects):,}{most}, {num_shown:,} shown"
    else:
        of = f"of the {len(objects):,} that {short_name(history.detector or '', row.detector_id)} found"
        yield f"objects   {row.num_objects:,} {of}, {num_shown:,} shown"
    best_first = sorted(objects, key=lambda one: not one.is_shown)
    for one in best_first[:MAX_LISTED]:
        pixels = _pixels(row, one.found)
        box = "" if pixels is None else "".join(f" {name} {value:.0f}" for name, value in pixels.items())
        not_shown = "" if one.is_shown else ", not shown"
        yield f"          {one.found.label} {one.found.score:.3f}:{box}{not_shown}{_made(row, one)}"
    if left_out := best_first[MAX_LISTED:]:
        yield f"          and {len(left_out):,} more, which --json lists"


def _made(row: Result, one: StoredObject) -> str:
    """Return what a second network made of an object, if the prediction is one of it."""
    if row.detector_id is None:
        return ""
    if one.made is None:
        return ", not taken"
    label, score = one.shown_label, one.shown_score
    shown_as = "shown without a label" if label is None else f"shown as {label} {score:.3f}"
    as_shown = "" if label == one.made.label else f", {shown_as}"
    return f" →{_predicted(one.made, '.3f')}{as_shown}"


def _predicted(row: Result | PredictedCrop, form: str) -> str:
    """Return label, score and vector of a prediction, each after a space."""
    dim = row.output.vector_dim
    vector = None if dim is None else f"a vector of {dim:,} {row.output.vector_dtype}"
    return "".join(_texts((row.label, " {}"), (row.score, f" {{:{form}}}"), (vector, " {}")))


def _same(is_same: bool | None) -> str:
    return "" if is_same is None else "; the file is still the same" if is_same else "; the file has CHANGED"
