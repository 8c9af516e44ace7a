"""Camtrap DP 1.0.2, https://camtrap-dp.tdwg.org: a folder with deployments, media and observations of camera traps.

A deployment is a line of the table of cameras that has coordinates. A medium needs one, and a time: what has not is
counted. Times have an offset: the one that the file states, else that of the project's time zone.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path, PurePosixPath
from typing import Any

from infer_app import __version__
from infer_app.artifact.model_names import short_name
from infer_app.ask.export.exported_images import Export, ExportedImage, chosen_labels
from infer_app.base.atomic_file import new_folder
from infer_app.base.day import find_zone
from infer_app.base.errors import UsageError
from infer_app.tables.cameras.captures import Capture, Captures
from infer_app.tables.cameras.day_events import Event
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
    **dict.fromkeys(("vehicle", "car", "truck", "bus", "motorcycle", "bicycle"), "vehicle"),
    **dict.fromkeys(("blank", "empty", "background", "nothing"), "blank"),
    "unknown": "unknown",
}
_SCIENTIFIC_NAME = re.compile(r"[A-Z][a-z]+( [a-z-]+){1,2}")
_NO_PATH = re.compile(r"[./~]|.*(\.\.|[\r\n])", re.DOTALL)
_LEAST_EDGE = 1e-15  # of a box
_MEDIA_TYPES = {"jpg": "jpeg", "tif": "tiff", "": "jpeg"}  # that are not called by the suffix


def write_camtrap_dp(path: Path, export: Export) -> None:
    """Write the folder. Raises UsageError without cameras that have coordinates, and for absolute paths of files."""
    if export.captures is None:
        raise UsageError("Camtrap DP needs cameras", 'say in infer.toml what names them: [source] camera = "folder:1"')
    with new_folder(path) as folder, ExitStack() as stack:
        _Package(folder, export, export.captures, stack).write()


@dataclass(frozen=True, slots=True)
class _Deployment:
    """A camera at one place; its times are by its clock, put right."""

    period: CameraPeriod
    start: datetime
    end: datetime

    @property
    def id(self) -> str:
        since = self.period.since
        return f"{self.period.camera}@{since:%Y%m%dT%H%M%S}" if since else self.period.camera


@dataclass(slots=True)
class _KnownEvent:
    """What the rows of an event need from its pictures."""

    deployment: str
    offset: int | None  # of the camera's clock
    classified_at: str


class _Package:
    """Writes the rows of pictures one by one; of each event a little is kept."""

    def __init__(self, folder: Path, export: Export, captures: Captures, stack: ExitStack) -> None:
        self._folder = folder
        self._export = export
        self._captures = captures
        self._zone = find_zone(captures.days[0].zone)
        self._deployments = list(_deployments(captures))
        self._events: dict[int, _KnownEvent] = {}
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
        self._tables["deployments"].writerows(map(self._deployment, self._deployments))
        self._write_media()
        for event in self._captures.read_events():
            if event.id in self._events:
                self._tables["observations"].writerows(self._event(event, self._events[event.id]))
        text = json.dumps(self._description(), indent=2, ensure_ascii=False)
        (self._folder / "datapackage.json").write_text(f"{text}\n", "utf-8")

    def _write_media(self) -> None:
        counts = self._export.counts
        rejected = {one.number: one for one in self._export.read_rejected()}
        left_out = 0
        for image in self._export.read_images(all_objects=True):
            rejected.pop(image.prediction.number, None)  # a run has predicted it meanwhile
            if image.path.startswith("/"):
                raise UsageError("Camtrap DP names files by relative paths", "name the folder of all by --relative-to")
            assert image.capture is not None
            classified_at = _text_of(image.prediction.created_at)
            self._classified_at = max(self._classified_at, classified_at)
            if medium := self._medium(image.prediction.number, image.path, image.capture, classified_at):
                rows = self._observations(image, medium, image.capture.event, classified_at)
                self._tables["observations"].writerows(rows)
            else:
                left_out += 1
        counts.num_images -= left_out
        captures = self._captures.read(rejected)
        for number, one in rejected.items():
            path = self._export.paths.find_or_shown(one.location)
            if medium := self._medium(number, path, captures[number], "", mediaComments=f"{one.reason}: {one.detail}"):
                counts.num_rejected += 1
                row = self._observation(medium, captures[number].event, observationType="unclassified")
                self._tables["observations"].writerow(row)

    def _medium(
        self, number: int, path: str, capture: Capture, classified_at: str, **more: str
    ) -> dict[str, object] | None:
        """Write the row of a picture and return it; None of one that the format can't hold, which is counted."""
        deployment = self._find_deployment(capture)
        if capture.taken_at is None or deployment is None or _NO_PATH.match(path):
            lacks = (
                "time" if capture.taken_at is None else "coordinates" if deployment is None else "path of this format"
            )
            self._export.counts.left_out[lacks] += 1
            return None
        if capture.event is not None:
            known = self._events.setdefault(capture.event, _KnownEvent(deployment.id, capture.offset, classified_at))
            known.classified_at = max(known.classified_at, classified_at)
        suffix = PurePosixPath(path).suffix.lower().removeprefix(".")
        row = {
            "mediaID": number,
            "deploymentID": deployment.id,
            "timestamp": self._time(capture.taken_at, capture.offset),
            "filePath": path,
            "filePublic": "false",
            "fileName": PurePosixPath(path).name,
            "fileMediatype": f"image/{_MEDIA_TYPES.get(suffix, suffix)}",
        }
        self._tables["media"].writerow(row | more)
        return row

    def _find_deployment(self, capture: Capture) -> _Deployment | None:
        at = capture.on_camera
        found = (
            one for one in self._deployments if one.period.camera == capture.camera and at and one.period.covers(at)
        )
        return next(found, None)

    def _observations(
        self, image: ExportedImage, medium: dict[str, object], event: int | None, classified_at: str
    ) -> Iterator[dict[str, object]]:
        by = short_name(self._export.model.name, image.prediction.model_id)
        shown = list(_shown(image, self._export)) or [("blank", "", {})]
        for place, (label, score, more) in enumerate(shown):
            more |= self._classified(label, by, classified_at, score)
            yield self._observation(medium, event, place, **more)

    def _observation(
        self, medium: dict[str, object], event: int | None, place: int = 0, **more: object
    ) -> dict[str, object]:
        return {
            "observationID": f"{medium['mediaID']}-{place}",
            "deploymentID": medium["deploymentID"],
            "mediaID": medium["mediaID"],
            "eventID": "" if event is None else event,
            "eventStart": medium["timestamp"],
            "eventEnd": medium["timestamp"],
            "observationLevel": "media",
        } | more

    def _event(self, event: Event, known: _KnownEvent) -> Iterator[dict[str, object]]:
        """Yield the rows of what is shown of an event, by a second network or, where it shows nothing, its detector."""
        model, has_objects = self._export.model, self._export.model.has_objects
        names = (model.name, *([model.detector.name] if model.detector else ()))
        by_name = ([one for one in event.labels if one.model == name] for name in names)
        shown = next(filter(None, by_name), [])
        rows = [(one.label, one.model, one.score, one.count if has_objects else "") for one in shown]
        assert event.started_at is not None  # a picture of it is a medium
        assert event.ended_at is not None
        of_event = {
            "deploymentID": known.deployment,
            "eventID": event.id,
            "eventStart": self._time(event.started_at, known.offset),
            "eventEnd": self._time(event.ended_at, known.offset),
            "observationLevel": "event",
        }
        if not known.classified_at:  # all its pictures were rejected
            yield of_event | {"observationID": f"event-{event.id}-0", "observationType": "unclassified"}
            return
        for place, (label, by, score, count) in enumerate(rows or [("blank", model.name, "", "")]):
            own = {"observationID": f"event-{event.id}-{place}", "count": count}
            yield of_event | own | self._classified(label, by, known.classified_at, score)

    def _classified(self, label: str, by: str, at: str, score: object) -> dict[str, object]:
        kind = _TYPES.get(label.lower(), "animal")
        is_name = _SCIENTIFIC_NAME.fullmatch(label) is not None
        if is_name:
            self._species.add(label)
        is_told = is_name or label.lower() in _TYPES
        return {
            "observationType": kind,
            "scientificName": label if is_name else "",
            "classificationMethod": "machine",
            "classifiedBy": by,
            "classificationTimestamp": at,
            "classificationProbability": score,
            "observationTags": "" if is_told else f"label:{label}".replace("|", "/"),
        }

    def _deployment(self, one: _Deployment) -> dict[str, object]:
        return {
            "deploymentID": one.id,
            "latitude": one.period.latitude,
            "longitude": one.period.longitude,
            "deploymentStart": self._time(one.start, None),
            "deploymentEnd": self._time(one.end, None),
            "cameraID": one.period.camera,
            "timestampIssues": str(bool(one.period.shift)).lower(),
        }

    def _time(self, at: datetime, offset: int | None) -> str:
        zone = self._zone if offset is None else timezone(timedelta(seconds=offset))
        return at.replace(tzinfo=zone).isoformat(timespec="seconds")

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
            "taxonomic": [{"scientificName": name} for name in sorted(self._species)],
        }


def _text_of(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def _deployments(captures: Captures) -> Iterator[_Deployment]:
    """Yield the cameras at their places; where a line has no beginning or end, these are of the camera's pictures."""
    for one in captures.periods:
        first, last = captures.ends.get(one.camera, (None, None))
        start = captures.clocks.put_right(one.camera, one.since) if one.since else first
        end = one.until + one.shift if one.until else last
        if None not in (one.latitude, one.longitude) and start and end and start <= end:
            yield _Deployment(one, start, end)


def _shown(image: ExportedImage, export: Export) -> Iterator[tuple[str, object, dict[str, object]]]:
    """Yield what is shown of an image: label, score and, of an object, its box as shares of the picture."""
    if not export.model.has_objects:
        for one in chosen_labels(image.prediction, image.labels):
            yield one["label"], one["score"], {}
    for (label, _, score, *box), crop in zip(image.objects, image.crops, strict=True):
        x, y, *sides = box
        edges: dict[str, object] = {"bboxX": x, "bboxY": y}
        edges |= zip(("bboxWidth", "bboxHeight"), (max(side, _LEAST_EDGE) for side in sides), strict=True)
        found = (crop.label, crop.score) if crop and crop.label is not None else (label, score)
        yield *found, edges | {"count": 1}
