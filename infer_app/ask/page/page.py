"""A report as one HTML file without scripts: styles and pictures are inline, and every text is escaped."""

import base64
import hashlib
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from infer_app.ask.day_report import DayReport
from infer_app.ask.figures.crop_figures import ScoredCrop
from infer_app.ask.figures.figures import RejectedImage, ScoredImage
from infer_app.ask.figures.object_figures import ImageObjects
from infer_app.ask.model_report import ModelReport
from infer_app.ask.page import page_parts
from infer_app.ask.page.drawn_boxes import MAX_LABEL_LENGTH, overlay
from infer_app.ask.page.index_rows import IndexRow, gather_cameras
from infer_app.ask.page.thumbnails import NOT_SHOWN, Pictured, PictureOfObject, Thumbnail
from infer_app.base.domain import Reason
from infer_app.base.locations import query_beside_signature
from infer_app.base.locations import shown as shown_location
from infer_app.base.model_variants import variant_of
from infer_app.base.printing import counted, named, one_line, percent, printed_options, told_once
from infer_app.base.run_report import LEVELS
from infer_app.base.telemetry.bottleneck import display_name, taken_by_others
from infer_app.base.telemetry.stage_clock import STAGES
from infer_app.base.telemetry.summary_line import describe_others, duration, node_costs, short_date

TEMPLATES = Path(__file__).with_name("templates")
NUM_BARS = 15  # labels with a bar
NUM_LABELS, NUM_ILL_CAMERAS = 6, 20  # of a camera; on the page of all days
COLORS = {stage: number for number, stage in enumerate(("model", *(one for one in STAGES if one != "model")))}
TITLES_BY_OUTPUT = {
    "classification": ("Least confident", "Most confident"),
    "detection": ("Lowest score of the best object", "Highest score of the best object"),
}


def pictured(report: DayReport) -> list[Pictured]:
    """Return what the page shows of images, the most important first: of each model some before more of one."""
    of_cameras = (location for one in report.ill for location in (one.last_good, one.first_bad))
    return [*filter(None, of_cameras), *(_pictured(image) for image in _with_pictures(report))]


def _pictured(image: RejectedImage | ScoredImage) -> Pictured:
    if isinstance(image, ScoredCrop):
        return PictureOfObject(image.location, *image.detected[-4:])
    return image.location


def _with_pictures(report: DayReport) -> list[RejectedImage | ScoredImage]:
    rejected = [image for model in report.models for image in model.rejected if image.reason not in NOT_SHOWN]
    return [*rejected, *_predicted(report)]


def _predicted(report: DayReport) -> list[ScoredImage]:
    turns = zip_longest(*(model.predicted for model in report.models))
    return [image for turn in turns for image in turn if image is not None]


def photo_groups(model: ModelReport) -> list[tuple[str, list[ScoredImage]]]:
    """Return the images of a model under their titles, each under the first that it belongs to."""
    least, most = TITLES_BY_OUTPUT.get(model.output, ("Lowest scores", "Highest scores"))
    busiest, empty = (model.objects.busiest, model.objects.empty) if model.objects else ((), ())
    groups = (("Most objects", busiest), (most, model.most), (least, model.least), ("Without an object", empty))
    seen: set[ScoredImage] = set()
    found = []
    for title, images in groups:
        found.append((title, [image for image in images if image not in seen]))
        seen.update(images)
    return [(title, images) for title, images in found if images]


def render_day(
    report: DayReport, thumbnails: Mapping[Pictured, Thumbnail], json_file: str | None = None, has_index: bool = False
) -> str:
    """Return the HTML page with thumbnails of what is `pictured`; `json_file` is the name of the JSON file beside it.

    No picture is shown for an image whose file holds other bytes than those that were predicted or rejected.
    """
    models = report.by_name
    shown_ids = {image.image_id for image in _predicted(report)}
    data = "data:image/jpeg;base64,"
    uris = {one: Markup(data + base64.b64encode(thumbnail.jpeg).decode()) for one, thumbnail in thumbnails.items()}
    made = {image: _pictured(image) for image in _with_pictures(report) if _pictured(image) in thumbnails}
    pictures = {image: uris[one] for image, one in made.items() if thumbnails[one].is_of(image.sha256)}
    replaced = made.keys() - pictures.keys()

    def once(told: Callable[[ModelReport], Iterable[Any]]) -> dict[Any, tuple[str, ...]]:
        return told_once({name: told(model) for name, model in models.items()})

    return _render(
        "day.html",
        report=report,
        models=models,
        drawn=lambda macro: once(lambda model: [text for text in [macro(model)] if text.strip()]),
        counts=once(lambda model: [model.counts]),
        reasons=once(lambda model: model.reasons.items()),
        rejected=once(lambda model: model.rejected),
        pictures=pictures,
        uris=uris,
        replaced=replaced,
        overlays=_overlays(report, thumbnails, pictures),
        json_file=json_file,
        has_index=has_index,
        environment=once(lambda model: _environment(model).items()),
        num_lacking=len({one.image_id for one in _predicted(report) if one not in made}),
        num_replaced=len({one.image_id for one in replaced} & shown_ids),
        num_predicted=len(shown_ids),
    )


