"""MariaDB and MySQL."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Dialect, Engine, Table, create_engine, event
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateTable
from sqlalchemy.sql.dml import Insert

from infer_app.base.errors import DatabaseUnavailable
from infer_app.tables.engine.backend import Backend, Hint, merged
from infer_app.tables.engine.bulk import Merges
from infer_app.tables.engine.column_types import (
    FAMILY,
    MAX_ID,
    OURS,
    AsText,
    Exact,
    HoursAfter,
    LongBytes,
    Microseconds,
    Query,
    UtcNow,
)
from infer_app.tables.engine.reconnect import OUTAGE_S

READ_TIMEOUT_S = OUTAGE_S  # of PyMySQL: a server that sends nothing for so long has frozen
UNKNOWN_COLUMN = 1054  # for which PyMySQL raises OperationalError
DUPLICATE_COLUMN = 1060
# Defaults are those of the database: often Latin-1, an engine without transactions, a row format with shorter keys.
TABLE_OPTIONS = "ENGINE=InnoDB CHARSET=utf8mb4 ROW_FORMAT=DYNAMIC COLLATE utf8mb4_bin"
UPGRADE_S = 300  # that another `infer db upgrade` is waited for


class MySQL(Backend):
    drivers = MappingProxyType({"mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql"})
    extras = MappingProxyType({"pymysql": "mariadb"})
    integer_bits = 64  # unsigned
    lists_all_tables = False
    join_in_order = "STRAIGHT_JOIN"
    hides_bytes = True
    single_precision = 4
    # A trigger, a constraint (MariaDB's and MySQL's number), a row that is too long, a statement longer than the server
    # accepts.
    row_errors = (1644, 4025, 3819, 1118, 1153)
    deadlocks = (1213, 1205)  # and a lock wait
    losses = (1053, 1152, 1158, 1159, 1160, 1161, 1317, 1927)  # shutdown, KILL, aborted reads and writes
    denied = (1142, 1143)  # reported as a server's errors
    full = (1021, 1114)
    hints = MappingProxyType(
        {
            **dict.fromkeys((1045, 1049, 1698), Hint.LOGIN),
            **dict.fromkeys((1044, 1142, 1143, 1227, 1370), Hint.ROLE),
            **dict.fromkeys((1290, 1792, 1836), Hint.READ_ONLY),
            **dict.fromkeys(full, Hint.FULL),
            **dict.fromkeys((1040, 1203, 1226), Hint.CONNECTIONS),
            **dict.fromkeys((1969, 3024), Hint.TIME.format("max_statement_time")),
            1071: "keys of our tables need the row format DYNAMIC, and innodb_page_size=16k or more",
            1665: "set binlog_format to MIXED or ROW: our transactions see what is committed (READ COMMITTED)",
        }
    )

    def create_engine(self, url: URL, *, read_only: bool) -> Engine:
        # READ COMMITTED as in PostgreSQL: MariaDB's default locks gaps between keys, so that two runs would deadlock.
        limits = {"read_timeout": READ_TIMEOUT_S, "write_timeout": READ_TIMEOUT_S}
        engine = create_engine(
            url,
            pool_pre_ping=True,
            hide_parameters=True,
            isolation_level="READ COMMITTED",
            connect_args={key: limit for key, limit in limits.items() if key not in url.query},
        )
        from infer_app.tables.engine.mysql_connection import CappedConnection  # PyMySQL is an extra

        event.listen(engine, "do_connect", lambda dialect, record, given, named: CappedConnection(*given, **named))
        event.listen(engine, "connect", lambda connection, _: connection.prepare(read_only))
        return engine

    @contextmanager
    def lock_tables(self, connection: Connection) -> Iterator[None]:
        name = "LEFT(CONCAT('infer_app ', DATABASE()), 64)"  # changes of tables end a transaction, and its locks
        if connection.exec_driver_sql(f"SELECT GET_LOCK({name}, {UPGRADE_S})").scalar() != 1:
            raise DatabaseUnavailable("another `infer db upgrade` has been at work for minutes", "wait for it to end")
        try:
            yield
        finally:
            with suppress(DBAPIError):  # of a connection that is lost, and its lock with it
                connection.exec_driver_sql(f"SELECT RELEASE_LOCK({name})").close()

    def code_of(self, error: DBAPIError) -> object:
        cause = error.orig
        is_numbered = cause is not None and type(cause).__module__.startswith("pymysql") and cause.args
        return cause.args[0] if cause is not None and is_numbered else None

    def is_statement_error(self, error: DBAPIError) -> bool:
        return super().is_statement_error(error) or self.code_of(error) in (UNKNOWN_COLUMN, DUPLICATE_COLUMN)

    def is_away(self, error: DBAPIError) -> bool:
        return self.code_of(error) in (2002, 2003, 2013)

    def upsert(
        self, table: Table, merges: Merges | None = None, names: Sequence[str] = (), rows: Query | None = None
    ) -> Insert:
        merges = merges or {}
        statement = mysql.insert(table)
        others = [column.name for column in table.columns if not column.primary_key]
        # An assignment sees the effect of earlier ones: merged columns, which read old values, come first.
        ordered = sorted(others, key=lambda name: name not in merges)
        return statement.on_duplicate_key_update([(name, merged(name, statement.inserted, merges)) for name in ordered])

    def keep_known(self, table: Table) -> Insert:
        key = next(iter(table.primary_key.columns)).name
        # Not INSERT IGNORE, which would also turn errors of rows that can't be written into warnings.
        return mysql.insert(table).on_duplicate_key_update({key: table.c[key]})

    def ordered(self, text: str) -> str:
        return f"{text} COLLATE utf8mb4_bin"

    def json_labels(self, dialect: Dialect, document: str, *keys: str) -> tuple[str, str, str]:
        # The column is exact, not only its comparison: MariaDB caches a subquery by the column's value.
        exact = f"VARCHAR({MAX_ID}) CHARACTER SET utf8mb4 COLLATE {exact_collation(dialect)}"
        listed = ", ".join(f"JSON_EXTRACT({document}, '$.{key}')" for key in keys)
        columns = f"label {exact} PATH '$.label', score DOUBLE PATH '$.score'"
        return f"JSON_TABLE(COALESCE({listed}, '[]'), '$[*]' COLUMNS ({columns})) AS e", "e.label", "e.score"


def exact_collation(dialect: Dialect) -> str:
    """Return the collation that compares bytes, trailing spaces included. MySQL's needs version 8.0."""
    return "utf8mb4_nopad_bin" if getattr(dialect, "is_mariadb", False) else "utf8mb4_0900_bin"


