"""What somebody should look at, as functions of the facts: what mails, `infer status` and the report show is made here.

What happens once, as what a walk finds, is no function of stored rows: it is stored where it is found
(`listing.stored_notices`).
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, timedelta
from functools import partial
from statistics import mean

from infer_app.base.day import MAX_DAYS, Day
from infer_app.base.domain import DECODER_MODULES, Reason, ReasonClass
from infer_app.base.errors import EXIT_TOO_MANY_REJECTED
from infer_app.base.packages import install, retried_reasons
from infer_app.base.printing import counted, named, one_line, printed_options
from infer_app.base.run_report import RunReport
from infer_app.base.settings.sections import rejection_budget
from infer_app.tables.day.facts import DayFacts, DayReader, ProjectFacts
from infer_app.tables.day.illness import KINDS, Illness, Kind
from infer_app.tables.listing.stored_notices import Notice, event

FAILED, TOO_MANY, EARLY = "failed run", "too many rejected", "ended early"  # kinds that decide the exit code of a day
MIN_TOGETHER, MAX_NAMED = 3, 12  # cameras that one notice tells
UNUSUAL = 3.0  # standard deviations of a Poisson distribution


def notices_of_day(facts: DayFacts) -> list[Notice]:
    """Return what there is to say of a day and version, the most severe first; its commands name no model."""
    return [notice for function in _OF_DAY for notice in function(facts)]


def notices_of_project(facts: ProjectFacts) -> list[Notice]:
    """Return what holds of a project beside its days."""
    return [notice for function in OF_PROJECT.values() for notice in function(facts)]


def few_images(reader: DayReader, day: Day) -> list[Notice]:
    """Return as an event that a day which is over has few images."""
    if not (num_images := reader.count_images(day)):
        return []
    found = _about_number(day.date, num_images, reader.count_images_before(day))
    return [event(one.kind, one.text, one.subject, key="") for one in found if one.kind == "few images"]


def happened_in_run(reports: Iterable[RunReport]) -> list[Notice]:
    """Return as events how many images of a day are nearly black: of several models the last one's number."""
    found = (one for report in reports for one in _about_nearly_black(report.date, report.nearly_black))
    return [event(one.kind, one.text, one.subject) for one in found]


def is_unusual(num_images: int, before: Sequence[int]) -> bool:
    """Return whether a day's number of images is beyond half or twice that of every day before, and beyond chance.

    Days without images are not compared, and one day, as in a new project, tells nothing.
    """
    known = [count for count in before if count]
    if len(known) < 2 or not num_images:
        return False
    nearest = min(max(num_images, min(known)), max(known))
    is_far = not nearest / 2 <= num_images <= 2 * nearest
    return is_far and abs(num_images - nearest) > UNUSUAL * math.sqrt(nearest)


def is_too_many(max_rejected: str, asked: tuple[int, int]) -> bool:
    """Return whether a day has more rejections than allowed; `asked`: images that were predicted, and rejected."""
    return asked[1] > rejection_budget(max_rejected, sum(asked))


def backfill_command(first: date, last: date, options: str = "") -> str:
    """Return the command for a range of days, without those that are too many for one backfill."""
    first = max(first, last - timedelta(days=MAX_DAYS))
    return f"infer backfill --from {first} --to {last}{options}"


def _wrong_counts(facts: DayFacts) -> Iterator[Notice]:
    if facts.problems or not facts.counts.balanced:
        note = "the counts do not add up"
        text = f"The counts do not add up{f': {facts.problems[0]}' if facts.problems else ''}"
        yield Notice("wrong counts", text, f"infer verify --date {facts.day}", "failed", note)


def _failed_run(facts: DayFacts) -> Iterator[Notice]:
    last = facts.last_run
    if last is None or facts.is_running or last["state"] == "done":
        return
    if facts.is_of_camera and not facts.counts.pending:
        return  # it may be another camera's images that it failed with
    code = last["exit_code"]
    note = "the last run died" if code is None else f"the last run failed: exit code {code}"
    text = f"The last run failed: {last['error'] or 'the reason is unknown'}"
    yield Notice(FAILED, text, "infer doctor", "failed" if facts.state == "failed" else "attention", note)


def _too_many_rejected(facts: DayFacts) -> Iterator[Notice]:
    """Yield that the rows have more rejections than allowed, or that the last run that did something stopped for it."""
    did_something = (run for run in facts.runs if run["selected"] or run["exit_code"] or run["state"] != "done")
    decisive = next(did_something, None)
    kind, note = TOO_MANY, f"too many rejected: exit code {EXIT_TOO_MANY_REJECTED}"
    if facts.counts.pending and decisive and decisive["exit_code"] == EXIT_TOO_MANY_REJECTED and decisive["error"]:
        note = note.replace("rejected", "rejected or failed")
        yield Notice(kind, f"The last run stopped: {decisive['error']}", note=note)
    elif is_too_many(facts.max_rejected, facts.asked or (facts.counts.predicted, facts.counts.rejected)):
        text = "More images were rejected than --max-rejected allows: see why"
        yield Notice(kind, text, _list_rejected(facts), note=note)


