"""The boxes of detected objects as SVG over their picture, which is not encoded again.

All text is escaped and printable. No label covers another one. On a small picture with many objects only the best of
each label is named: colours and what a box shows on hover tell the rest.
"""

from __future__ import annotations

import base64
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from infer_app.ask.image_report import Explanation
from infer_app.ask.next_run import retry_command
from infer_app.ask.page.thumbnails import ThumbnailLimits, make_thumbnails
from infer_app.base.atomic_file import replace_file
from infer_app.base.domain import DetectedObject
from infer_app.base.errors import UsageError, os_errors_as
from infer_app.base.printing import one_line
from infer_app.base.settings.load import LoadedSettings
from infer_app.base.size import Size
from infer_app.predict.images.decode.jpeg_structure import parse_jpeg_header
from infer_app.tables.project_database import read_limits
from infer_app.tables.rows.image_history import ModelHistory

# Light colours, told apart on photos by their dark outline, and with black text on them.
COLORS = ("#ffd23f", "#4cc9f0", "#7ee081", "#ff8a5c", "#d6a2f0", "#f4f1de", "#ff8fc2", "#b8d94a")
MAX_NAMED = 6  # objects on a small picture that are all named
MAX_LABEL_LENGTH = 24
CHAR_WIDTH = 0.58  # of the font size; a browser fits the text into what is reserved for it
FONT = "system-ui, 'DejaVu Sans', sans-serif"
DRAWN_SIZE = 1600  # pixels, the longer side
DRAWN_BYTES = 8_000_000

_OUTLINE = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>')
_BOX = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" stroke="{}"><title>{}</title></rect>')
_PLATE = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="{}"/>')
_TEXT = Markup('<text x="{:.1f}" y="{:.1f}" textLength="{:.1f}" lengthAdjust="spacingAndGlyphs">{}</text>')
_BOXES = Markup(
    '<g fill="none" stroke="#000" stroke-opacity="0.55" stroke-width="{outline:.1f}">{outlines}</g>'
    '<g fill="none" stroke-width="{line:.1f}" pointer-events="all">{boxes}</g>'
    '<g font-family="{font}" font-size="{size:.1f}" fill="#000">{labels}</g>'
)
_OVERLAY = Markup('<svg class="boxes" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
_FILE = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}">\n'
    '<title>{2}</title>\n<image href="data:image/jpeg;base64,{3}" width="{0}" height="{1}"/>\n{4}\n</svg>\n'
)


class Rectangle(NamedTuple):
    """A rectangle in the units of the picture."""

    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: Rectangle) -> bool:
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )


def overlay(jpeg: bytes, objects: Sequence[DetectedObject], colors: Mapping[str, int]) -> Markup:
    """Return an SVG of the shape of the picture, to be laid over it; `colors` numbers the labels."""
    size = _size_of(jpeg)
    told = ", ".join(_title(one) for one in objects)
    return _OVERLAY.format(
        *size, told, _draw(objects, size, max(size) / 18, colors, names_all=len(objects) <= MAX_NAMED)
    )


def svg_file(jpeg: bytes, objects: Sequence[DetectedObject], title: str) -> bytes:
    """Return an SVG file that holds the picture with the boxes over it."""
    size = _size_of(jpeg)
    colors = {label: number for number, label in enumerate(dict.fromkeys(one.label for one in objects))}
    drawn = _draw(objects, size, max(10, max(size) / 60), colors, names_all=True)
    encoded = base64.b64encode(jpeg).decode()
    return _FILE.format(*size, one_line(title), encoded, drawn).encode()


def _size_of(jpeg: bytes) -> Size:
    header = parse_jpeg_header(jpeg)
    return Size(header.width, header.height)


def _draw(
    objects: Sequence[DetectedObject], size: Size, font_size: float, colors: Mapping[str, int], *, names_all: bool
) -> Markup:
    """Draw the boxes, the best object in front."""
    outlines, boxes, labels, places = list[Markup](), list[Markup](), list[Markup](), list[Rectangle]()
    color_of, named = _choose_colors(objects, colors), set[str]()
    for one in objects:
        color, text = color_of[one.label], _title(one)
        box = Rectangle(one.x * size.width, one.y * size.height, one.width * size.width, one.height * size.height)
        outlines.append(_OUTLINE.format(*box))
        boxes.append(_BOX.format(*box, color, text))
        is_named = names_all or one.label not in named
        place = _place(box, _length(text) * font_size * CHAR_WIDTH, font_size, size, places) if is_named else None
        if place is not None:
            named.add(one.label)
            places.append(place)
            labels.append(_PLATE.format(*place, color))
            pad = font_size * 0.2
            labels.append(_TEXT.format(place.x + pad, place.y + font_size, place.width - 2 * pad, text))
    return _BOXES.format(
        outline=font_size / 4.5,
        line=font_size / 9,
        size=font_size,
        font=FONT,
        outlines=Markup("").join(reversed(outlines)),
        boxes=Markup("").join(reversed(boxes)),
        labels=Markup("").join(labels),
    )


