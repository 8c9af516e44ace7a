"""A report as one HTML file without scripts: styles and pictures are inline, and every text is escaped."""

import base64
import hashlib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from infer_app.ask.day_report import DayReport
from infer_app.ask.figures.crop_figures import ScoredCrop
from infer_app.ask.figures.figures import RejectedImage, ScoredImage
from infer_app.ask.figures.object_figures import ImageObjects
from infer_app.ask.page import page_parts
from infer_app.ask.page.drawn_boxes import MAX_LABEL_LENGTH, overlay
from infer_app.ask.page.thumbnails import NOT_SHOWN, Pictured, PictureOfObject, Thumbnail
from infer_app.ask.run_figures import RunFigures
from infer_app.base.domain import Reason
from infer_app.base.locations import shown as shown_location
from infer_app.base.model_variants import variant_of
from infer_app.base.printing import counted, one_line, percent, printed_options
from infer_app.base.run_report import DayCounts
from infer_app.base.telemetry.bottleneck import display_name, taken_by_others
from infer_app.base.telemetry.stage_clock import STAGES
from infer_app.base.telemetry.summary_line import LEVELS, describe_others, duration, node_costs, short_date

TEMPLATES = Path(__file__).with_name("templates")
NUM_BARS = 15  # labels with a bar
COLORS = {stage: number for number, stage in enumerate(("model", *(one for one in STAGES if one != "model")))}
TITLES_BY_OUTPUT = {
    "classification": ("Least confident", "Most confident"),
    "detection": ("Lowest score of the best object", "Highest score of the best object"),
}


@dataclass(frozen=True, slots=True)
class IndexRow:
    """A row of the overview: one day and model."""

    date: date
    model: str
    counts: DayCounts
    state: str  # good, attention or failed
    outcome: str  # in a few words
    file: str | None  # name of its report's file, beside the overview


def pictured(report: DayReport) -> list[Pictured]:
    """Return what the page shows of images, the most important first."""
    return [_pictured(image) for image in _with_pictures(report)]


def _pictured(image: RejectedImage | ScoredImage) -> Pictured:
    if isinstance(image, ScoredCrop):
        return PictureOfObject(image.location, *image.detected[-4:])
    return image.location


def _with_pictures(report: DayReport) -> list[RejectedImage | ScoredImage]:
    return [*(image for image in report.rejected if image.reason not in NOT_SHOWN), *_predicted(report)]


def _predicted(report: DayReport) -> list[ScoredImage]:
    searched = (*report.objects.busiest, *report.objects.empty) if report.objects else ()
    return [*searched, *report.least, *report.most]


def render_day(
    report: DayReport, thumbnails: Mapping[Pictured, Thumbnail], json_file: str | None = None, has_index: bool = False
) -> str:
    """Return the HTML page with thumbnails of what is `pictured`; `json_file` is the name of the JSON file beside it.

    No picture is shown for an image whose file holds other bytes than those that were predicted or rejected.
    """
    shown_ids = {image.image_id for image in _predicted(report)}
    data = "data:image/jpeg;base64,"
    uris = {one: Markup(data + base64.b64encode(thumbnail.jpeg).decode()) for one, thumbnail in thumbnails.items()}
    made = {image: _pictured(image) for image in _with_pictures(report) if _pictured(image) in thumbnails}
    pictures = {image: uris[one] for image, one in made.items() if thumbnails[one].is_of(image.sha256)}
    replaced = made.keys() - pictures.keys()
    least, most = TITLES_BY_OUTPUT.get(report.output, ("Lowest scores", "Highest scores"))
    return _render(
        "day.html",
        report=report,
        pictures=pictures,
        replaced=replaced,
        overlays=_overlays(report, thumbnails, pictures),
        json_file=json_file,
        has_index=has_index,
        costs=_costs(report),
        waits=_costs(report, waits=True),
        others=describe_others(taken_by_others(report.speed)) if report.speed and report.speed.bottleneck else "",
        least_title=least,
        most_title=most,
        environment=_environment(report),
        num_lacking=len({one.image_id for one in _predicted(report) if one not in made}),
        num_replaced=len({one.image_id for one in replaced} & shown_ids),
        num_predicted=len(shown_ids),
    )


