"""The last days of each model with what became of their images, as `infer status` lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from infer_app.answers.next_run import NextRun
from infer_app.database.listing.watched_images import ChangedCounts, count_changed
from infer_app.database.project_database import ProjectDatabase
from infer_app.database.queries.arrivals import find_gap
from infer_app.database.queries.day_state import DayFacts, DayStates, judge_day
from infer_app.day import Day
from infer_app.model_variants import variant_facts
from infer_app.run_report import DayState
from infer_app.telemetry.summary_line import describe_missing, describe_replaced

NO_MODEL = ("(no model has run)", "")


@dataclass(frozen=True, slots=True)
class DayRow:
    """A day and a model, by the version that did the day."""

    day: Day
    model: str
    model_id: str
    is_in_use: bool
    facts: DayFacts
    is_forgotten: bool = False  # by `infer forget --before`
    num_again: int = 0  # images that another version has done, and the next run predicts with the one in use

    @property
    def state(self) -> DayState:
        return judge_day(self.facts)

    @property
    def begun_in(self) -> Mapping[str, str | None]:
        """Return what is told of the variant that the day was begun in, each None before any prediction."""
        begun = next((run for run in reversed(self.facts.runs) if run["predicted"]), None)
        return variant_facts(begun["variant"]) if begun else dict.fromkeys(variant_facts(""))

    def without_older(self) -> DayRow:
        """Return it without the pending images of earlier days."""
        return replace(self, facts=replace(self.facts, older=None))


@dataclass(frozen=True, slots=True)
class LastDays:
    """The last days, the newest first, and what else needs attention."""

    rows: Sequence[DayRow]
    changed: ChangedCounts
    attention: list[str]


def read_last_days(
    project: ProjectDatabase, today: Day, num_days: int, max_rejected: str, next_run: NextRun
) -> LastDays:
    """Read the days up to today that have images or runs."""
    queries = project.day_queries
    in_use, used_next = queries.ids_in_use(), dict(next_run.models)
    states = DayStates(queries, project.run_store, max_rejected)
    rows = []
    for day in (today.before(n) for n in reversed(range(num_days))):
        for model, model_id in reversed(queries.models_of_day(day) or [NO_MODEL]):
            planned = used_next.get(model, model_id)
            is_done_again = planned != model_id and next_run.era(day.date) != "older"
            again = queries.count_new(day, planned) if is_done_again else 0
            facts, is_forgotten = states.read_facts(day, model, model_id), project.source.has_forgotten(day.start)
            row = DayRow(day, model, model_id, model_id in in_use, facts, is_forgotten, again)
            if row.facts.counts.eligible or row.facts.last_run:
                rows.append(row)
    gap = find_gap(project.source, today.before(1))
    changed = count_changed(project.database, project.source, sorted(in_use))
    attention = [str(gap)] if gap else []
    attention += [describe_replaced(changed.replaced)] if changed.replaced else []
    attention += [describe_missing(changed.missing)] if changed.missing else []
    return LastDays(rows[::-1], changed, attention)
