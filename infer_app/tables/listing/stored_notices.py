"""What somebody should look at, stored where it is found, so that the next run tells what a killed one had found.

A teller of changes, as a mail, tells a notice once, again after REPEATED of holding, and when it is over. Others tell
what holds, and what happened within REPEATED, and store nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, insert, or_, select, update

from infer_app.base.day import naive
from infer_app.base.printing import with_config
from infer_app.tables.results.schema import notices, project_table

REPEATED = timedelta(days=7)
KEPT = timedelta(days=30)  # after it is over
AHEAD = timedelta(days=1)  # later is a time of a clock that was ahead
OF_WALK = ("images of the future", "unreadable files", "unusable names")  # kinds of what a walk finds until it is over
OF_LISTING = ("hidden rows", "rows without a day")  # of what a listing of the user's table does
MAIL, WEBHOOK = "mailed_at", "posted_at"  # tellers of changes: the columns that say when each told a notice last


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to look at, or to do."""

    kind: str
    text: str  # a sentence
    command: str = ""  # that does it or shows more, without options
    level: str = "attention"  # good: nothing is wrong; failed
    note: str = ""  # the same in a few words, among the remarks of a day; empty: it is none of them
    subject: str = ""  # tells notices of a kind apart, as a camera does
    key: str | None = None  # another one is told anew; None: the text
    since: datetime | None = None  # UTC; None: not stored
    until: datetime | None = None  # when it was over; that of an event is the same as `since`

    @property
    def line(self) -> str:
        """Return it as a line of text, with its command: jobs/daily.sh mails what begins so."""
        text = f"{self.text}{f': `{self.command}`' if self.command else ''}"
        return f"attention: {'over: ' if self.is_over else ''}{with_config(text)}"

    @property
    def is_over(self) -> bool:
        return self.until is not None and self.until != self.since

    def to_json(self) -> dict[str, object]:
        times = {name: time and time.isoformat() for name, time in (("since", self.since), ("until", self.until))}
        found = asdict(self) | times | {"command": self.command or None}
        return {name: found[name] for name in ("kind", "subject", "level", "text", "command", "since", "until")}


def record(connection: Connection, found: Iterable[Notice]) -> None:
    """Store notices: those with `until` happened now; others hold, since they were first stored."""
    rows = {(row["kind"], row["subject"]): row for row in map(_row, found)}
    _lock(connection)
    known = {(one.kind, one.subject): one for one in connection.execute(select(notices))}
    for place, row in rows.items():
        former = known.get(place)
        if former is None:
            connection.execute(insert(notices), row)
            continue
        goes_on = former.until is None if row["until"] is None else former.until == former.since
        if goes_on and former.key == row["key"]:
            row |= {name: getattr(former, name) for name in ("since", "until", MAIL, WEBHOOK)}
        connection.execute(update(notices).where(*_is(former)).values(row))


def hold(connection: Connection, found: Sequence[Notice], kinds: Collection[str], subject: str | None = None) -> None:
    """Store what holds of some kinds now, or of these and a subject: what held before and is not found is over.

    What has been over for long is deleted, of whatever kind.
    """
    record(connection, found)  # which locks
    held, now = {(one.kind, one.subject) for one in found}, naive(datetime.now(UTC))
    holds: list[ColumnElement[bool]] = [notices.c.kind.in_(kinds), notices.c.until.is_(None)]
    holds += [] if subject is None else [notices.c.subject == subject]
    for former in connection.execute(select(notices).where(*holds)).all():
        if (former.kind, former.subject) not in held:
            connection.execute(update(notices).where(*_is(former)).values(until=now))
    connection.execute(delete(notices).where(notices.c.until < now - KEPT))


def read_current(connection: Connection) -> list[Notice]:
    """Return what holds, and what happened within REPEATED, the newest first."""
    now = naive(datetime.now(UTC))
    recent = notices.c.since.between(now - REPEATED, now + AHEAD)
    wanted = or_(notices.c.until.is_(None), (notices.c.until == notices.c.since) & recent)
    rows = connection.execute(select(notices).where(wanted).order_by(notices.c.since.desc(), notices.c.kind))
    return list(map(_notice, rows))


def read_due(connection: Connection, teller: str) -> list[Notice]:
    """Return what a teller of changes has to tell."""
    rows = connection.execute(select(notices).order_by(notices.c.since, notices.c.kind, notices.c.subject))
    now = naive(datetime.now(UTC))
    return [_notice(row) for row in rows if _is_due(row, row._mapping[teller], now)]


def mark_told(connection: Connection, teller: str, told: Iterable[Notice]) -> None:
    """Store that these were told: what was stored anew, or is over since then, is not."""
    _lock(connection)
    now = naive(datetime.now(UTC))
    for one in told:
        until = notices.c.until.is_(None) if one.until is None else notices.c.until == naive(one.until)
        connection.execute(update(notices).where(*_is(one), notices.c.key == one.key, until).values({teller: now}))


def _lock(connection: Connection) -> None:
    """Let other runs wait that store notices: two may find the same."""
    connection.execute(select(project_table.c.id).with_for_update()).close()


def event(kind: str, text: str, subject: str, key: str | None = None) -> Notice:
    """Return a notice of what happens now."""
    now = datetime.now(UTC)
    return Notice(kind, text, subject=subject, key=key, since=now, until=now)


def _is_due(row: Row[Any], told: datetime | None, now: datetime) -> bool:
    if told is None or told > now + AHEAD:
        return True
    if row.until is None:
        return told <= now - REPEATED
    return bool(row.until != row.since and told < row.until)


def _row(notice: Notice) -> dict[str, Any]:
    its = {name: getattr(notice, name) for name in ("kind", "subject", "text", "command", "level")}
    times = {"since": naive(notice.since or datetime.now(UTC)), "until": notice.until and naive(notice.until)}
    return its | times | {"key": notice.text if notice.key is None else notice.key, MAIL: None, WEBHOOK: None}


def _notice(row: Row[Any]) -> Notice:
    since, until = row.since.replace(tzinfo=UTC), row.until and row.until.replace(tzinfo=UTC)
    its = {"subject": row.subject, "key": row.key, "since": since, "until": until}
    return Notice(row.kind, row.text, row.command, row.level, **its)


def _is(row: Row[Any] | Notice) -> tuple[Any, ...]:
    return notices.c.kind == row.kind, notices.c.subject == row.subject