def _pending(facts: DayFacts) -> Iterator[Notice]:
    if num_pending := facts.counts.pending:
        text = f"{counted(num_pending, 'image')} {'is' if num_pending == 1 else 'are'} pending"
        note = f"{num_pending:,} pending"
        if facts.state == "running":
            yield Notice("pending", f"{text}; a run is in progress", "infer status", note=note)
        else:
            yield Notice("pending", f"{text}: run the day again", f"infer run --date {facts.day}", note=note)


def _ended_early(facts: DayFacts) -> Iterator[Notice]:
    last = facts.last_run
    if last and last["state"] == "done" and facts.counts.pending and last["exit_code"] not in _NO_EARLY_END:
        note = f"the last run ended early: exit code {last['exit_code']}"
        yield Notice(EARLY, note[0].upper() + note[1:], note=note)


def _unusual_number(facts: DayFacts) -> Iterator[Notice]:
    yield from _about_number(facts.day, facts.counts.eligible, facts.images_before)


def _about_number(day: date, num_images: int, before: Sequence[int]) -> Iterator[Notice]:
    if is_unusual(num_images, before):
        note = f"unusual: {counted(num_images, 'image')}, {mean(filter(None, before)):,.0f} a day before"
        is_few = num_images <= max(before)
        text = f"{day}: {note}{'; does what brings them still run?' if is_few else ''}"
        yield Notice("few images" if is_few else "many images", text, note=note, subject=str(day))


def _gap_of_day(facts: DayFacts) -> Iterator[Notice]:
    if facts.gap:
        text = str(facts.gap)
        yield Notice("gap", text[0].upper() + text[1:], note=f"no images for {facts.gap.num_days} days")


def _older_than_day(facts: DayFacts) -> Iterator[Notice]:
    if older := facts.older:
        what = "1 image of an earlier day is" if older.num_images == 1 else f"{older.num_images:,} of earlier days are"
        note = f"{older.num_images:,} of earlier days pending"
        yield Notice("older pending", f"{what} pending", backfill_command(older.first, older.last), note=note)


def _changed_of_day(facts: DayFacts) -> Iterator[Notice]:
    if facts.changed.replaced:
        yield Notice("replaced", _describe_replaced(facts.changed.replaced))
    if num_missing := facts.changed.missing:
        are = "image is" if num_missing == 1 else "images are"
        yield Notice("missing", f"{num_missing:,} registered {are} missing", "infer list --state missing")


def _rejections(facts: DayFacts) -> Iterator[Notice]:
    is_too_many = any(_too_many_rejected(facts))
    if facts.reasons and not is_too_many:
        yield Notice("rejected", "; ".join(_about_rejections(facts)), _list_rejected(facts), "good")


def _nearly_black(facts: DayFacts) -> Iterator[Notice]:
    yield from _about_nearly_black(facts.day, facts.nearly_black)


def _about_nearly_black(day: date, num_images: int) -> Iterator[Notice]:
    if num_images:
        verb = "uses" if num_images == 1 else "use"
        what = f"{counted(num_images, 'image')} {verb} at most 12 of 16 bits: nearly black as read"
        text = f"{what}; build the model with --set depth=window:0,4095"
        yield Notice("nearly black", text, subject=str(day))


_NO_EARLY_END = (None, 0, EXIT_TOO_MANY_REJECTED)
_OF_DAY = (
    _wrong_counts,
    _failed_run,
    _too_many_rejected,
    _pending,
    _ended_early,
    _unusual_number,
    _gap_of_day,
    _older_than_day,
    _changed_of_day,
    _rejections,
    _nearly_black,
)


def _list_rejected(facts: DayFacts) -> str:
    return f"infer list --state rejected --date {facts.day}"


def _about_rejections(facts: DayFacts) -> Iterator[str]:
    helps = {reason.value: _HELPS[reason.of] for reason in Reason}
    helps |= dict.fromkeys(DECODER_MODULES, f"want of a decoder: `{install('heic')}`, then run again")
    helps |= dict.fromkeys(retried_reasons(), "now: the next run retries them")
    found = defaultdict[str, list[str]](list)
    for reason in facts.reasons:
        found[helps.get(reason, _HELPS[ReasonClass.CONTENT])].append(reason)
    for what, its in found.items():
        retry = f"infer retry --date {facts.day}{printed_options()} --reason {' --reason '.join(its)}"
        yield f"{sum(facts.reasons[reason] for reason in its):,} rejected for {what.replace('RETRY', retry)}"


