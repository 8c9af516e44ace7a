"""The operations that differ between databases, with a default of each that a database's own file overrides."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy import ColumnElement, Connection, Dialect, Engine, Inspector, Table
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, NotSupportedError, ProgrammingError
from sqlalchemy.sql.dml import Insert

from infer_app.tables.engine.bulk import BatchDelete, BulkDelete, BulkUpsert, Merges, RowUpsert
from infer_app.tables.engine.column_types import Query


class Hint:
    """Say what to do about an error of a server, where its message does not."""

    SERVER = "is the server running, and are host and port of the URL right?"
    LOGIN = "are database, user and password of the URL right?"
    ROLE = (
        "the role must be allowed to read and write the infer_ tables, and to read the table of [source]; for `infer db"
        " upgrade` also to make and drop tables, indexes and views"
    )
    READ_ONLY = "[database] url must name a server that takes changes: is this a replica, or set read-only?"
    FULL = "free space on the disk of the database server; the next run does the rest"
    CONNECTIONS = "close connections of other programs, or allow more; the next run does the rest"
    TIME = "let statements of this role take longer ({}); the next run does the rest"


class Backend:
    """A kind of database; its errors are told apart by their codes."""

    drivers: Mapping[str, str]  # by the first part of a URL
    extras: Mapping[str, str] = MappingProxyType({})  # of this package, by the driver that it brings
    insert: Callable[[Table], Any]  # SQLAlchemy's, with the clauses of this database
    restarts = True  # a server that was reached before may be restarting, and is waited for
    has_typed_columns = True  # all values of a column have its type
    integer_bits = 63  # of a positive integer that a column can hold
    lists_all_tables = True  # also those that the role has no right on
    # What a second project needs for its results.
    of_its_own = "another database in [database] url (this one in [source] database_url, if it lists its images)"
    join_in_order = "JOIN"  # whose right side is read after its left one, if the planner would do otherwise
    hides_bytes = False  # a text column may give bytes
    single_precision: int | None = None  # the driver's code of such a column
    row_errors: tuple[object, ...] = ()  # about a row, which the driver doesn't tell from errors of the server
    deadlocks: tuple[object, ...] = ()  # the transaction was ended for the sake of another one
    losses: tuple[object, ...] = ()  # the server announced that it ends the connection
    forbidden: tuple[object, ...] = ()  # the role lacks a privilege, or the server, database or role is read-only
    denied: tuple[object, ...] = ()  # a privilege on a table or column
    parts = ""  # SELECT of schema and name of tables whose rows another table has too
    row_security = ""  # SELECT of tables of which policies hide rows from the role, and what shows them
    full: tuple[object, ...] = ()  # the server's disk, or a table
    hints: Mapping[object, str] = MappingProxyType({})  # by the code of an error: what to do about it

    def check_url(self, url: URL, shown_url: str) -> None:
        """Raise UsageError for a URL that can't be used."""

    def file_of(self, url: URL) -> Path | None:
        """Return the file of a database that is one on this machine."""
        return None

    def create_engine(self, url: URL, *, read_only: bool) -> Engine:
        raise NotImplementedError

    def code_of(self, error: DBAPIError) -> object:
        """Return the server's code of an error, or None if it has none."""
        return getattr(error.orig, "sqlstate", None)

    def is_connection_lost(self, error: DBAPIError) -> bool:
        return error.connection_invalidated or self.code_of(error) in self.losses

    def is_busy(self, error: DBAPIError) -> bool:
        """Return whether a connection may succeed a moment later, though the database was never reached."""
        return False

    def is_statement_error(self, error: DBAPIError) -> bool:
        """Return whether the database refused the statement itself, such as an unknown name or a write in a query."""
        return isinstance(error, ProgrammingError | NotSupportedError)

    def is_full(self, error: Exception, file: Path | None) -> bool:
        """Return whether the disk of the database is full."""
        return isinstance(error, DBAPIError) and self.code_of(error) in self.full

    def is_option_error(self, error: DBAPIError) -> bool:
        """Return whether the driver refuses an option of the URL, which it checks as it connects."""
        return isinstance(error, ProgrammingError)

    def is_away(self, error: DBAPIError) -> bool:
        """Return whether no server answered an attempt to connect, or one that only just starts."""
        return False

    def hint_for(self, error: Exception, file: Path | None) -> str:
        """Return what to do about an error; nothing if only the server's message says that."""
        if not isinstance(error, DBAPIError):
            return ""
        return Hint.SERVER if self.is_away(error) else self.hints.get(self.code_of(error), "")

    def readers_block_commits(self, connection: Connection) -> bool:
        """Return whether open reads block a commit."""
        return False

    def find_damage(self, connection: Connection) -> str | None:
        """Return what is damaged, if that can be found quickly."""
        return None

    def upsert(
        self, table: Table, merges: Merges | None = None, names: Sequence[str] = (), rows: Query | None = None
    ) -> Insert:
        """Return an insert that overwrites the row with the same primary key.

        `merges` maps a column to a function that computes its value from the new row's columns. The new rows are
        parameters, or where that is supported those that `rows` selects, with the columns `names`.
        """
        merges = merges or {}
        statement = self.insert(table) if rows is None else self.insert(table).from_select(names, rows)
        others = [column.name for column in table.columns if not column.primary_key]
        changed: Insert = statement.on_conflict_do_update(
            index_elements=[column.name for column in table.primary_key.columns],
            set_={name: merged(name, statement.excluded, merges) for name in others},
        )
        return changed

    def keep_known(self, table: Table) -> Insert:
        """Return an insert that leaves an existing row with the same primary or unique key unchanged."""
        statement: Insert = self.insert(table).on_conflict_do_nothing()
        return statement

    def bulk_upsert(self, dialect: Dialect, table: Table, merges: Merges | None = None) -> BulkUpsert:
        """Return what upserts many rows of a table in the fastest way."""
        return RowUpsert(dialect, table, self.upsert(table, merges))

    def bulk_delete(self, table: Table, condition: ColumnElement[bool]) -> BulkDelete:
        """Return what deletes rows of given pictures that meet a condition, which must have no list parameters."""
        return BatchDelete(table, condition)

    def plan_for_pages(self, connection: Connection) -> None:
        """Make the planner use indexes until the transaction ends, if it would rely on outdated statistics."""

    def json_member(self, document: str, *path: str) -> str:
        """Return the SQL of a member's text, or NULL if the document has none."""
        return f"JSON_VALUE({document}, '$.{'.'.join(path)}')"

    def json_labels(self, dialect: Dialect, document: str, *keys: str) -> tuple[str, str, str]:
        """Return a relation of the labels under the first key that is there, and the SQL of a label and a score."""
        raise NotImplementedError

    def ordered(self, text: str) -> str:
        """Return the SQL of a text that is ordered by its bytes, as Python orders it."""
        return text

    def look_up(self, table: str, condition: str) -> str:
        """Return the SQL of a left join whose rows are looked up by an index, if the planner would read them all."""
        return f"LEFT JOIN {table} ON {condition}"

    @contextmanager
    def without_views(self, connection: Connection, views: dict[str, str]) -> Iterator[None]:
        """Drop views, in reverse order, and make them anew at the end of the block."""
        for name in reversed(views):
            connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")
        yield
        for name, select in views.items():
            connection.exec_driver_sql(f"CREATE VIEW {name} AS {select}")

    def replace_views(self, connection: Connection, views: dict[str, str]) -> None:
        """Make views, or replace those that are there; grants and views that select from them stay."""
        for name, select in views.items():
            connection.exec_driver_sql(f"CREATE OR REPLACE VIEW {name} AS {select}")

    def other_schemas(self, inspector: Inspector) -> Sequence[str]:
        """Return the schemas of which tables may be read beside the default one."""
        return ()

    @contextmanager
    def lock_tables(self, connection: Connection) -> Iterator[None]:
        """Keep others from making or changing our tables meanwhile; SQLite's transactions do."""
        yield

    def own_schema(self, connection: Connection) -> str | None:
        """Return the schema of our tables, even if it doesn't exist; None if there is only one."""
        return None


def merged(name: str, new: Any, merges: Merges) -> Any:
    return merges[name](new) if name in merges else new[name]
