"""The data of a day's report: what its models say together, and each of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, date, datetime
from itertools import islice
from typing import Any

from infer_app import __version__
from infer_app.artifact.model_names import Version, short_name
from infer_app.ask.changes import Change, changes
from infer_app.ask.model_report import ModelDay, ModelReport, gather_before, gather_model, read_model_day
from infer_app.base.day import Day
from infer_app.base.locations import shown
from infer_app.base.model_variants import variant_facts
from infer_app.base.printing import named, printed_options, told_once
from infer_app.base.run_report import LEVELS
from infer_app.tables.cameras.camera_days import find_examples
from infer_app.tables.cameras.day_events import count_by_camera, read_events
from infer_app.tables.day.facts import DayReader
from infer_app.tables.day.ill_cameras import IllCameraReader
from infer_app.tables.day.illness import PICTURES
from infer_app.tables.day.notices import notices_of_day
from infer_app.tables.listing.stored_notices import Notice
from infer_app.tables.listing.watched_images import ChangedCounts, ChangedImage, count_changed, read_changed
from infer_app.tables.project_database import ProjectDatabase

_WITHOUT_MODEL = ("doctor", "status")  # commands that take no --model
NUM_CHANGED = 50  # replaced and missing images
NUM_ILL = 8  # cameras that are shown, with two pictures each


@dataclass(frozen=True, slots=True)
class DaySummary:
    """A day in one line: the page of all days and the page of the day say the same."""

    date: date
    state: str  # good, attention or failed: that of the model that is worst off
    notes: tuple[str, ...]  # what is not as it should be, with the names of models unless it is so of all
    images: int  # of the model with the most that are not predicted, as are the next two
    rejected: int
    pending: int

    def summary(self) -> dict[str, Any]:
        """Return these fields alone, by name."""
        return {field.name: getattr(self, field.name) for field in fields(DaySummary)}


@dataclass(frozen=True, slots=True)
class EventsOfLabel:
    """How often something came on a day."""

    model: str
    label: str
    events: int
    most: int  # objects of the label in one picture of them


@dataclass(frozen=True, slots=True)
class CameraOfDay:
    """Counts what a camera has brought on a day."""

    camera: str
    images: int
    rejected: int  # by any of the models
    events: int
    labels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # events by model and label


@dataclass(frozen=True, slots=True)
class DayEvents:
    """The events of a day, which are those whose first picture is of it, and its cameras."""

    num_events: int
    num_continued: int  # others, whose pictures of the day continue what began before
    labels: tuple[EventsOfLabel, ...]  # by model, the most frequent first
    cameras: tuple[CameraOfDay, ...]  # by name

    @classmethod
    def read(cls, project: ProjectDatabase, day: Day, model_ids: Sequence[str]) -> DayEvents | None:
        """Return those that are stored, or None if there are neither events nor cameras."""
        counts = count_by_camera(project, day, model_ids)
        found, num_continued = read_events(project, day)
        if not found and not num_continued and not any(counts):
            return None
        events = Counter(one.camera for one in found)
        by_label = defaultdict[tuple[str, str], list[int]](list)
        by_camera = defaultdict[str, dict[str, dict[str, int]]](dict)
        for camera, one in ((event.camera, one) for event in found for one in event.labels):
            by_label[one.model, one.label].append(one.count)
            of_model = by_camera[camera].setdefault(one.model, {})
            of_model[one.label] = of_model.get(one.label, 0) + 1
        cameras = [CameraOfDay(name, *both, events[name], by_camera[name]) for name, both in sorted(counts.items())]
        labels = [EventsOfLabel(*key, len(counts), max(counts)) for key, counts in by_label.items()]
        labels.sort(key=lambda one: (one.model, -one.events, one.label))
        return cls(len(found), num_continued, tuple(labels), tuple(cameras))


@dataclass(frozen=True, slots=True)
class IllCamera:
    """Tells what is wrong with a camera; if pictures show it, the first have some of before and after it began."""

    camera: str
    kind: str
    since: date
    text: str
    last_good: str | None  # locations; None: there is no such picture
    first_bad: str | None

    @classmethod
    def read(cls, reader: IllCameraReader, day: Day, model_ids: Sequence[str]) -> Iterator[IllCamera]:
        """Yield those that were ill on a day, or on the last day before it that they have pictures of."""
        num_shown = 0
        for one in reader.find(day, model_ids).found:
            if one.since > day.date:  # when pictures came is known as of now
                continue
            examples: tuple[str | None, str | None] = None, None
            if one.kind in PICTURES and num_shown < NUM_ILL:
                examples = find_examples(reader.images, one.camera, Day.of(one.since, day.zone), one.kind.judged)
                num_shown += 1
            yield cls(one.camera, one.kind.name, one.since, f"{one.text}; {one.kind.hint}", *examples)


@dataclass(frozen=True, slots=True)
class DayReport(DaySummary):
    """The report of a day: what its models say together, and each of them."""

    models: tuple[ModelReport, ...]  # a second network after its detector
    time_zone: str
    made_at: str  # ISO 8601, UTC
    changes: tuple[Change, ...]
    notices: tuple[Notice, ...]
    changed: ChangedCounts
    some_changed: tuple[ChangedImage, ...]  # replaced since a model predicted them, or missing
    events: DayEvents | None = None  # None: there are none
    ill: tuple[IllCamera, ...] = ()
    infer_app: str = __version__  # that wrote the report

    @property
    def by_name(self) -> dict[str, ModelReport]:
        """Return the models by what they are called on the page."""
        names = model_names([(one.model, one.model_id) for one in self.models])
        return dict(zip(names, self.models, strict=True))

    def to_json(self) -> dict[str, object]:
        found = asdict(self)
        found["notices"] = [notice.to_json() for notice in self.notices]
        for image in found["some_changed"]:
            image["location"] = shown(image["location"])
        for camera in found["ill"]:
            camera |= {name: camera[name] and shown(camera[name]) for name in ("last_good", "first_bad")}
        for model in found["models"]:
            objects = model["objects"] or {"busiest": (), "empty": ()}
            lists = (model["rejected"], model["least"], model["most"], objects["busiest"], objects["empty"])
            for image in (image for images in lists for image in images):
                image["location"] = shown(image["location"])
                if "objects" in image:
                    image["objects"] = [one._asdict() for one in image["objects"]]
                if "detected" in image:
                    image["detected"] = image["detected"]._asdict()
            for run in filter(None, (model["run"], model["speed"])):
                run |= variant_facts(run["variant"])
        return found


def summarize(day: date, of_models: Mapping[str, ModelDay]) -> DaySummary:
    """Sum up what is known of the models of a day."""
    states = {name: one.state for name, one in of_models.items()}
    counts = max((one.facts.counts for one in of_models.values()), key=lambda one: one.eligible - one.predicted)
    notes = told_once({name: state.notes for name, state in states.items()})
    return DaySummary(
        date=day,
        state=max((state.level for state in states.values()), key=[*LEVELS].index),
        notes=tuple(named(note, names) for note, names in notes.items()),
        images=counts.eligible,
        rejected=counts.rejected,
        pending=counts.pending,
    )


def gather(
    project: ProjectDatabase, states: DayReader, day: Day, versions: Sequence[Version], *, wants_facts: bool = False
) -> DayReport:
    """Read the data of a day's report from the database; `wants_facts`: the project records cameras."""
    made_at = datetime.now(UTC).isoformat()  # a run that ends while this reads may not be in it
    ids, has_cameras = [model_id for _, model_id in versions], project.source.camera_of is not None
    changed = count_changed(project.database, project.source, ids, day)
    known = {one: read_model_day(project, states, day, one, changed) for one in versions}
    models = [gather_model(project.database, day, *one, of_model) for one, of_model in known.items()]
    names = model_names(versions)
    of_models = dict(zip(names, known.values(), strict=True))
    changes_of, notices_of = dict[str, tuple[Change, ...]](), dict[str, list[Notice]]()
    worst_first = sorted(zip(names, models, strict=True), key=lambda one: -[*LEVELS].index(one[1].day_state.level))
    for name, model in worst_first:
        one = of_models[name]
        before = gather_before(one.figures, day, model.model, one.facts.images_before)
        changes_of[name] = changes(model.counts, model.run, before, one.drift)
        notices_of[name] = notices_of_day(one.facts)
    return DayReport(
        **summarize(day.date, of_models).summary(),
        models=_with_second_networks(models),
        time_zone=day.zone,
        made_at=made_at,
        changes=tuple(replace(one, what=" · ".join([one.what, *of])) for one, of in told_once(changes_of).items()),
        notices=tuple(_of_models(notice, of) for notice, of in told_once(notices_of).items()),
        changed=changed,
        some_changed=tuple(islice(read_changed(project.database, project.source, ids, day), NUM_CHANGED)),
        events=DayEvents.read(project, day, ids) if wants_facts else None,
        ill=tuple(IllCamera.read(states.ill_cameras, day, ids)) if has_cameras else (),
    )


def _of_models(notice: Notice, names: Sequence[str]) -> Notice:
    """Return a notice as it is told of these models; without names of all, whose names no command needs."""
    takes_model = notice.command and notice.command.split()[1] not in _WITHOUT_MODEL
    options = printed_options(*(names if len(names) == 1 and takes_model else ()))
    return replace(notice, text=named(notice.text, names), command=notice.command and notice.command + options)


def model_names(versions: Sequence[Version]) -> list[str]:
    """Return the names of the versions, with the id where a name has several: a run may have tried one."""
    names = [name for name, _ in versions]
    return [name if names.count(name) == 1 else short_name(name, model_id) for name, model_id in versions]


def _with_second_networks(models: Sequence[ModelReport]) -> tuple[ModelReport, ...]:
    """Return the models in the order of the page: each second network after the versions of its detector."""
    known = {one.model for one in models}
    return tuple(sorted(models, key=lambda one: (one.detector, 1) if one.detector in known else (one.model, 0)))
