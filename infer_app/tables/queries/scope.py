"""Which versions of models a command speaks of: by name, by day, and those in use."""

from datetime import date, datetime, timedelta

from sqlalchemy import ColumnElement, case, func, or_, select

from infer_app.artifact.model_names import Version, plain_name, short_name, versions_named
from infer_app.base.day import Day
from infer_app.base.errors import EXIT_OK, EXIT_TOO_MANY_REJECTED, UsageError
from infer_app.tables.engine.column_types import UtcNow
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.model_versions import RecordedVersion, read_versions
from infer_app.tables.results.schema import runs

TO_BEGIN_AGAIN = timedelta(hours=6)  # from the end of a run that was cut short to the start of one that goes on with it


class Versions:
    """Finds versions, each as (name, id); `wanted` is NAME, NAME@ID, ID or, for all names, None.

    UsageError is raised if no model that is wanted has run.
    """

    def __init__(self, images: ListedImages) -> None:
        self._images = images

    def models_of(self, wanted: str | None = None) -> list[Version]:
        """Return the recorded versions: of each name first the one in use, then those used before it."""
        return _named(self._recorded(wanted))

    def models_in_use(self, wanted: str | None = None) -> list[Version]:
        """Return the versions whose predictions count for `wanted`, in the order in which the view prefers them.

        For a name, or all, they are those in use or formerly in use; for NAME@ID or ID that version. Raises UsageError
        if none of the name was ever in use.
        """
        return _named(self._counting(wanted))

    def models_of_day(self, day: Day, wanted: str | None = None) -> list[Version]:
        """Return for each name the version that the day was done with: the one in use if it ran on the day.

        A version that has tried only some of the day's images before it was put in use did not do the day. If none of
        a name ran on the day, it is the one in use. `wanted` is as for `models_in_use`.
        """
        started = select(runs.c.model_id, func.max(runs.c.started_at))
        with self._images.database.read() as connection:
            started = started.where(runs.c.day == day.date)
            ran = {row[0]: row[1] for row in connection.execute(started.group_by(runs.c.model_id))}
        by_name: dict[str, list[RecordedVersion]] = {}
        for version in self._counting(wanted):
            by_name.setdefault(version.name, []).append(version)
        chosen = []
        for versions in by_name.values():
            on_day = [one for one in versions if one.model_id in ran]
            if len(on_day) > 1:
                done = (one for one in on_day if self._did_day(day, one, ran[one.model_id]))
                on_day = [next(done, on_day[0])]
            chosen.append((on_day or versions)[0])
        return _named(chosen)

    def versions_run(self, day: Day) -> list[Version]:
        """Return the versions that ran on the day, of each name first the one that ran last."""
        found = select(runs.c.model, runs.c.model_id).where(runs.c.day == day.date)
        newest = found.group_by(runs.c.model, runs.c.model_id).order_by(
            runs.c.model, func.max(runs.c.started_at).desc()
        )
        with self._images.database.read() as connection:
            rows = connection.execute(newest)
            return [(row[0], row[1]) for row in rows]

    def days_changed(self, limit: int) -> dict[date, datetime | None]:
        """Return the newest days that were run, each with the end of its last run that had images or failed."""
        ended = func.max(case((_did_something(), func.coalesce(runs.c.ended_at, runs.c.heartbeat_at))))
        newest = select(runs.c.day, ended).group_by(runs.c.day).order_by(runs.c.day.desc()).limit(limit)
        with self._images.database.read() as connection:
            rows = connection.execute(newest)
            return {row[0]: row[1] for row in rows}

    def days_of_last_run(self, wanted: str | None = None) -> dict[date, datetime]:
        """Return the days of the last run that had images or failed, in order, each with its end.

        A run is a process, with those before it that were cut short, since it goes on with what they left. `wanted` is
        as for `models_of`.
        """
        ended = func.coalesce(runs.c.ended_at, runs.c.heartbeat_at)
        known = [_did_something(), runs.c.started_at <= UtcNow()]
        if wanted is not None:
            known.append(runs.c.model_id.in_([model_id for _, model_id in self.models_of(wanted)]))
        with self._images.database.read() as connection:
            newest = select(runs.c.process).where(*known).order_by(runs.c.started_at.desc()).limit(1)
            its, found = set(connection.scalars(newest)), set[str]()
            was_cut_short = or_(runs.c.state != "done", runs.c.exit_code.not_in((EXIT_OK, EXIT_TOO_MANY_REJECTED)))
            while its - found:
                found |= its
                first = select(func.min(runs.c.started_at)).where(*known, runs.c.process.in_(found))
                began: datetime = connection.scalars(first).one()
                before = ended.between(began - TO_BEGIN_AGAIN, began)
                its = set(connection.scalars(select(runs.c.process).where(*known, before, was_cut_short)))
            days = select(runs.c.day, func.max(ended)).where(*known, runs.c.process.in_(found))
            return {row[0]: row[1] for row in connection.execute(days.group_by(runs.c.day).order_by(runs.c.day))}

    def versions_of(self, model_id: str) -> list[str]:
        """Return a version with the others of its name that were in use: what those have done is not pending."""
        recorded = self._recorded(None)
        names = {one.name for one in recorded if one.model_id == model_id}
        others = {one.model_id for one in recorded if one.name in names and one.was_in_use}
        return sorted({model_id, *others})

    def replaced_by(self, model_id: str) -> tuple[str, str]:
        """Return a version, and that of its name which is in use in its place; as NAME@ID, the latter if there is one.

        A version that is no longer recorded is called by its id.
        """
        recorded = self._recorded(None)
        name = next((one.name for one in recorded if one.model_id == model_id), "")
        used = next((one.model_id for one in recorded if one.name == name and one.in_use_since), "")
        return short_name(name, model_id) if name else model_id, short_name(name, used) if used else f"no {name}"

    def ids_in_use(self) -> set[str]:
        return {one.model_id for one in self._recorded(None) if one.in_use_since}

    def _did_day(self, day: Day, version: RecordedVersion, started_at: datetime) -> bool:
        was_in_use = version.in_use_since is not None and started_at >= version.in_use_since
        return was_in_use or not self._images.count_pending(day, version.model_id)

    def _counting(self, wanted: str | None) -> list[RecordedVersion]:
        found = self._recorded(wanted)
        used = [one for one in found if one.was_in_use]
        if used or wanted is None or wanted != found[0].name:
            return used or (found if wanted is not None else [])
        tried = short_name(found[0].name, found[0].model_id)
        raise UsageError(
            f"no version of {wanted} is in use yet, {tried} was only tried",
            f"name the version, {tried}, or put it in use: `infer model use {tried}`",
        )

    def _recorded(self, wanted: str | None) -> list[RecordedVersion]:
        with self._images.database.read() as connection:
            known = read_versions(connection)
        if wanted is None:
            return known
        named = set(versions_named(wanted, _named(known)))
        if named:
            return [one for one in known if (one.name, one.model_id) in named]
        name = plain_name(wanted)
        ids = ", ".join(short_name(one.name, one.model_id) for one in known if one.name == name)
        names = ", ".join(sorted({one.name for one in known}))
        hint = f"those that have: {ids or names}" if known else "`infer run` first"
        raise UsageError(f"no model {wanted!r} has run on this database", hint)


def _named(versions: list[RecordedVersion]) -> list[Version]:
    return [(one.name, one.model_id) for one in versions]


def _did_something() -> ColumnElement[bool]:
    """Return the condition that a run had images or failed."""
    return or_(runs.c.selected > 0, runs.c.state != "done")
