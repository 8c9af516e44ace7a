"""The days that the next run covers, and the commands that predict images: asked by `explain`, `list`, `retry`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

from infer_app.artifact.model_names import Version, versions_named
from infer_app.base.day import Day
from infer_app.base.errors import InferError, ModelError
from infer_app.base.printing import printed_options
from infer_app.base.settings.load import LoadedSettings
from infer_app.tables.choose_models import choose_artifacts, with_detectors
from infer_app.tables.day.notices import backfill_command
from infer_app.tables.project_database import ProjectDatabase, read_in_use
from infer_app.tables.queries.late_days import find_late_days


@dataclass(frozen=True, slots=True)
class NextRun:
    """The models and days of the next `infer run`, or why no run is possible."""

    models: tuple[Version, ...]
    error: InferError | None  # why no run is possible
    today: date
    lookback: int
    options: str = ""  # of the command that starts it
    late: frozenset[date] = frozenset()  # earlier days that it covers, since images were registered late
    is_of_version: bool = False  # which is tried: it covers no late days
    time_column: str = ""  # what holds the images' times, for messages
    backlog: tuple[date, date] | None = None  # days that no run covers any more: the command for one of them does all
    watches: Callable[[str], bool] = lambda _: (
        False
    )  # whether it looks at the file at a location, however old its day is

    @classmethod
    def of(cls, loaded: LoadedSettings, model: str | None = None) -> NextRun:
        """Return what the next run covers; `model` is what it gets by --model, as `loaded` has it already."""
        today, lookback, column = loaded.day("today").date, loaded.run.lookback, loaded.source.time_column
        try:
            failed: dict[str, ModelError] = {}  # as in a run, which leaves these models out
            found = with_detectors(loaded, choose_artifacts(loaded, failures=failed), failed)
        except InferError as error:
            return cls((), error, today, lookback, time_column=column)
        versions = tuple((artifact.manifest.name, artifact.manifest.model_id) for artifact in found)
        options = printed_options(*([model] if model else []))
        is_of_version = model is not None and model not in dict(versions)
        if is_of_version:  # one that is tried, unless it is in use
            is_of_version = not {model_id for _, model_id in versions}.issubset(read_in_use(loaded).values())
        next_run = cls(versions, None, today, lookback, options, is_of_version=is_of_version, time_column=column)
        return replace(next_run, watches=loaded.watches)

    def with_late(self, project: ProjectDatabase, zone: str) -> NextRun:
        """Add the late days, of images that were registered after their look-back."""
        model_ids = [] if self.is_of_version else [model_id for _, model_id in self.models]
        first = Day.of(self.today, zone).before(1 + self.lookback)
        late = find_late_days(project.database, project.source, first, model_ids) if model_ids else []
        return replace(self, late=frozenset(day.date for day in late))

    def named(self, model: str | None) -> Sequence[Version]:
        """Return the versions that `model` names, all without one; of a second network not its detector."""
        return versions_named(model, self.models) if model else self.models

    def covers(self, day: date) -> bool:
        """Return whether `infer run` covers the day when it is started today."""
        return self.today - timedelta(days=1 + self.lookback) <= day < self.today or day in self.late

    def era(self, day: date) -> str:
        """Return which of the days with one cause and one command it belongs to."""
        if day >= self.today:
            return "today" if day == self.today else "future"
        return "covered" if self.covers(day) else "older"

    def command(self, first: date, last: date) -> str:
        """Return the shortest command that predicts the images of a range of days."""
        if self.covers(first) and self.covers(last):
            return f"infer run{self.options}"
        if first == last and first >= self.today:
            return f"infer run --date {first} --lookback 0{self.options}"
        return backfill_command(first, last, self.options)

    def commands(self, days: Iterable[date]) -> list[str]:
        """Return the commands that predict the images of these days."""
        covered = {day: self.covers(day) for day in days}
        others = [day for day in covered if not covered[day]]
        return ([self.command(min(others), max(others))] if others else []) + (
            [f"infer run{self.options}"] if any(covered.values()) else []
        )


def retry_command(image_ids: Sequence[str]) -> str:
    quoted = " --image ".join(map(shlex.quote, image_ids))
    return f"infer retry --image {quoted}{printed_options()}"
