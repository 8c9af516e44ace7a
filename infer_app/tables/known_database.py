"""Which database is the project's: `infer.database-id`, a file beside infer.toml, has the id that it was given.

So a database that is gone, empty or another's is told from that of a new project, and no day is done again for it. A
second line names the last run, by which a database is told that was restored from a backup.
"""

import logging
import os
from contextlib import suppress
from pathlib import Path

from infer_app.base.atomic_file import replace_file
from infer_app.base.errors import DatabaseUnavailable, os_errors_as
from infer_app.base.settings.load import LoadedSettings
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.migrate import read_id

log = logging.getLogger(__name__)


def id_file(loaded: LoadedSettings) -> Path:
    return loaded.path.with_suffix(".database-id")


def known_id(loaded: LoadedSettings) -> str | None:
    """Return the id of the project's database, None before there is one."""
    return next(iter(_read_lines(loaded)), None)


def last_run_of(loaded: LoadedSettings) -> str | None:
    """Return the id of the project's last run, None if it is not known."""
    return next(iter(_read_lines(loaded)[1:]), None)


def remember_run(loaded: LoadedSettings, run_id: str) -> None:
    """Write the id of the last run; a folder that may not be written to stays without it."""
    if known := known_id(loaded):
        _write(id_file(loaded), known, run_id)


def _read_lines(loaded: LoadedSettings) -> list[str]:
    file = id_file(loaded)
    reading = os_errors_as(DatabaseUnavailable, f"can't read {file}", "it names the project's database")
    with reading, suppress(FileNotFoundError):
        return file.read_text(errors="replace").split() or [""]
    return []


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


def remember(loaded: LoadedSettings, database: Database) -> None:
    """Write the file if it is missing; a folder that may not be written to stays without it."""
    file = id_file(loaded)
    if file.exists():
        return
    _, found = read_id(database)
    _write(file, str(found))


def _write(file: Path, *lines: str) -> None:
    try:
        replace_file(file, "".join(f"{line}\n" for line in lines).encode())
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