def render_index(rows: Sequence[IndexRow], made_at: datetime) -> str:
    """Return the page of all days: a row for each week that has any, the newest first, as `rows` are.

    Before them it has a row for each camera, and after them what each has brought.
    """
    weeks: dict[date, dict[int, IndexRow]] = {}
    for row in rows:
        weekday = row.day.date.weekday()
        weeks.setdefault(row.day.date - timedelta(days=weekday), {})[weekday] = row
    cameras = gather_cameras(rows)
    ill = sorted((one for camera in cameras for one in camera.ill), key=lambda one: one[0].day.date, reverse=True)
    return _render(
        "index.html",
        rows=rows,
        weeks=weeks,
        cameras=cameras,
        ill=ill,
        num_ill=NUM_ILL_CAMERAS,
        num_labels=NUM_LABELS,
        has_events=any(row.num_events for row in rows),
        made_at=made_at,
        top=max((row.day.images for row in rows), default=0) or 1,
        status_command=f"infer status{printed_options()}",
        report_command=f"infer report --date DATE --until DATE{printed_options()}",
    )


def _render(template: str, **context: object) -> str:
    style = (TEMPLATES / "style.css").read_text()
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "style": Markup(style),
        "style_hash": base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        "parts": page_parts,
        "colors": COLORS,
        "meanings": {reason: reason.meaning for reason in Reason},
        "num_bars": NUM_BARS,
        "duration": duration,
        "display_name": display_name,
        "levels": LEVELS,
        "short_date": short_date,
        "counted": counted,
        "quoted": shlex.quote,
        "named": named,
        "caption": _caption,
        "photo_groups": photo_groups,
        "costs": _costs,
        "others": _others,
        "printed_options": printed_options,
    }
    environment.filters |= {"percent": percent, "name": _name, "href": _href}
    return environment.get_template(template).render(context)


def _printable(value: Any) -> Any:
    """Make a text that a template outputs printable, before it is escaped; leave other values as they are."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return one_line(shown_location(value), page_parts.MAX_TEXT_LENGTH)


def _name(location: str, image_id: str = "") -> str:
    """Return the name of an image's file; of a URL whose hidden query tells it from others with the id, as it ends."""
    name = shown_location(location).rstrip("/").rpartition("/")[2] or location or "no location"
    return name + image_id.rpartition("***")[2] if query_beside_signature(location) else name


def _href(file: str) -> str:
    """Return a relative address; even a name with a colon can't be read as a scheme."""
    return f"./{quote(file, errors='surrogatepass')}"


def _overlays(
    report: DayReport, thumbnails: Mapping[Pictured, Thumbnail], pictures: Mapping[RejectedImage | ScoredImage, Markup]
) -> dict[ImageObjects, Markup]:
    """Return the boxes over each picture; a label of a model has one colour on the whole page."""
    drawn = {}
    for model in report.models:
        colors = {one.label: number for number, one in enumerate(model.labels.most if model.labels else ())}
        for image in model.predicted:
            if isinstance(image, ImageObjects) and image.objects and image in pictures:
                drawn[image] = overlay(thumbnails[image.location].jpeg, image.objects, colors)
    return drawn


def _caption(image: ScoredImage) -> tuple[str, str]:
    """Return what is said below an image, or an object, in two lines."""
    # With its folder: files of several cameras have the same names.
    folder = shown_location(image.location).strip("/").split("/")[-2:-1]
    name = "/".join([*folder, _name(image.location, image.image_id)])
    best = f"{image.score:.2f} {image.label or ''}" if image.score is not None else ""
    if isinstance(image, ScoredCrop):
        return best, f"{one_line(image.detected.label, MAX_LABEL_LENGTH)} {image.detected.score:.2f} · {name}"
    if not isinstance(image, ImageObjects):
        return best, name
    if not image.num_objects:
        return f"{best}, not shown" if best else "nothing found", name
    return best, f"{page_parts.describe_objects(image)} · {name}"


def _costs(model: ModelReport, waits: bool = False) -> dict[str, float]:
    """Return the milliseconds per image by stage, without stages that round to 0."""
    if model.speed is None:
        return {}
    found = model.speed.waits if waits else model.speed.stages
    return {stage: ms for stage, ms in found.items() if ms >= 0.005 and stage in COLORS}


def _others(model: ModelReport) -> str:
    speed = model.speed
    return describe_others(taken_by_others(speed)).capitalize() if speed and speed.bottleneck else ""


def _environment(model: ModelReport) -> dict[str, str]:
    if not (run := model.run) or not (speed := model.speed):
        return {}
    known = {"run": run.run_id, "started": f"{run.started_at:%Y-%m-%d %H:%M} UTC", "host": run.host}
    known |= {"variant": str(variant_of(run.variant))}
    known |= {"executor": f"{run.executor} on {run.device}"} if run.executor else {}
    known |= {"workers": f"{speed.num_workers} on {counted(speed.num_cores, 'core')}"} if speed.num_workers else {}
    known |= {f"node {node}": costs for node, costs in node_costs(speed).items()}
    known |= run.versions
    return known | {f"{variant} not used": why for variant, why in speed.passed_over.items()}
