"""Every question that brings images and results together."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from infer_app.ask.compare.compare_versions import compare_labels
from infer_app.ask.compare.paired_answers import count_overlap, paired_images
from infer_app.ask.figures.figures import Figures
from infer_app.ask.figures.object_figures import ObjectResults
from infer_app.tables.day.arrivals import find_gap
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.queries.thresholds import count_shown
from infer_app.tables.rows.results import (
    Part,
    Selection,
    read,
    read_preferred,
    read_rejected,
    read_rejections,
    read_together,
)
from tests.conftest import DAY


def questions(tables: ProjectDatabase, model_id: str, other: str, detector: str) -> dict[str, Callable[[], Any]]:
    """Functions that ask about DAY, by two models of labels and one of objects, which is named `animals`."""
    asked, source = tables, tables.source
    both = tables.database, source
    figures, results = Figures(tables, model_id), ObjectResults(tables, "animals", detector)
    objects, pair = Figures(tables, detector, results), (model_id, other)
    week = replace(DAY, start=DAY.before(6).start)
    return {
        "new": lambda: list(source.select_new(DAY, model_id)),
        "new for either": lambda: [new for page in source.select_pages(DAY, model_id, other) for new in page],
        "counts of days": lambda: [asked.count_day(DAY.before(n), model_id) for n in range(6)],
        "count_new": lambda: [asked.count_new(DAY, model_id), asked.count_new(DAY, model_id, other)],
        "count_pending": lambda: asked.count_pending(DAY, model_id),
        "pending between": lambda: asked.pending.find_pending_between(DAY, model_id),
        "older": lambda: asked.pending.find_older_pending(DAY, model_id),
        "older selected": lambda: asked.pending.find_older_selected(DAY, model_id, [other]),
        "pending": lambda: list(asked.pending.read_pending(DAY, model_id)),
        "pending of days": lambda: list(asked.pending.read_pending(week, model_id)),
        "rejected": lambda: list(asked.pending.read_rejected(DAY, model_id)),
        "gap": lambda: find_gap(source, DAY.before(-9)),
        "problems": lambda: sorted(asked.rows.find_problems(DAY, model_id)),
        "predictions": lambda: [(one.image_id, one.model_id, one.location) for one in read(asked, DAY, Selection())],
        "rejections": lambda: [(one.image_id, one.location) for one in read_rejections(asked, DAY, model_id)],
        "other runs": lambda: asked.count_of_other_runs(DAY, model_id, "this run"),
        "images": lambda: asked.count(week),
        "labels": lambda: list(figures.count_labels(week).items()),
        "predicted": lambda: figures.count_predicted(week),
        "reasons": lambda: list(figures.count_reasons(week).items()),
        "range": lambda: figures.score_range(DAY),
        "no range": lambda: figures.score_range(DAY.before(-1)),
        "scores": lambda: figures.count_scores(DAY, [0, 0.05, 0.1, 1]),
        "extremes": lambda: [figures.results.extremes(DAY, 6, highest) for highest in (True, False)],
        "some rejected": lambda: figures.some_rejected(DAY, "corrupt", 2),
        "objects": lambda: results.count(DAY),
        "labels of objects": lambda: list(objects.count_labels(DAY).items()),
        "scores of objects": lambda: [objects.score_range(DAY), objects.count_scores(DAY, [0, 0.75, 0.85, 1])],
        "busiest": lambda: [results.busiest(DAY, 8), results.empty(DAY, 8)],
        "extreme objects": lambda: [objects.results.extremes(DAY, 8, highest) for highest in (True, False)],
        "detections": lambda: list(map(_undated, read_preferred(tables, week, [detector], Part.OBJECTS))),
        "outputs": lambda: [
            (one.image_id, one.label, one.output.details)
            for one in read_preferred(tables, week, [model_id, other], Part.OUTPUT)
        ],
        "together": lambda: [
            list(map(_undated, both)) for both in read_together(tables, week, [model_id, other], Part.OBJECTS)
        ],
        "rejected images": lambda: [replace(_undated(one), run_id="") for one in read_rejected(tables, week, model_id)],
        "has predicted": lambda: [Figures(tables, one).has_predicted(week) for one in (model_id, "none")],
        "shown": lambda: count_shown(*both, week, "animals"),
        "overlap": lambda: count_overlap(tables, DAY, pair),
        "disagreement": lambda: compare_labels(
            paired_images(read_together(tables, DAY, pair, Part.OUTPUT)), "images", 5
        ),
        "by id": lambda: source.find_by_id("107"),
        "by day": lambda: source.find_by_id("107", DAY.before(1)),
        "similar": lambda: source.find_similar("138"),
        "nearest": lambda: source.nearest_date(DAY.before(-3)),
    }


def _undated(image):
    """Two databases hold when they were written."""
    return replace(image, created_at=None)
