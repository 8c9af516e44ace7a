"""Results of other pictures under the ids of a day: a run replaces them only if their pictures are no longer listed."""

import logging
from collections.abc import Collection, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError

from infer_app.base.day import Day
from infer_app.base.domain import ROW
from infer_app.base.errors import DatabaseUnavailable, UnusableIds, UsageError
from infer_app.base.locations import as_location, is_relative, stored_location
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.engine.connect import Database, backend_of
from infer_app.tables.listing.recorded_sources import SourceIdentity, number_among_others, read_bases, read_sources
from infer_app.tables.listing.source import FIRST_DAY, LAST_DAY, PAGE_SIZE, Source
from infer_app.tables.listing.source_checks import check_source, not_as_text
from infer_app.tables.results.conditions import KeyedJoin, ListedPicture, join_results
from infer_app.tables.results.schema import predictions, rejections, runs

log = logging.getLogger(__name__)

AT_ONCE = 100_000  # results in memory
FEW = 500  # ids in one statement
NEEDED = "name a column, or write a query, that gives every image of all days an id of its own, such as its path"
APART = "give each source a database of results of its own ([database] url), or ids that no other source has"


@dataclass(frozen=True, slots=True)
class FormerResult:
    """A result of another picture than the one that the source lists under its id now."""

    image_id: str
    location: str  # as it is stored
    listed: str  # the location of the picture that has the id now
    source_id: int | None  # of the run that wrote it


def check_ids(results: Database, source: Source, day: Day, model_ids: Sequence[str]) -> None:
    """Raise UnusableIds if an id of the day stands for another picture too, which has a result and is still listed.

    That picture may be of another day, or of another source that runs have used with this database. Results whose
    pictures are no longer listed are only logged: an id that was used again.
    """
    _check_unqualified(results, source, day, model_ids)
    num_former, first = 0, None
    with closing(_read_former(results, source, day, model_ids)) as found:
        while some := list(islice(found, AT_ONCE)):
            _check(results, source, some)
            num_former, first = num_former + len(some), first or some[0]
    if first:
        log.warning(
            "%d results of %s are replaced, whose images are no longer listed under their ids, such as %s: %r, now %r",
            *(num_former, day, first.image_id, first.location, stored_location(first.listed)),
        )


def check_other_sources(results: Database, source: Source, names: Collection[str]) -> None:
    """Raise UnusableIds as `check_ids` does, for the images of all days, if another source has a result under an id.

    `names` are the models of this project: others may have results under the same ids.
    """
    own, days = SourceIdentity.of(source, results), replace(FIRST_DAY, end=LAST_DAY.end)
    with results.read() as connection:
        others = _others(own, source.base, read_sources(connection), read_bases(connection))
        theirs = select(runs.c.model_id).distinct().where(runs.c.source_id.in_(others), runs.c.model.in_(names))
        model_ids = connection.scalars(theirs).all() if others else ()
    if model_ids:
        _check_unqualified(results, source, days, model_ids)
        with closing(_read_former(results, source, days, model_ids)) as found:
            of_others = (one for one in found if one.source_id in others)
            while some := list(islice(of_others, AT_ONCE)):
                _check(results, source, some)


def check_ids_again(results: Database, source: Source, day: Day, model_ids: Sequence[str]) -> None:
    """Do what `check_ids` does for a day that is held now, if another source has a run: it may have held the day."""
    source.own_number = number_among_others(results, SourceIdentity.of(source, results))
    if source.own_number is not None:
        check_ids(results, source, day, model_ids)


def _check_unqualified(results: Database, source: Source, day: Day, model_ids: Sequence[str]) -> None:
    """Raise UnusableIds if another source has a result under an id and a location that are of the day, but not unique.

    That is a relative location below another base, or that of a row, whose bytes a column holds. A source whose own
    base has changed is taken for one that was moved.
    """
    if source.base is None and source.settings.bytes is None:
        return
    own = SourceIdentity.of(source, results)
    with results.read() as connection:
        bases, known = read_bases(connection), read_sources(connection)
        others = _others(own, source.base, known, bases)
        if not others:
            return
        backend_of(connection).plan_for_pages(connection)
        for images in source.parts(connection, day):
            for table, model_id in ((table, one) for table in (predictions, rejections) for one in model_ids):
                joined = join_results(images, table, ListedPicture.of(images), model_id)
                with_run = KeyedJoin(joined, runs, runs.c.id == table.c.run_id)
                columns = (images.c[3], table.c.location, runs.c.source_id)
                its = select(*columns).select_from(with_run).where(runs.c.source_id.in_(others))
                with connection.execution_options(yield_per=PAGE_SIZE).execute(its) as rows:
                    clash = next((row for row in rows if _is_elsewhere(row[1], source.base, bases[row[2]])), None)
                if clash:
                    here, there = (f" below {base}" if base else "" for base in (source.base, bases[clash[2]]))
                    raise UnusableIds(
                        f"[source] id: {clash[0]} is {clash[1]!r}{here} in {own}, but the database has"
                        f" its result for {clash[1]!r}{there} of another source, {known[clash[2]]}",
                        APART,
                    )