@compiles(CreateTable, *FAMILY)
def _create_table(element: CreateTable, compiler: Any, **options: Any) -> str:
    created: str = compiler.visit_create_table(element, **options)
    return created.rstrip() + TABLE_OPTIONS if element.element.metadata.info.get(OURS) else created


@compiles(Microseconds, *FAMILY)
def _microseconds(type_: Microseconds, compiler: object, **_: object) -> str:
    return "DATETIME(6)"


@compiles(LongBytes, *FAMILY)
def _long_bytes(type_: LongBytes, compiler: object, **_: object) -> str:
    return "LONGBLOB"


@compiles(Exact, *FAMILY)
def _exact(type_: Exact, compiler: Any, **_: Any) -> str:
    name = f"VARCHAR({type_.length})" if type_.length else "TEXT"
    # The dialect can tell MariaDB from MySQL only when it is connected, as it is here.
    return f"{name} CHARACTER SET utf8mb4 COLLATE {exact_collation(compiler.dialect)}"


@compiles(UtcNow, *FAMILY)
def _utc_now_mariadb(element: UtcNow, compiler: object, **_: object) -> str:
    return "UTC_TIMESTAMP(6)"


@compiles(HoursAfter, *FAMILY)
def _hours_after_mariadb(element: HoursAfter, compiler: Any, **options: Any) -> str:
    return f"({compiler.process(element.clauses, **options)} + INTERVAL {element.hours} HOUR)"


@compiles(AsText, *FAMILY)
def _as_exact_text(element: AsText, compiler: Any, **options: Any) -> str:
    value = compiler.process(element.clauses, **options)
    return f"CAST({value} AS CHAR CHARACTER SET utf8mb4) COLLATE {exact_collation(compiler.dialect)}"
