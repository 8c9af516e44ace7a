"""Gather what a day's report says of one model: aggregates and a few rows, however many images there are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from infer_app.artifact.model_names import Version
from infer_app.artifact.specs import CropSpec
from infer_app.ask.changes import Before
from infer_app.ask.drift import Drift, Labels, days_before, gather_labels
from infer_app.ask.figures.crop_figures import CropResults, open_figures
from infer_app.ask.figures.figures import Figures, RejectedImage, ScoredImage
from infer_app.ask.figures.object_figures import ImageObjects, ObjectCounts, ObjectResults
from infer_app.ask.run_figures import RunFigures, day_summary_line, run_figures, run_report
from infer_app.base.day import Day
from infer_app.base.run_report import DayCounts, RunReport, Verdict
from infer_app.tables.day.facts import DayFacts, DayReader
from infer_app.tables.day.verdict import judge
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.watched_images import ChangedCounts
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.queries.thresholds import read_thresholds
from infer_app.tables.results.model_versions import min_score_of

NUM_RUNS = 30
NUM_SHOWN = 8  # least confident images, and as many most confident ones; of a detector also the busiest and the empty
NUM_REJECTED = 6  # of each reason
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
class ModelReport:
    """A model in the report of a day, by the version that did the day."""

    model: str
    model_id: str
    output: str  # classification, detection, embedding, regression or raw; empty for a model that never ran
    verdict: str
    day_state: Verdict
    counts: DayCounts
    run: RunFigures | None  # the run of the day with the most images
    speed: RunReport | None  # of the same run
    num_runs: int  # of the day that had images
    reasons: dict[str, int]
    rejected: tuple[RejectedImage, ...]  # some of each reason
    labels: Labels | None
    scores: Scores | None
    least: tuple[ScoredImage, ...]
    most: tuple[ScoredImage, ...]
    objects: ObjectReport | None = None  # of a detector or a second network

    @property
    def detector(self) -> str | None:
        return self.objects.taken.detector if self.objects and self.objects.taken else None

    @property
    def predicted(self) -> tuple[ScoredImage, ...]:
        """Return the images that are shown, those to look at first."""
        searched = (*self.objects.busiest, *self.objects.empty) if self.objects else ()
        return (*searched, *self.most, *self.least)


@dataclass(frozen=True, slots=True)
class ModelDay:
    """A version on a day, with all facts that decide its state."""

    figures: Figures
    facts: DayFacts
    labels: Labels | None

    @property
    def state(self) -> Verdict:
        return judge(self.facts)

    @property
    def drift(self) -> Drift | None:
        return self.labels.drift_7 if self.labels else None


def read_model_day(
    project: ProjectDatabase, states: DayReader, day: Day, version: Version, changed: ChangedCounts
) -> ModelDay:
    """Read what decides the verdict on a day for a version; `changed`: how many images of the day are."""
    figures, facts = open_figures(project, *version), states.read_facts(day, version[1])
    labels = gather_labels(figures, day)
    problems = project.rows.find_problems(day, version[1], facts.counts)
    facts = replace(facts, problems=problems, changed=changed, reasons=figures.count_reasons(day))
    return ModelDay(figures, facts, labels)


def gather_model(database: Database, day: Day, model: str, model_id: str, of_model: ModelDay) -> ModelReport:
    figures, facts = of_model.figures, of_model.facts
    main = max(facts.runs, key=lambda row: row["selected"], default=None)  # the newest of several with as many
    run, speed = (run_figures(main), run_report(main, facts.counts)) if main else (None, None)
    last = run_figures(facts.runs[0]) if facts.runs else None
    reasons = dict(facts.reasons)
    return ModelReport(
        model=model,
        model_id=model_id,
        output=figures.kind,
        verdict=day_summary_line(day.date, facts.counts, speed, last, of_model.state),
        day_state=of_model.state,
        counts=facts.counts,
        run=run,
        speed=speed,
        num_runs=sum(bool(row["selected"]) for row in facts.runs),
        reasons=reasons,
        rejected=tuple(one for reason in reasons for one in figures.some_rejected(day, reason, NUM_REJECTED)),
        labels=of_model.labels,
        scores=gather_scores(figures, day),
        least=tuple(figures.results.extremes(day, NUM_SHOWN, highest=False)),
        most=tuple(figures.results.extremes(day, NUM_SHOWN, highest=True)),
        objects=gather_objects(database, model, figures, day),
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
        tuple(results.busiest(day, NUM_SHOWN)),
        tuple(results.empty(day, NUM_SHOWN)),
        min_score_of(manifest["output"]),
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


def gather_before(figures: Figures, day: Day, model: str, images: Sequence[int]) -> Before:
    week = days_before(day, 7)
    runs = map(run_figures, figures.last_runs(model, day.date, NUM_RUNS))
    return Before(
        images=images,
        predicted=figures.count_predicted(week),
        rejected=sum(figures.count_reasons(week).values()),
        runs=[run for run in runs if run.day < day.date and run.state == "done"],
    )