def _others(
    own: SourceIdentity, base: str | None, known: dict[int, SourceIdentity], bases: dict[int, str | None]
) -> list[int]:
    """Return the numbers of other sources, without queries that this one may have been before an edit."""
    others = ((number, one) for number, one in known.items() if one != own)
    return [number for number, one in others if not own.may_have_been(one) or bases[number] not in (None, base)]


def _is_elsewhere(location: str | None, here: str | None, there: str | None) -> bool:
    """Return whether a location is that of another picture for a source with another base."""
    if location is None or not is_relative(location):
        return False
    return location.startswith(ROW) or there not in (None, here)


def _read_former(results: Database, source: Source, day: Day, model_ids: Sequence[str]) -> Generator[FormerResult]:
    if source.picture.location is None:
        return
    with results.read() as connection:
        backend_of(connection).plan_for_pages(connection)
        for images in source.parts(connection, day):
            for table, model_id in ((table, one) for table in (predictions, rejections) for one in model_ids):
                joined = join_results(images, table, ListedPicture(images.c[3]), model_id)
                with_run = KeyedJoin(joined, runs, runs.c.id == table.c.run_id, True)
                columns = (images.c[3], table.c.location, images.c[1], runs.c.source_id)
                other = select(*columns).select_from(with_run).where(~ListedPicture.of(images).owns(table))
                with connection.execution_options(yield_per=PAGE_SIZE).execute(other) as rows:
                    for row in rows:
                        yield FormerResult(row[0], row[1], as_location(row[2]), row[3])


def _check(results: Database, source: Source, former: Sequence[FormerResult]) -> None:
    own = SourceIdentity.of(source, results)
    with results.read() as connection:
        known = read_sources(connection)
    for identity in dict.fromkeys(known.get(one.source_id or 0, own) for one in former):
        its = [one for one in former if known.get(one.source_id or 0, own) == identity]
        if clash := _find_listed(results, source, identity, its) if identity != own else _among(source, its):
            raise _refusal(own, identity, clash)


def _find_listed(
    results: Database, source: Source, identity: SourceIdentity, former: Sequence[FormerResult]
) -> FormerResult | None:
    """Return a result whose picture another source still lists; any if that one can't be asked."""
    here = {None: results, source.database.shown_url: source.database}.get(identity.database)
    if here is None or identity.location_column is None:
        return former[0]
    columns = {"id": identity.id_column, "location": identity.location_column, "time": identity.id_column}
    other = Source(here, SourceSettings(**columns, **{"query" if identity.is_query else "table": identity.relation}))
    try:
        if _is_there(other):
            return _among(other, former)
    except (DBAPIError, DatabaseUnavailable):
        return former[0]
    return None if source.is_ours else _among(source, former)  # which may be that query, edited


def _is_there(listing: Source) -> bool:
    """Return whether a table or query, with its columns, is still there."""
    try:
        check_source(listing)
    except UsageError:
        return False
    return True


def _among(listing: Source, former: Sequence[FormerResult]) -> FormerResult | None:
    """Return one of the results whose picture the source lists, on any day."""
    by_id: dict[str, list[FormerResult]] = {}
    for one in former:
        by_id.setdefault(one.image_id, []).append(one)
        if not listing.is_ours and one.location == stored_location(one.listed):
            raise not_as_text(listing.settings)
    listed = select(listing.id_text, listing.location).select_from(listing.relation)
    if len(by_id) <= FEW:
        listed = listed.where(listing.id_text.in_(list(by_id)))
    with (
        listing.database.read() as connection,
        connection.execution_options(yield_per=PAGE_SIZE).execute(listed) as rows,
    ):
        found = (one for row in rows for one in by_id.get(row[0], ()) if _is_at(listing, one, row[1]))
        return next(found, None)


def _is_at(listing: Source, former: FormerResult, location: object) -> bool:
    """Return whether a listed location is that of a result; our own table uses no id twice, wherever its images are."""
    return listing.is_ours or former.location == stored_location(as_location(location))


def _refusal(own: SourceIdentity, identity: SourceIdentity, clash: FormerResult) -> UnusableIds:
    listed = stored_location(clash.listed)
    if identity == own:
        return UnusableIds(
            f"[source] id: {clash.image_id} is {listed!r}, and also {clash.location!r}, which has a result",
            NEEDED,
        )
    return UnusableIds(
        f"[source] id: {clash.image_id} is {listed!r} in {own}, but the database has its result for {clash.location!r}"
        f" of another source, {identity}",
        APART,
    )
