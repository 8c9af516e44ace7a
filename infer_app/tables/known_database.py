"""Which database is the project's: `infer.database-id`, a file beside infer.toml, has the id that it was given.

So a database that is gone, empty or another's is told from that of a new project, and no day is done again for it. A
second line names the last run, by which a database is told that was restored from a backup, a third one the last
numbers of a picture and an object: no number is given again after a restore.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from infer_app.base.atomic_file import replace_file
from infer_app.base.errors import DatabaseUnavailable, os_errors_as
from infer_app.base.settings.load import LoadedSettings
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.counters import last_numbers, raise_numbers
from infer_app.tables.results.migrate import read_id

log = logging.getLogger(__name__)
NOTHING = "-"


def id_file(loaded: LoadedSettings) -> Path:
    return loaded.path.with_suffix(".database-id")


class _KnownDatabase(NamedTuple):
    """The lines of the file; NOTHING stands for a value that it lacks."""

    id: str
    run: str = NOTHING
    picture: str = NOTHING
    object: str = NOTHING
    event: str = NOTHING


def known_id(loaded: LoadedSettings) -> str | None:
    """Return the id of the project's database, None before there is one."""
    known = _read(loaded)
    return known and known.id


def last_run_of(loaded: LoadedSettings) -> str | None:
    """Return the id of the project's last run, None if it is not known."""
    known = _read(loaded)
    return known.run if known and known.run != NOTHING else None


def remember_run(loaded: LoadedSettings, run_id: str) -> None:
    """Write the id of the last run; a folder that may not be written to stays without it."""
    if known := _read(loaded):
        _write(loaded, known._replace(run=run_id))


def _read(loaded: LoadedSettings) -> _KnownDatabase | None:
    file = id_file(loaded)
    reading = os_errors_as(DatabaseUnavailable, f"can't read {file}", "it names the project's database")
    with reading, suppress(FileNotFoundError):
        return _KnownDatabase(*(file.read_text(errors="replace").split() or [""])[:5])
    return None


def check_known(loaded: LoadedSettings, database: Database) -> None:
    """Raise DatabaseUnavailable if the project has another database than this one, or this one is gone or empty."""
    known = known_id(loaded)
    if known is None:
        return
    name = id_file(loaded).name
    way_out = f"delete {name} if this change is meant"
    if is_missing(database):
        hint = f"restore it from a backup, or mount its disk; {way_out}: all is predicted anew"
        raise DatabaseUnavailable(f"{database.shown_url}, this project's database, does not exist", hint)
    has_tables, found = read_id(database)
    if not has_tables:
        problem = f"{database.shown_url} has no infer_ tables, this project's database has some"
        hint = f"restore a backup, or correct [database] url; {way_out}: all is predicted anew"
        raise DatabaseUnavailable(problem, hint)
    if found not in (None, known):
        raise DatabaseUnavailable(
            f"{database.shown_url} is not this project's database, whose id {name} has",
            f"correct [database] url; {way_out}",
        )


@contextmanager
def remembered(loaded: LoadedSettings, database: Database) -> Iterator[None]:
    """Remember the database and, at the end of the `with` block, the last numbers that it has given.

    A database that was restored gives none again that it gave before. A folder that may not be written to stays without
    the file.
    """
    known = _read(loaded)
    if known is None:
        _write(loaded, known := _KnownDatabase(str(read_id(database)[1])))
    given, numbers = database.ask(last_numbers), [int(number) for number in known[2:] if number.isdecimal()]
    if numbers and any(before > last for before, last in zip(numbers, given, strict=False)):
        database.transact(partial(raise_numbers, numbers=numbers))
    try:
        yield
    finally:
        with suppress(DatabaseUnavailable):
            with database.read() as connection:  # without waiting: the command has ended
                latest = tuple(map(str, last_numbers(connection)))
            if (known := _read(loaded)) and known[2:] != latest:
                _write(loaded, _KnownDatabase(*known[:2], *latest))


def _write(loaded: LoadedSettings, known: _KnownDatabase) -> None:
    file = id_file(loaded)
    try:
        replace_file(file, "".join(f"{line}\n" for line in (known.id, known.run, " ".join(known[2:]))).encode())
    except OSError as error:
        log.debug("%s can't be written: %s", file, error.strerror)


def describe_known(loaded: LoadedSettings) -> tuple[str, str]:
    """Return whether the project knows the database it has, for `infer doctor`, and what to do if it can't."""
    file = id_file(loaded)
    if file.exists():
        return f", the one that {file.name} names", ""
    if os.access(file.parent, os.W_OK):
        return f"; the next run writes {file.name}", ""
    return f"; {file} can't be written", "make its folder writable: without it a change of the database is not noticed"


def is_missing(database: Database) -> bool:
    """Return whether it is a SQLite file that does not exist."""
    return database.file is not None and not database.file.exists()