def render_index(rows: Sequence[IndexRow], made_at: str) -> str:
    top = max((row.counts.eligible for row in rows), default=0)
    command = f"infer report --date DATE{printed_options()}"
    return _render("index.html", rows=rows, made_at=made_at, top=top, report_command=command)


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
        "run_charts": _run_charts,
        "counted": counted,
        "quoted": shlex.quote,
        "describe_shown": _describe_shown,
        "printed_options": printed_options,
    }
    environment.filters |= {"percent": percent, "name": _name, "href": _href, "breakable": _breakable}
    return environment.get_template(template).render(context)


def _printable(value: Any) -> Any:
    """Make a text that a template outputs printable, before it is escaped; leave other values as they are."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return one_line(shown_location(value), page_parts.MAX_TEXT_LENGTH)


def _name(location: str) -> str:
    return shown_location(location).rstrip("/").rpartition("/")[2] or location or "no location"


def _href(file: str) -> str:
    """Return a relative address; even a name with a colon can't be read as a scheme."""
    return f"./{quote(file, errors='surrogatepass')}"


def _breakable(name: str) -> Markup:
    """Return a model's name that a browser breaks after its separators rather than within a word."""
    return Markup("<wbr>").join(re.split(r"(?<=[-_.@])", _printable(name)))


def _overlays(
    report: DayReport,
    thumbnails: Mapping[Pictured, Thumbnail],
    pictures: Mapping[RejectedImage | ScoredImage, Markup],
) -> dict[ImageObjects, Markup]:
    """Return the boxes over each picture; a label has one colour on the whole page."""
    colors = {one.label: number for number, one in enumerate(report.labels.most if report.labels else ())}
    return {
        image: overlay(thumbnails[image.location].jpeg, image.objects, colors)
        for image in report.with_boxes
        if image.objects and image in pictures
    }


def _describe_shown(image: ScoredImage) -> str:
    """Return what is said below the label and score of an image, or of an object."""
    name = _name(image.location)
    if isinstance(image, ScoredCrop):
        return f"{one_line(image.detected.label, MAX_LABEL_LENGTH)} {image.detected.score:.2f} · {name}"
    return f"{page_parts.describe_objects(image)} · {name}" if isinstance(image, ImageObjects) else name


def _costs(report: DayReport, waits: bool = False) -> dict[str, float]:
    """Return the milliseconds per image by stage, without stages that round to 0."""
    if report.speed is None:
        return {}
    found = report.speed.waits if waits else report.speed.stages
    return {stage: ms for stage, ms in found.items() if ms >= 0.005 and stage in COLORS}


def _environment(report: DayReport) -> dict[str, str]:
    known = {"model": f"{report.model} {report.model_id}", "day": f"{report.date} in {report.time_zone}"}
    if (run := report.run) and (speed := report.speed):
        known |= {"run": run.run_id, "started": f"{run.started_at:%Y-%m-%d %H:%M} UTC", "host": run.host}
        known |= {"variant": str(variant_of(run.variant))}
        known |= {"executor": f"{run.executor} on {run.device}"} if run.executor else {}
        known |= {"workers": f"{speed.num_workers} on {counted(speed.num_cores, 'core')}"} if speed.num_workers else {}
        known |= {f"node {node}": costs for node, costs in node_costs(speed).items()}
        known |= run.versions
        known |= {f"{variant} not used": why for variant, why in speed.passed_over.items()}
    return known


def _run_charts(runs: Sequence[RunFigures]) -> list[tuple[str, Markup]]:
    kinds = ["bad" if run.has_failed else "c0" for run in runs]
    return [
        _run_chart("Images/s", runs, [run.rate for run in runs], kinds, "{:,.0f}".format),
        _run_chart("Duration", runs, [run.seconds for run in runs], kinds, duration),
        _run_chart("Rejected", runs, [float(run.rejected) for run in runs], kinds, "{:,.0f}".format),
    ]


def _run_chart(
    title: str,
    runs: Sequence[RunFigures],
    values: Sequence[float | None],
    kinds: Sequence[str],
    as_text: Callable[[float], str],
) -> tuple[str, Markup]:
    titles = [
        f"{run.day}: {'not measured' if value is None else as_text(value)}" + (", failed" if run.has_failed else "")
        for run, value in zip(runs, values, strict=True)
    ]
    top = max((value for value in values if value), default=0.0)
    return title, page_parts.columns(values, titles, kinds, as_text(top))
