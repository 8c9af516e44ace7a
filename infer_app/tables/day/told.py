"""Reads and stores what somebody should look at in a project: the same for each command that tells it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, func, select

from infer_app.base.day import Day
from infer_app.tables.day.facts import NOTHING_KNOWN, OlderPending, read_project
from infer_app.tables.day.notices import OF_PROJECT, notices_of_project
from infer_app.tables.listing.stored_notices import Notice, hold, read_current
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.results.model_versions import all_in_use, read_versions
from infer_app.tables.results.schema import runs


def current_notices(
    images: ListedImages, first: Day, last: Day, older: OlderPending = NOTHING_KNOWN, *, stores: bool = False
) -> list[Notice]:
    """Return what happened lately, and what holds once a run from its look-back's first day to its last one has ended.

    With `stores`, what holds is stored, unless a later day was run. `older` is as for `read_project`.
    """
    in_use = images.database.ask(lambda connection: all_in_use(read_versions(connection)))
    holding = notices_of_project(read_project(images, first, last, sorted(in_use.items()), older))
    if stores:
        images.database.transact(lambda connection: _store(connection, last, holding))
    stored = images.database.ask(read_current)
    since = {(one.kind, one.subject): one.since for one in stored}
    is_of_all = images.source.camera is None
    others = [one for one in stored if one.kind not in OF_PROJECT and is_of_all]
    return others + [replace(one, since=since.get((one.kind, one.subject))) for one in holding]


def _store(connection: Connection, last: Day, holding: Sequence[Notice]) -> None:
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    is_possible = runs.c.day <= yesterday + timedelta(days=2)  # later by a clock that was ahead
    newest = connection.scalar(select(func.max(runs.c.day)).where(is_possible))
    if newest is None or last.date >= min(newest, yesterday):
        hold(connection, holding, OF_PROJECT)