def _choose_colors(objects: Sequence[DetectedObject], colors: Mapping[str, int]) -> dict[str, str]:
    """Return the colour of each label: its own, or the next one that no other label of the picture has."""
    chosen: dict[str, str] = {}
    for label in dict.fromkeys(one.label for one in objects):
        first = colors.get(label, 0)
        wanted = [COLORS[(first + step) % len(COLORS)] for step in range(len(COLORS))]
        chosen[label] = next((color for color in wanted if color not in chosen.values()), wanted[0])
    return chosen


def _place(box: Rectangle, length: float, font_size: float, size: Size, taken: Sequence[Rectangle]) -> Rectangle | None:
    """Return where a label is written: above its box, inside it or below it; None if all of that is taken."""
    width, height = min(size.width, length + 0.4 * font_size), 1.25 * font_size
    x = max(0.0, min(box.x, size.width - width))
    for y in (box.y - height, box.y, box.y + box.height - height, box.y + box.height):
        place = Rectangle(x, y, width, height)
        if 0 <= y <= size.height - height and not any(place.overlaps(other) for other in taken):
            return place
    return None


def _title(one: DetectedObject) -> str:
    return f"{one_line(one.label, MAX_LABEL_LENGTH)} {one.score:.2f}"


def _length(text: str) -> int:
    """Return the length of a text in letters; those of East Asian scripts are twice as wide."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def draw_image(loaded: LoadedSettings, found: Explanation, file: Path) -> dict[str, Any]:
    """Write the picture with the shown objects of the first model that has any, and return what was drawn.

    Raises UsageError if there is nothing to draw, or if the file can't be written.
    """
    if file.suffix.lower() != ".svg":
        raise UsageError(
            f"a drawing is an SVG file, and {file} is named otherwise", "give --draw a name that ends in .svg"
        )
    detected = [one for one in found.histories if one.objects is not None]
    rejected = [one.rejection for one in found.histories if one.rejection]
    if not detected and rejected:
        reason = rejected[0].reason
        raise UsageError(
            f"image {found.image_id} was rejected: {reason}", "leave --draw out to see what is known of it"
        )
    if not detected:
        hint = "`infer model show NAME` prints what a model gives: boxes are those of a detection model"
        raise UsageError(f"no detection model has predicted image {found.image_id}", hint)
    history = detected[0]
    if found.location is None:
        raise UsageError("the source no longer lists the image, so there is no picture to draw on", "leave --draw out")
    limits = ThumbnailLimits(
        read_limits(loaded), loaded.images.max_pixels, size=DRAWN_SIZE, max_bytes=DRAWN_BYTES, max_all_bytes=DRAWN_BYTES
    )
    picture = make_thumbnails([found.location], limits).get(found.location)
    if picture is None:
        why = f"{found.file.reason}: {found.file.detail}" if found.file and found.file.reason else "it can't be decoded"
        raise UsageError(f"image {found.image_id} can't be drawn: {why}", "leave --draw out to see what is known of it")
    if history.prediction and not picture.is_of(history.prediction.sha256):
        raise UsageError(
            f"the file of image {found.image_id} was replaced since it was predicted: its boxes are of another picture",
            f"predict it again: `{retry_command([found.image_id])}`",
        )
    shown_objects = drawn_objects(history)
    with os_errors_as(UsageError, f"can't write {file}", "name another file with --draw"):
        replace_file(file, svg_file(picture.jpeg, shown_objects, f"image {found.image_id}: {history.model}"))
    model = {"model": history.model, "model_id": history.model_id}
    return {"file": str(file), **model, "objects": len(shown_objects)}


def drawn_objects(history: ModelHistory) -> list[DetectedObject]:
    """Return the objects of a prediction that are drawn; those of a second network have its label and score, if any."""
    shown = [one for one in history.objects or () if one.is_shown and (one.made or not history.detector)]
    return [
        one.found
        if one.shown_label is None
        else one.found._replace(label=one.shown_label, score=one.shown_score or 0.0)
        for one in shown
    ]
