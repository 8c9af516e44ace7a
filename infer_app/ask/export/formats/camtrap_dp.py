"""Camtrap DP 1.0.2, https://camtrap-dp.tdwg.org: a folder with deployments, media and observations of camera traps.

A deployment is a line of the table of cameras that has coordinates. A medium needs one, and a time, and is no copy of
another camera's: what is left out is counted. Times have an offset: the one that the file states, else that of the
project's time zone.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from infer_app import __version__
from infer_app.artifact.model_names import short_name
from infer_app.ask.export.exported_images import Export, ExportedImage
from infer_app.base.atomic_file import new_folder
from infer_app.base.day import find_zone
from infer_app.base.errors import UsageError
from infer_app.tables.cameras.camera_days import BLANK
from infer_app.tables.cameras.captures import Capture, Captures
from infer_app.tables.cameras.periods import CameraPeriod

VERSION = "1.0.2"
_SCHEMAS = f"https://raw.githubusercontent.com/tdwg/camtrap-dp/{VERSION}"
# The columns of each table, in the order of its schema.
_TABLES = {
    "deployments": "deploymentID locationID locationName latitude longitude coordinateUncertainty deploymentStart"
    " deploymentEnd setupBy cameraID cameraModel cameraDelay cameraHeight cameraDepth cameraTilt cameraHeading"
    " detectionDistance timestampIssues baitUse featureType habitat deploymentGroups deploymentTags deploymentComments",
    "media": "mediaID deploymentID captureMethod timestamp filePath filePublic fileName fileMediatype exifData favorite"
    " mediaComments",
    "observations": "observationID deploymentID mediaID eventID eventStart eventEnd observationLevel observationType"
    " cameraSetupType scientificName count lifeStage sex behavior individualID individualPositionRadius"
    " individualPositionAngle individualSpeed bboxX bboxY bboxWidth bboxHeight classificationMethod classifiedBy"
    " classificationTimestamp classificationProbability observationTags observationComments",
}
# What labels mean; any other is taken for the name of an animal.
_TYPES = {
    "animal": "animal",
    **dict.fromkeys(("person", "people", "human", "homo sapiens"), "human"),
    **dict.fromkeys(("vehicle", "car", "truck", "bus", "motorcycle", "motorbike", "bicycle"), "vehicle"),
    **dict.fromkeys(BLANK, "blank"),
    "unknown": "unknown",
}
_NO_PATH = re.compile(r"[./~]|.*(\.\.|[\r\n])", re.DOTALL)
_LEAST_EDGE = 1e-15  # of a box
_MEDIA_TYPES = {".png": "png", ".webp": "webp", ".avif": "avif", ".heic": "heic", ".heif": "heic", ".bmp": "bmp"}
_MEDIA_TYPES |= {".gif": "gif", ".tif": "tiff", ".tiff": "tiff"}  # jpeg of all else


def write_camtrap_dp(path: Path, export: Export) -> None:
    """Write the folder. Raises UsageError without cameras that have coordinates, and for absolute paths of files."""
    if export.captures is None:
        raise UsageError("Camtrap DP needs cameras", 'say in infer.toml what names them: [source] camera = "folder:1"')
    with new_folder(path) as folder, ExitStack() as stack:
        _Package(folder, export, export.captures, stack).write()


@dataclass(slots=True)
class _Deployment:
    """A camera at one place; its pictures may lie outside of the times that were stated."""

    id: str
    period: CameraPeriod
    start: datetime
    end: datetime

    def take(self, at: datetime) -> None:
        self.start, self.end = min(self.start, at), max(self.end, at)


@dataclass(slots=True)
class _Event:
    """Sums up what the media of an event say."""

    deployment: str
    start: datetime
    end: datetime
    classified_at: str = ""  # the last of its media; empty: all were rejected
    shown: dict[tuple[str, str], tuple[int, float | None]] = field(default_factory=dict)  # by label and who told it

    def take(self, at: datetime, classified_at: str, shown: Sequence[_Shown]) -> None:
        self.start, self.end = min(self.start, at), max(self.end, at)
        self.classified_at = max(self.classified_at, classified_at)
        counts = Counter((one.label, one.by) for one in shown)
        for one in shown:
            most, best = self.shown.get((one.label, one.by), (0, None))
            score = one.score if best is None or (one.score or 0.0) > best else best
            self.shown[one.label, one.by] = max(most, counts[one.label, one.by]), score


class _Shown(NamedTuple):
    """Tells what is shown of an image, or of an object in it."""

    label: str
    score: float | None
    by: str  # the network that tells it
    box: tuple[float, ...] = ()  # x, y, width, height as shares of the picture


class _Package:
    """Writes the rows of pictures one by one. In memory are the rejected images, and of each event what is shown."""

    def __init__(self, folder: Path, export: Export, captures: Captures, stack: ExitStack) -> None:
        self._folder = folder
        self._export = export
        self._captures = captures
        self._zone = find_zone(captures.zone)
        self._deployments = list(self._find_deployments())
        self._events: dict[int, _Event] = {}
        self._species = set[str]()
        self._classified_at = ""  # by the last prediction
        self._tables = {}
        for name, columns in _TABLES.items():
            path = folder / f"{name}.csv"
            file = stack.enter_context(path.open("w", encoding="utf-8", errors="backslashreplace", newline=""))
            self._tables[name] = csv.DictWriter(file, columns.split())
            self._tables[name].writeheader()

    def write(self) -> None:
        if not self._deployments:
            raise UsageError("no camera has both coordinates and images", "state coordinates: `infer cameras set FILE`")
        self._write_media()
        for number, event in sorted(self._events.items()):
            self._tables["observations"].writerows(self._event(number, event))
        self._tables["deployments"].writerows(map(self._deployment, self._deployments))
        text = json.dumps(self._description(), indent=2, ensure_ascii=False)
        (self._folder / "datapackage.json").write_text(f"{text}\n", "utf-8")

    def _write_media(self) -> None:
        counts = self._export.counts
        rejected = {one.picture: one for one in self._export.read_rejected()}
        num_images = num_objects = 0
        written = set[int]()
        for image in self._export.read_images(all_objects=True):
            prediction, capture = image.prediction, image.capture
            if image.path.startswith("/"):
                raise UsageError("Camtrap DP names files by relative paths", "name the folder of all by --relative-to")
            assert capture is not None
            if prediction.picture in written:  # a table may list it on two days
                continue
            written.add(prediction.picture)
            rejected.pop(prediction.picture, None)  # a run has predicted it meanwhile
            classified_at = _text_of(prediction.created_at)
            self._classified_at = max(self._classified_at, classified_at)
            shown = list(self._shown(image))
            if medium := self._medium(prediction.picture, image.path, capture, classified_at, shown):
                num_images += 1
                num_objects += len(image.objects)
                blank = _Shown("blank", None, short_name(self._export.model.name, prediction.model_id))
                for place, one in enumerate(shown or [blank]):
                    row = self._observation(medium, capture, place) | self._classified(one, classified_at)
                    self._tables["observations"].writerow(row | _box(one.box))
        counts.num_images, counts.num_objects = num_images, num_objects
        captures = self._captures.read(rejected)
        for number, failure in rejected.items():
            path, capture = self._export.paths.find_or_shown(failure.location, number), captures[number]
            if medium := self._medium(number, path, capture, comments=f"{failure.reason}: {failure.detail}"):
                counts.num_rejected += 1
                row = self._observation(medium, capture, 0) | {"observationType": "unclassified"}
                self._tables["observations"].writerow(row)

    def _medium(
        self,
        number: int,
        path: str,
        capture: Capture,
        classified_at: str = "",
        shown: Sequence[_Shown] = (),
        comments: str = "",
    ) -> dict[str, object] | None:
        """Write the row of a picture and return it; None of one that the format can't hold, which is counted."""
        if capture.is_copy:
            self._export.counts.left_out["bytes of their own"] += 1
            return None
        deployment = self._find_deployment(capture)
        if capture.taken_at is None or deployment is None or not path or _NO_PATH.match(path):
            lacks = (
                "time" if capture.taken_at is None else "coordinates" if deployment is None else "path of this format"
            )
            self._export.counts.left_out[lacks] += 1
            return None
        at = self._aware(capture.taken_at, capture.offset)
        deployment.take(at)
        if capture.event is not None:
            event = self._events.setdefault(capture.event, _Event(deployment.id, at, at))
            event.take(at, classified_at, shown)
        name = PurePosixPath(path.partition("?")[0]).name
        row = {
            "mediaID": number,
            "deploymentID": deployment.id,
            "timestamp": at.isoformat(timespec="seconds"),
            "filePath": path,
            "filePublic": "false",
            "fileName": name,
            "fileMediatype": f"image/{_MEDIA_TYPES.get(PurePosixPath(name).suffix.lower(), 'jpeg')}",
            "mediaComments": comments,
        }
        self._tables["media"].writerow(row)
        return row

    def _find_deployments(self) -> Iterator[_Deployment]:
        """Yield the cameras at their places; a line without a beginning or end has that of its pictures."""
        ids, ends = set[str](), self._captures.ends
        for one in self._captures.periods:
            first, last = ends.get((one.camera, one), (None, None))
            start = one.put_right(one.since) if one.since else first
            end = one.put_right(one.until) if one.until else last
            if None in (one.latitude, one.longitude) or not start or not end or start > end:
                continue
            name = f"{one.camera}@{one.since:%Y%m%dT%H%M%S}" if one.since else one.camera
            names = chain([name], (f"{name}-{number}" for number in count(2)))
            ids.add(name := next(unused for unused in names if unused not in ids))
            yield _Deployment(name, one, self._aware(start, None), self._aware(end, None))

    def _find_deployment(self, capture: Capture) -> _Deployment | None:
        at = capture.on_camera
        found = (
            one for one in self._deployments if one.period.camera == capture.camera and at and one.period.covers(at)
        )
        return next(found, None)

    def _shown(self, image: ExportedImage) -> Iterator[_Shown]:
        model, detector = self._export.model, self._export.detector
        by = short_name(model.name, image.prediction.model_id)
        if not model.has_objects:
            for one in image.labels:
                yield _Shown(one["label"], one["score"], by)
        for (label, _, score, *box), crop in zip(image.objects, image.crops, strict=True):
            if crop and crop.label is not None:
                yield _Shown(crop.label, crop.score, by, tuple(box))
            else:
                yield _Shown(label, score, detector.model.shown_name if detector else by, tuple(box))

    def _observation(self, medium: dict[str, object], capture: Capture, place: int) -> dict[str, object]:
        return {
            "observationID": f"{medium['mediaID']}-{place}",
            "deploymentID": medium["deploymentID"],
            "mediaID": medium["mediaID"],
            "eventID": capture.event,
            "eventStart": medium["timestamp"],
            "eventEnd": medium["timestamp"],
            "observationLevel": "media",
        }

    def _event(self, number: int, event: _Event) -> Iterator[dict[str, object]]:
        row = {
            "deploymentID": event.deployment,
            "eventID": number,
            "eventStart": event.start.isoformat(timespec="seconds"),
            "eventEnd": event.end.isoformat(timespec="seconds"),
            "observationLevel": "event",
        }
        if not event.classified_at:
            yield row | {"observationID": f"event-{number}-0", "observationType": "unclassified"}
            return
        found = [(_Shown(label, score, by), most) for (label, by), (most, score) in sorted(event.shown.items())]
        seen = [(one, most) for one, most in found if _TYPES.get(one.label.lower()) != "blank"]
        blank = _Shown("blank", None, self._export.model.shown_name)
        for place, (one, most) in enumerate(seen or found[:1] or [(blank, 0)]):
            own = {
                "observationID": f"event-{number}-{place}",
                "count": (most or None) if self._export.model.has_objects else None,
            }
            yield row | own | self._classified(one, event.classified_at)

    def _classified(self, shown: _Shown, at: str) -> dict[str, object]:
        label = shown.label
        name = self._export.species.name_of(label) or ""
        if name:
            self._species.add(name)
        is_told = name == label or label.lower() in _TYPES
        return {
            "observationType": _TYPES.get(label.lower()) or _TYPES.get(name.lower(), "animal"),
            "scientificName": name,
            "classificationMethod": "machine",
            "classifiedBy": shown.by,
            "classificationTimestamp": at,
            "classificationProbability": shown.score,
            "observationTags": None if is_told else f"label:{label}".replace("|", "/"),
        }

    def _deployment(self, one: _Deployment) -> dict[str, object]:
        return {
            "deploymentID": one.id,
            "locationID": one.period.location_id or one.period.location_name or self._place(one.period),
            "locationName": one.period.location_name or one.period.location_id or self._place(one.period),
            "latitude": one.period.latitude,
            "longitude": one.period.longitude,
            "deploymentStart": one.start.isoformat(timespec="seconds"),
            "deploymentEnd": one.end.isoformat(timespec="seconds"),
            "cameraID": one.period.camera,
        }

    def _place(self, period: CameraPeriod) -> str:
        """Return what names a place without a name: its camera, and for one that has moved the coordinates."""
        its = [one.period for one in self._deployments if one.period.camera == period.camera]
        has_moved = len({(one.latitude, one.longitude) for one in its}) > 1
        return f"{period.camera} {period.latitude}, {period.longitude}" if has_moved else period.camera

    def _aware(self, at: datetime, offset: int | None) -> datetime:
        return at.replace(tzinfo=self._zone if offset is None else timezone(timedelta(seconds=offset)))

    def _description(self) -> dict[str, Any]:
        """Return the description of the package; what only people know is to be filled in."""
        places = sorted({(one.period.longitude, one.period.latitude) for one in self._deployments})
        dates = sorted(time.date() for one in self._deployments for time in (one.start, one.end))
        tables = ("name", "path", "profile", "format", "mediatype", "encoding", "schema")
        values = ("tabular-data-resource", "csv", "text/csv", "utf-8")
        return {
            "profile": f"{_SCHEMAS}/camtrap-dp-profile.json",
            "name": "camera-traps",
            "created": self._classified_at or _text_of(datetime.now(UTC)),
            "resources": [
                dict(zip(tables, (name, f"{name}.csv", *values, f"{_SCHEMAS}/{name}-table-schema.json"), strict=True))
                for name in _TABLES
            ],
            "sources": [{"title": "infer_app", "version": __version__}],
            "contributors": [{"title": "to be filled in"}],
            "project": {
                "title": "to be filled in",
                "samplingDesign": "opportunistic",
                "captureMethod": ["activityDetection"],
                "individualAnimals": False,
                "observationLevel": ["media", "event"] if self._events else ["media"],
            },
            "spatial": {"type": "MultiPoint", "coordinates": places},
            "temporal": {"start": f"{dates[0]}", "end": f"{dates[-1]}"},
            "taxonomic": [self._export.species.taxon(name) for name in sorted(self._species)],
        }


def _text_of(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def _box(box: tuple[float, ...]) -> dict[str, object]:
    """Return the columns of an object's box, which has an area in this format."""
    if not box:
        return {}
    x, y, width, height = box
    width, height = max(width, _LEAST_EDGE), max(height, _LEAST_EDGE)
    return {"count": 1, "bboxX": x, "bboxY": y, "bboxWidth": width, "bboxHeight": height}