_HELPS = {
    ReasonClass.CONTENT: "content: fix or remove the files",
    ReasonClass.MODEL: "the model: correct it, or run `RETRY`",
    ReasonClass.SETTING: "a setting: correct the images, or change it and run `RETRY`",
    ReasonClass.STORAGE: "the storage: run `RETRY`",
}


def _gap(facts: ProjectFacts) -> Iterator[Notice]:
    if facts.gap:
        yield Notice("gap", str(facts.gap), key=str(facts.gap.last))


def _ill_cameras(kind: Kind, facts: ProjectFacts) -> Iterator[Notice]:
    """Yield what is wrong with each camera; if most have it since the same day, it is one fault of another kind."""
    since = defaultdict[date, list[Illness]](list)
    for one in facts.ill.found:
        if one.kind == kind:
            since[one.since].append(one)
    for day, its in since.items():
        if len(its) > max(MIN_TOGETHER - 1, facts.ill.num_cameras / 2):
            names = f"{', '.join(one_line(one.camera) for one in its[:MAX_NAMED])}{', …' if its[MAX_NAMED:] else ''}"
            text = f"{len(its)} of {facts.ill.num_cameras} cameras have {kind.has} since {day}: {names}"
            yield Notice(kind.name, text, key=str(day))
        else:
            for one in its:
                text = f"camera {one_line(one.camera)} {one.text}; {kind.hint}"
                yield Notice(kind.name, text, subject=one.camera, key="")


def _copied(facts: ProjectFacts) -> Iterator[Notice]:
    for one in facts.copied:
        camera, former = one_line(one.camera), one_line(one.former)
        why = f"{counted(one.num_images, 'image')} of camera {camera} {'has' if one.num_images == 1 else 'have'}"
        why += f" the bytes of those of {former}, and no events: they count once, as those of {former}."
        what, key = "If a card was copied twice, remove one of both, and after the next run", one.former
        if one.num_missing:
            what = f"Files of {former} are gone: if its folder was renamed, forget them, and {camera} has the events"
            key = f"{one.former} gone"
        yield Notice("copied camera", f"{why} {what}", "infer forget --missing", subject=one.camera, key=key)


def _replaced(facts: ProjectFacts) -> Iterator[Notice]:
    if facts.replaced:
        yield Notice("replaced", _describe_replaced(facts.replaced))


def _describe_replaced(num_images: int) -> str:
    were = "image was replaced since it was" if num_images == 1 else "images were replaced since they were"
    commands = "`infer list --state changed` lists them, `infer retry --replaced`"
    return f"{num_images:,} {were} predicted: {commands} has them predicted again"


def _missing(facts: ProjectFacts) -> Iterator[Notice]:
    if missing := facts.missing:
        newest, of_all = missing.num_newest, f", {missing.num_images:,} in all"
        images = f"{newest:,} of {counted(missing.num_of_folder, 'image')} registered in {one_line(missing.folder)}"
        are = "is" if newest == 1 else "are"
        most = "; is its storage mounted, or was a folder renamed, whose photos are new ones then?"
        yield Notice(
            "missing",
            f"{images} {are} missing since {missing.day}{of_all if newest < missing.num_images else ''}:"
            f" `infer list --state missing` lists them{most if 2 * newest > missing.num_of_folder else ''}",
            key=f"{missing.at} {newest}",
        )


def _older_pending(facts: ProjectFacts) -> Iterator[Notice]:
    for name, older in facts.older.items():
        if older is None:
            continue
        verb, images = "is" if older.num_images == 1 else "are", counted(older.num_images, "image")
        names = [name] if len(facts.older) > 1 else []
        command = backfill_command(older.first, older.last, "".join(f" --model {one}" for one in names))
        then = "the next run goes on with those registered late; " if facts.late_left else ""
        text = f"{images} older than the look-back {verb} pending: {then}`{command}` predicts them"
        key = "" if facts.late_left else str(older.num_images)
        yield Notice("older pending", named(text, names), subject=name, key=key)


# By kind: what none of them yields any more is over.
OF_PROJECT: dict[str, Callable[[ProjectFacts], Iterator[Notice]]] = {
    "gap": _gap,
    **{kind.name: partial(_ill_cameras, kind) for kind in KINDS},
    "copied camera": _copied,
    "replaced": _replaced,
    "missing": _missing,
    "older pending": _older_pending,
}
