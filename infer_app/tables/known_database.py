"""Which database is the project's, and whether a database belongs to this project.

A database has an id, which its project has in `infer.database-id`, a file beside infer.toml, or in its settings. So one
that is gone, empty or of another project is told from that of a new project: no day is done again for it, and no
project writes into the database of another one. A second line of the file names the last run, by which a database is
told that was restored from a backup, a third one the last numbers of a picture and an object: no number is given again
after a restore. A fourth one is of a run that failed while the database was away.
"""

import logging
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from infer_app.base.atomic_file import replace_file
from infer_app.base.errors import EXIT_OK, DatabaseUnavailable, OtherProject, UsageError, os_errors_as
from infer_app.base.settings.load import LoadedSettings
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.counters import last_numbers, raise_numbers
from infer_app.tables.results.migrate import check_schema, read_id
from infer_app.tables.results.project_row import DatabaseOwner, read_owner, record_owner

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
    failure: str = NOTHING  # of a run: when, in UTC, and its exit code


def known_id(loaded: LoadedSettings) -> str | None:
    """Return the id of the project's database, None before there is one."""
    known = _read(id_file(loaded))
    return known and known.id


def last_run_of(loaded: LoadedSettings) -> str | None:
    """Return the id of the project's last run, None if it is not known."""
    known = _read(id_file(loaded))
    return known.run if known and known.run != NOTHING else None


def remember_run(loaded: LoadedSettings, run_id: str) -> None:
    """Write the id of the last run; a folder that may not be written to stays without it."""
    if known := _read(id_file(loaded)):
        _write_if_possible(loaded, known._replace(run=run_id))


def remember_failure(loaded: LoadedSettings, exit_code: int | None) -> None:
    """Write that a run failed now which no table has; None: a table has it."""
    if known := _read(id_file(loaded)):
        failure = NOTHING if exit_code is None else f"{datetime.now(UTC):%Y-%m-%dT%H:%MZ}/{exit_code}"
        if (failure == NOTHING) != (known.failure == NOTHING):  # the first one of several is kept
            _write_if_possible(loaded, known._replace(failure=failure))


def describe_failure(loaded: LoadedSettings) -> str:
    """Return that a run failed which no table has; empty if none did."""
    known = _read(id_file(loaded))
    if known is None or known.failure == NOTHING:
        return ""
    time, _, exit_code = known.failure.partition("/")
    return f"the run of {time} failed with exit code {exit_code}, and could not record it"


def _read(file: Path) -> _KnownDatabase | None:
    reading = os_errors_as(DatabaseUnavailable, f"can't read {file}", "it names the project's database")
    with reading, suppress(FileNotFoundError):
        if words := file.read_text("utf-8-sig", errors="replace").split():
            return _KnownDatabase(*words[:5])
    return None


def wait_for_servers(loaded: LoadedSettings) -> None:
    """Wait until the servers of a project that has a database answer, as long as for one that restarts.

    Raises DatabaseUnavailable.
    """
    for url in {loaded.database_url, loaded.source_url} if known_id(loaded) else ():
        with Database(url, read_only=True, waits=True) as database:
            if database.file is None:
                database.ask(lambda connection: None)


def check_known(loaded: LoadedSettings, database: Database, *, read_only: bool) -> None:
    """Check that the database is there, and that it is this project's.

    Raises DatabaseUnavailable if the project's database is gone or empty, and OtherProject for one that belongs to
    another project, unless it is only read.
    """
    known, name = known_id(loaded), id_file(loaded).name
    way_out = f"delete {name} if this change is meant: all is predicted anew"
    if is_missing(database):
        if known is not None:
            hint = f"restore it from a backup, or mount its disk; {way_out}"
            raise DatabaseUnavailable(f"{database.shown_url}, this project's database, does not exist", hint)
        return
    has_tables, found = read_id(database)
    if known is not None and not has_tables:
        problem = f"{database.shown_url} has no infer_ tables, this project's database has some"
        raise DatabaseUnavailable(problem, f"restore a backup, or correct [database] url; {way_out}")
    if found is None or _is_own(loaded, database, found):
        return
    if not read_only:
        raise OtherProject(_describe_owner(loaded, database), _way_out(database))
    _warn_once(f"{_describe_owner(loaded, database)}; it is only read")


def _is_own(loaded: LoadedSettings, database: Database, found: str) -> bool:
    """Return whether the database that has an id is this project's.

    So it is also where the settings have no id, but other settings of their folder do, or the folder holds the file, or
    the last command that wrote had settings of this folder, or none has written.
    """
    own = loaded.database.project or known_id(loaded)
    if own is not None:
        return own == found
    if database.file is not None and database.file.resolve().parent == loaded.folder.resolve():
        return True
    others = (_read(file) for file in loaded.folder.glob("*.database-id"))
    if any(one is not None and one.id == found for one in others):
        return True
    owner = database.ask(read_owner)
    return owner.folder is None or owner == _owner_here(loaded, found)


