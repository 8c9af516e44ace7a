"""The data of a report, gathered from the database: aggregates and a few rows, independent of the number of images."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from itertools import islice

from infer_app import __version__
from infer_app.artifact.model_names import Version
from infer_app.artifact.specs import CropSpec
from infer_app.ask.advice import Before, Change, Situation, Step, changes, steps
from infer_app.ask.drift import Labels, days_before, gather_labels
from infer_app.ask.figures.crop_figures import CropResults, open_figures
from infer_app.ask.figures.figures import Figures, RejectedImage, ScoredImage
from infer_app.ask.figures.object_figures import ImageObjects, ObjectCounts, ObjectResults
from infer_app.ask.run_figures import RunFigures, Timeline, day_summary_line, run_figures, run_report
from infer_app.base.day import Day
from infer_app.base.locations import shown
from infer_app.base.model_variants import variant_facts
from infer_app.base.run_report import DayCounts, DayState, RunReport
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.watched_images import UNCHANGED, ChangedCounts, ChangedImage, count_changed, read_changed
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.queries.arrivals import ArrivalGap, find_gap
from infer_app.tables.queries.day_state import DayStates, judge_day
from infer_app.tables.queries.thresholds import read_thresholds

NUM_RUNS = 30
NUM_SHOWN = 16  # least confident images, and as many most confident ones
NUM_SHOWN_WITH_BOXES = 8  # likewise of a detector, whose thumbnails are larger; and of the busiest and the empty ones
NUM_REJECTED = 6  # of each reason
NUM_CHANGED = 50  # replaced and missing images
NUM_BUCKETS = 20


@dataclass(frozen=True, slots=True)
class Scores:
    """A histogram of scores."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]  # counts[i] scores lie in [edges[i], edges[i + 1])


@dataclass(frozen=True, slots=True)
class TakenObjects:
    """Which objects of its detector a second network takes, and which of them count."""

    detector: str  # its name
    min_score: float
    labels: tuple[str, ...]  # empty: all
    thresholds: dict[str, float]  # of the detector, by label; objects below them don't count
    num_unlabelled: int | None  # objects whose best label is below its threshold; None for a network without labels


@dataclass(frozen=True, slots=True)
class ObjectReport:
    """A day's objects. The report's labels and scores count objects too, its least and most are by the best object.

    Of a second network the least and most are objects, and its busiest and empty images are not listed.
    """

    counts: ObjectCounts
    counts_7: ObjectCounts  # of the seven days before, together
    thresholds: dict[str, float]  # by label; empty: all labels without one of their own
    busiest: tuple[ImageObjects, ...]  # those with the most objects first
    empty: tuple[ImageObjects, ...]  # some images without an object, first those with the best below its threshold
    stored_from: float  # the score from which the model stores objects, or takes those of its detector
    taken: TakenObjects | None = None  # of a second network


@dataclass(frozen=True, slots=True)
class DayReport:
    """The report of one day and model. Keys of its JSON may be added, but are never renamed."""

    date: date
    time_zone: str
    model: str
    model_id: str
    output: str  # classification, detection, embedding, regression or raw; empty for a model that never ran
    made_at: str  # ISO 8601, UTC
    state: str  # good, attention or failed: the level of `day_state`, or attention if the labels have changed
    verdict: str
    counts: DayCounts
    problems: tuple[str, ...]  # inconsistencies in the day's counts
    older_pending: int
    changes: tuple[Change, ...]
    steps: tuple[Step, ...]
    run: RunFigures | None  # the run of the day with the most images
    speed: RunReport | None  # of the same run
    reasons: dict[str, int]
    rejected: tuple[RejectedImage, ...]  # some of each reason
    labels: Labels | None
    scores: Scores | None
    least: tuple[ScoredImage, ...]
    most: tuple[ScoredImage, ...]
    runs: tuple[RunFigures, ...]  # up to the day, oldest first
    infer_app: str  # version that wrote the report
    day_state: DayState
    num_runs: int  # of the day that had images
    timeline: Timeline | None = None
    gap: ArrivalGap | None = None  # if images have stopped coming
    objects: ObjectReport | None = None  # of a detector
    changed: ChangedCounts = UNCHANGED
    some_changed: tuple[ChangedImage, ...] = ()  # replaced since the model predicted them, or missing

    @property
    def with_boxes(self) -> tuple[ImageObjects, ...]:
        """Return the images that are shown with their boxes."""
        ends = tuple(image for image in (*self.least, *self.most) if isinstance(image, ImageObjects))
        return (*self.objects.busiest, *self.objects.empty, *ends) if self.objects else ()

    def to_json(self) -> dict[str, object]:
        found = asdict(self)
        objects = found["objects"] or {"busiest": (), "empty": ()}
        pictured = (*found["rejected"], *found["least"], *found["most"], *objects["busiest"], *objects["empty"])
        pictured += tuple(found["some_changed"])
        for image in pictured:
            image["location"] = shown(image["location"])
            if "objects" in image:
                image["objects"] = [one._asdict() for one in image["objects"]]
            if "detected" in image:
                image["detected"] = image["detected"]._asdict()
        for run in filter(None, (found["run"], found["speed"], *found["runs"])):
            run |= variant_facts(run["variant"])
        return found


