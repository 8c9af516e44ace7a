"""One image as an SVG file, with the objects that a model found in it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infer_app.answers.image_report import Explanation
from infer_app.answers.next_run import retry_command
from infer_app.atomic_file import replace_file
from infer_app.database.project_database import read_limits
from infer_app.domain import DetectedObject
from infer_app.errors import UsageError, os_errors_as
from infer_app.reporting.drawn_boxes import svg_file
from infer_app.reporting.thumbnails import ThumbnailLimits, make_thumbnails
from infer_app.settings.load import LoadedSettings

DRAWN_SIZE = 1600  # pixels, the longer side
DRAWN_BYTES = 8_000_000


def draw_image(loaded: LoadedSettings, found: Explanation, file: Path) -> dict[str, Any]:
    """Write the picture with the shown objects of the first model that has any, and return what was drawn.

    Raises UsageError if there is nothing to draw, or if the file can't be written.
    """
    if file.suffix.lower() != ".svg":
        raise UsageError(
            f"a drawing is an SVG file, and {file} is named otherwise", "give --draw a name that ends in .svg"
        )
    detected = [one for one in found.histories if one.prediction and one.prediction["objects"] is not None]
    rejected = [one.rejection for one in found.histories if one.rejection]
    if not detected and rejected:
        reason = rejected[0]["reason"]
        raise UsageError(
            f"image {found.image_id} was rejected: {reason}", "leave --draw out to see what is known of it"
        )
    if not detected:
        hint = "`infer model show NAME` prints what a model gives: boxes are those of a detection model"
        raise UsageError(f"no detection model has predicted image {found.image_id}", hint)
    history, stored = detected[0], detected[0].prediction or {}
    if found.location is None:
        raise UsageError("the source no longer lists the image, so there is no picture to draw on", "leave --draw out")
    limits = ThumbnailLimits(
        read_limits(loaded),
        loaded.images.max_pixels,
        size=DRAWN_SIZE,
        max_bytes=DRAWN_BYTES,
        max_all_bytes=DRAWN_BYTES,
    )
    picture = make_thumbnails([found.location], limits).get(found.location)
    if picture is None:
        why = f"{found.file.reason}: {found.file.detail}" if found.file and found.file.reason else "it can't be decoded"
        raise UsageError(f"image {found.image_id} can't be drawn: {why}", "leave --draw out to see what is known of it")
    if not picture.is_of(stored["sha256"]):
        raise UsageError(
            f"the file of image {found.image_id} was replaced since it was predicted: its boxes are of another picture",
            f"predict it again: `{retry_command([found.image_id])}`",
        )
    shown_objects = drawn_objects(stored)
    with os_errors_as(UsageError, f"can't write {file}", "name another file with --draw"):
        replace_file(file, svg_file(picture.jpeg, shown_objects, f"image {found.image_id}: {history.model}"))
    model = {"model": history.model, "model_id": history.model_id}
    return {"file": str(file), **model, "objects": len(shown_objects)}


def drawn_objects(stored: Mapping[str, Any]) -> list[DetectedObject]:
    """Return the objects of a prediction that are drawn; those of a second network have its label and score, if any."""
    shown = [one for one in stored["objects"] if one.is_shown]
    if stored["detector_id"] is None:
        return [one.found for one in shown]
    taken = [(one.found, one.made) for one in shown if one.made]
    return [
        found if made["shown_label"] is None else found._replace(label=made["shown_label"], score=made["shown_score"])
        for found, made in taken
    ]