def _owner_here(loaded: LoadedSettings, found: str) -> DatabaseOwner:
    return DatabaseOwner(found, str(loaded.folder.absolute()), socket.gethostname())


def owner_of(loaded: LoadedSettings) -> DatabaseOwner:
    """Return whose tables are that these settings make."""
    return _owner_here(loaded, loaded.database.project or secrets.token_hex(16))


def _describe_owner(loaded: LoadedSettings, database: Database) -> str:
    owner = database.ask(read_owner)
    if owner == _owner_here(loaded, owner.id):  # the settings or their file say otherwise
        named = f"[database] project names {loaded.database.project!r}"
        named = named if loaded.database.project else f"{id_file(loaded).name} names {known_id(loaded)!r}"
        return f"{database.shown_url} is the database {owner.id!r}, and {named}"
    project = f"the project in {owner.folder} on {owner.host}" if owner.folder else "another project"
    return f"{database.shown_url} belongs to {project}"


def _way_out(database: Database) -> str:
    needed = database.backend.of_its_own
    return f"a second project needs {needed}; if this is the same project, run `infer db join` once"


@cache
def _warn_once(text: str) -> None:
    log.warning(text)


def join(loaded: LoadedSettings, database: Database) -> str:
    """Let the settings be of the project that the database belongs to, and return its id.

    Raises what `check_schema` raises, and UsageError if it can't be written down.
    """
    check_schema(database)
    found, file = database.ask(read_owner).id, id_file(loaded)
    named, in_settings = loaded.database.project, f'project = "{found}" below [database], in {loaded.path}'
    if named not in (None, found):
        raise UsageError(f"[database] project is {named!r}, and the database has {found!r}", f"write {in_settings}")
    if named is None and known_id(loaded) != found:
        with os_errors_as(UsageError, f"can't write {file}", f"write {in_settings}"):
            _write(loaded, _KnownDatabase(found))
    return found


@contextmanager
def remembered(loaded: LoadedSettings, database: Database) -> Iterator[None]:
    """Remember the database and, at the end of the `with` block, the last numbers that it has given.

    A database that was restored gives none again that it gave before. A folder that may not be written to stays without
    the file.
    """
    known, owner = _read(id_file(loaded)), database.ask(read_owner)
    if known is None or known.id != owner.id:
        _write_if_possible(loaded, known := _KnownDatabase(owner.id))
    if owner != (here := _owner_here(loaded, owner.id)):
        record_owner(database, here)
    given, numbers = database.ask(last_numbers), [int(number) for number in known[2:4] if number.isdecimal()]
    if numbers and any(before > last for before, last in zip(numbers, given, strict=False)):
        database.transact(partial(raise_numbers, numbers=numbers))
    try:
        yield
    finally:
        with suppress(DatabaseUnavailable):
            with database.read() as connection:  # without waiting: the command has ended
                latest = tuple(map(str, last_numbers(connection)))
            if (known := _read(id_file(loaded))) and known[2:4] != latest:
                _write_if_possible(loaded, known._replace(picture=latest[0], object=latest[1]))


def _write_if_possible(loaded: LoadedSettings, known: _KnownDatabase) -> None:
    try:
        _write(loaded, known)
    except OSError as error:
        hint = f'without it set [database] project = "{known.id}"'
        if loaded.database.project is None:
            _warn_once(f"{id_file(loaded)} can't be written: {error.strerror} ({hint})")


def _write(loaded: LoadedSettings, known: _KnownDatabase) -> None:
    lines = known.id, known.run, " ".join(known[2:4]), known.failure
    replace_file(id_file(loaded), "".join(f"{line}\n" for line in lines).encode())


def describe_known(loaded: LoadedSettings, database: Database) -> tuple[str, str, int]:
    """Return for `infer doctor` whether the database is this project's, what to do about it, and a run's exit code."""
    file, found = id_file(loaded), database.ask(read_owner).id
    if not _is_own(loaded, database, found):
        return f"; {_describe_owner(loaded, database)}", _way_out(database), UsageError.exit_code
    if loaded.database.project:
        return ", the one that [database] project names", "", EXIT_OK
    if file.exists():
        return f", the one that {file.name} names", "", EXIT_OK
    if os.access(file.parent, os.W_OK):
        return f"; the next run writes {file.name}", "", EXIT_OK
    return f"; {file} can't be written", f'make its folder writable, or set [database] project = "{found}"', EXIT_OK


def is_missing(database: Database) -> bool:
    """Return whether it is a SQLite file that does not exist."""
    return database.file is not None and not database.file.exists()