def gather(
    project: ProjectDatabase, states: DayStates, day: Day, version: Version, timeline: Timeline | None = None
) -> DayReport:
    """Read the data of one day's report from the database."""
    model, model_id = version
    figures = open_figures(project, model, model_id)
    facts = states.read_facts(day, model, model_id)
    counts, todays = facts.counts, facts.runs
    main = max(todays, key=lambda row: row["selected"], default=None)  # the newest of several with as many
    run, speed = (run_figures(main), run_report(main, counts)) if main else (None, None)
    last = run_figures(todays[0]) if todays else None
    runs = [run_figures(row) for row in figures.last_runs(model, day.date, NUM_RUNS)]
    labels = gather_labels(figures, day)
    moved = labels.drift_7 if labels else None
    objects = gather_objects(project.database, model, figures, day)
    num_shown = NUM_SHOWN_WITH_BOXES if objects and not objects.taken else NUM_SHOWN
    gap = None if counts.eligible else find_gap(project.source, day)
    problems = project.rows.find_problems(day, model_id, counts)
    facts = replace(facts, problems=problems, gap=str(gap or ""))
    day_state = judge_day(facts)
    changed = count_changed(project.database, project.source, [model_id], day)
    situation = Situation(
        date=day.date,
        model=model,
        facts=facts,
        day_state=day_state,
        reasons=figures.count_reasons(day),
        labels_moved=moved is not None and moved.is_notable,
        changed=changed,
    )
    before = gather_before(figures, day, runs, states.count_images_before(day))
    some_changed = read_changed(project.database, project.source, [model_id], day)
    return DayReport(
        date=day.date,
        time_zone=day.zone,
        model=model,
        model_id=model_id,
        output=figures.kind,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        state="attention" if situation.labels_moved and day_state.level == "good" else day_state.level,
        verdict=day_summary_line(day.date, counts, speed, last, day_state),
        counts=counts,
        problems=tuple(problems),
        older_pending=facts.older.num_images if facts.older else 0,
        changes=changes(counts, run, before, moved),
        steps=steps(situation),
        run=run,
        speed=speed,
        reasons=situation.reasons,
        rejected=tuple(one for reason in situation.reasons for one in figures.some_rejected(day, reason, NUM_REJECTED)),
        labels=labels,
        scores=gather_scores(figures, day),
        least=tuple(figures.results.extremes(day, num_shown, highest=False)),
        most=tuple(figures.results.extremes(day, num_shown, highest=True)),
        runs=tuple(reversed(runs)),
        infer_app=__version__,
        day_state=day_state,
        num_runs=sum(bool(row["selected"]) for row in todays),
        timeline=timeline,
        gap=gap,
        objects=objects,
        changed=changed,
        some_changed=tuple(islice(some_changed, NUM_CHANGED)),
    )


def gather_objects(database: Database, model: str, figures: Figures, day: Day) -> ObjectReport | None:
    """Return the objects of a detector or of a second network; None for any other model."""
    results = figures.results
    if not isinstance(results, ObjectResults | CropResults):
        return None
    counts, before = (results.count(days) for days in (day, days_before(day, 7)))
    thresholds, manifest = read_thresholds(database, model), figures.manifest()
    if isinstance(results, CropResults):
        of_detector = read_thresholds(database, results.detector)
        taken = gather_taken(figures, day, CropSpec.from_json(manifest["crop"]), of_detector, counts.num_objects)
        return ObjectReport(counts, before, thresholds, (), (), taken.min_score, taken)
    return ObjectReport(
        counts,
        before,
        thresholds,
        tuple(results.busiest(day, NUM_SHOWN_WITH_BOXES)),
        tuple(results.empty(day, NUM_SHOWN_WITH_BOXES)),
        float((manifest["output"].get("detection") or {}).get("min_score", 0.0)),
    )


def gather_taken(
    figures: Figures, day: Day, crop: CropSpec, of_detector: dict[str, float], num_objects: int
) -> TakenObjects:
    labelled = sum(figures.count_labels(day).values()) if figures.kind == "classification" else None
    num_unlabelled = None if labelled is None else num_objects - labelled
    return TakenObjects(crop.of, crop.min_score, crop.labels, of_detector, num_unlabelled)


def gather_scores(figures: Figures, day: Day) -> Scores | None:
    """Return the histogram of scores, from 0 to 1 if all lie there, otherwise from the lowest to the highest."""
    found = figures.score_range(day)
    if found is None:
        return None
    low, high = (0.0, 1.0) if found[0] >= 0 and found[1] <= 1 else found
    width = (high - low) / NUM_BUCKETS or 1.0
    edges = tuple(low + n * width for n in range(NUM_BUCKETS + 1))
    return Scores(edges, tuple(figures.count_scores(day, edges)))


def gather_before(figures: Figures, day: Day, runs: Sequence[RunFigures], images: Sequence[int]) -> Before:
    week = days_before(day, 7)
    return Before(
        images=images,
        predicted=figures.count_predicted(week),
        rejected=sum(figures.count_reasons(week).values()),
        runs=[run for run in runs if run.day < day.date and run.state == "done"],
    )
