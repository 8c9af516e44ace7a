"""PostgreSQL."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy import ColumnElement, Connection, Dialect, Engine, Inspector, Table, create_engine, event, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateIndex

from infer_app.base.errors import SchemaOutdated
from infer_app.tables.engine.array_upsert import ArrayDelete, ArrayUpsert
from infer_app.tables.engine.backend import Backend, Hint
from infer_app.tables.engine.bulk import BulkDelete, BulkUpsert, Merges
from infer_app.tables.engine.column_types import HoursAfter, UtcNow

CONNECT_TIMEOUT_S = 10
_OTHER_COLUMNS, _DEPENDED_ON = "42P16", "2BP01"  # errors of CREATE OR REPLACE VIEW, and of DROP
# Returns statements that give the owner, the options and the grants of a view once more.
_RIGHTS = """
SELECT statement FROM (
    SELECT 0 AS place,
        format('ALTER TABLE %s SET (%s)', c.oid::regclass, array_to_string(reloptions, ', ')) AS statement
    FROM pg_class c WHERE c.oid = to_regclass(:view) AND reloptions IS NOT NULL
    UNION ALL
    SELECT 1, format('ALTER TABLE %s OWNER TO %I', c.oid::regclass, pg_get_userbyid(relowner))
    FROM pg_class c WHERE c.oid = to_regclass(:view)
    UNION ALL
    SELECT 2, format(
        'GRANT %s ON %s TO %s%s', rights.what, rights.relation,
        CASE rights.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(rights.grantee)) END,
        CASE WHEN rights.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END
    )
    FROM (
        SELECT a.privilege_type AS what, c.oid::regclass AS relation, c.relowner, a.grantee, a.is_grantable
        FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = to_regclass(:view)
        UNION ALL
        SELECT format('%s (%I)', a.privilege_type, t.attname), c.oid::regclass, c.relowner, a.grantee, a.is_grantable
        FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid, aclexplode(t.attacl) a
        WHERE c.oid = to_regclass(:view)
    ) AS rights
    WHERE rights.grantee <> rights.relowner
) AS statements ORDER BY place
"""
_NOT_FOR_PAGES = ("enable_seqscan", "enable_sort", "enable_hashjoin", "enable_mergejoin")
_STARTING = ("starting up", "not yet accepting connections")  # of 57P03, which a failed connection has no code for
OWN_SCHEMA = "results_schema"  # a key of our own in the URL
_SYSTEM_SCHEMAS = ("information_schema", "pg_catalog", "pg_toast")
# Detects a machine that disappeared; TCP's defaults take hours.
KEEPALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 6, "tcp_user_timeout": 90_000}


class PostgreSQL(Backend):
    drivers = MappingProxyType({"postgres": "postgresql+psycopg", "postgresql": "postgresql+psycopg"})
    extras = MappingProxyType({"psycopg": "postgres"})
    insert = staticmethod(postgresql.insert)
    of_its_own = "a schema of its own, [database] results_schema, or another database"
    single_precision = 700
    row_errors = ("54000",)  # a value is too long for its type or for an index
    deadlocks = ("40P01", "40001", "55P03")
    losses = ("57P01", "57P02", "57P03", "08003", "08006", "25P03", "25P04")  # shutdowns, timeouts of a transaction
    forbidden = ("42501", "25006")  # a privilege; a standby, or a database or role that is read-only
    denied = ("42501",)
    full = ("53100",)
    hints = MappingProxyType(
        {
            "42501": Hint.ROLE,
            "25006": Hint.READ_ONLY,
            "53100": Hint.FULL,
            "53300": Hint.CONNECTIONS,
            "57014": Hint.TIME.format("statement_timeout"),
        }
    )
    parts = """
        SELECT nspname, relname FROM pg_inherits
        JOIN pg_class c ON c.oid = inhrelid JOIN pg_namespace n ON n.oid = relnamespace
    """
    row_security = """
        WITH RECURSIVE hiding(oid, relname, policy) AS (SELECT oid, relname,
            format('CREATE POLICY infer_reads ON %s FOR SELECT TO %I USING (true)', oid::regclass, current_user)
        FROM pg_class WHERE relrowsecurity AND row_security_active(oid) AND NOT EXISTS (
            SELECT FROM pg_policy WHERE polrelid = pg_class.oid AND polpermissive AND polcmd IN ('r', '*')
            AND pg_get_expr(polqual, polrelid) = 'true'
            AND (0 = ANY (polroles) OR EXISTS (SELECT FROM unnest(polroles) AS one WHERE pg_has_role(one, 'USAGE')))
        ) UNION SELECT view.oid, view.relname, policy FROM hiding JOIN pg_depend ON refobjid = hiding.oid
            JOIN pg_rewrite ON pg_rewrite.oid = objid JOIN pg_class view ON view.oid = ev_class
            WHERE view.reloptions::text ~ 'security_invoker=(true|on|yes|1)'
        ) SELECT relname, policy FROM hiding
    """

    def is_option_error(self, error: DBAPIError) -> bool:
        return super().is_option_error(error) or bool(re.search(r"invalid \S+ value", str(error.orig)))

    def is_away(self, error: DBAPIError) -> bool:
        text = str(error.orig)
        return self.code_of(error) is None and ("FATAL" not in text or any(one in text for one in _STARTING))

    def hint_for(self, error: Exception, file: Path | None) -> str:
        if isinstance(error, DBAPIError) and self.code_of(error) is None and not self.is_away(error):
            is_full = any(one in str(error.orig) for one in ("too many", "connection slots"))
            return Hint.CONNECTIONS if is_full else Hint.LOGIN
        return super().hint_for(error, file)

    def create_engine(self, url: URL, *, read_only: bool) -> Engine:
        timeout = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_TIMEOUT_S}
        # Always UTF-8, whatever the database's encoding, PGCLIENTENCODING or the URL are: we encode arrays ourselves.
        # Prepared statements are lost behind a pooler that gives each transaction another session.
        schema = str(url.query.get(OWN_SCHEMA, ""))
        engine = create_engine(
            url.difference_update_query([OWN_SCHEMA]),
            pool_pre_ping=True,
            hide_parameters=True,
            connect_args=timeout | KEEPALIVE | {"client_encoding": "utf8", "prepare_threshold": None},
        )
        from infer_app.tables.engine.postgres_connection import WatchedConnection  # psycopg is an extra

        def connect(dialect: object, record: object, given: Any, named: Any) -> WatchedConnection:
            connection = WatchedConnection.open(*given, **named)
            # SQLAlchemy would set it back after each use, also on a connection that a signal has closed.
            connection.read_only = read_only or None
            return connection

        event.listen(engine, "do_connect", connect)
        event.listen(engine, "begin", lambda connection: _begin(connection, schema))
        return engine

    def is_connection_lost(self, error: DBAPIError) -> bool:
        """Return whether the connection is lost: libpq's own errors have no SQLSTATE, and all of them are about it."""
        return super().is_connection_lost(error) or self.code_of(error) is None

    def bulk_upsert(self, dialect: Dialect, table: Table, merges: Merges | None = None) -> BulkUpsert:
        return ArrayUpsert(dialect, table, lambda names, rows: self.upsert(table, merges, names, rows))

    def bulk_delete(self, table: Table, condition: ColumnElement[bool]) -> BulkDelete:
        return ArrayDelete(table, condition)

    def plan_for_pages(self, connection: Connection) -> None:
        """Make it use indexes, for lookups and for sorting: tables may have grown during this run."""
        off = ", ".join(f"set_config('{name}', 'off', true)" for name in _NOT_FOR_PAGES)  # until the transaction ends
        connection.exec_driver_sql(f"SELECT {off}").close()

    def other_schemas(self, inspector: Inspector) -> Sequence[str]:
        names: list[str] = inspector.get_schema_names()
        return [name for name in names if name not in _SYSTEM_SCHEMAS]

    @contextmanager
    def lock_tables(self, connection: Connection) -> Iterator[None]:
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtext('infer_app'))").close()
        yield

    def own_schema(self, connection: Connection) -> str | None:
        first = str(connection.scalar(text("SHOW search_path"))).split(",")[0].strip(' "')
        return connection.scalar(text("SELECT current_schema()")) if first == "$user" else first

    def json_member(self, document: str, *path: str) -> str:
        *outer, last = path
        return f"({' -> '.join([document, *(repr(key) for key in outer)])} ->> '{last}')"

    def json_labels(self, dialect: Dialect, document: str, *keys: str) -> tuple[str, str, str]:
        listed = ", ".join(f"{document} -> '{key}'" for key in keys)
        score = "CAST(e.value ->> 'score' AS double precision)"
        return f"json_array_elements(COALESCE({listed}, '[]')) AS e (value)", "(e.value ->> 'label')", score

    def ordered(self, text: str) -> str:
        return f'{text} COLLATE "C"'

    def look_up(self, table: str, condition: str) -> str:
        """Return a join that reads the rows of the condition alone: OFFSET keeps the planner from joining otherwise."""
        return f"LEFT JOIN LATERAL (SELECT * FROM {table} WHERE {condition} OFFSET 0) AS g ON true"

    def replace_views(self, connection: Connection, views: dict[str, str]) -> None:
        """Replace the views with their options, or drop and make them where columns have changed."""
        try:
            with connection.begin_nested():
                for name, select in views.items():
                    found = "SELECT array_to_string(reloptions, ', ') FROM pg_class WHERE oid = to_regclass(:view)"
                    options = connection.scalar(text(found), {"view": name})
                    shown = f"{name} WITH ({options})" if options else name
                    connection.exec_driver_sql(f"CREATE OR REPLACE VIEW {shown} AS {select}")
        except DBAPIError as error:
            if self.code_of(error) != _OTHER_COLUMNS:
                raise
            with self.without_views(connection, views):
                pass

    @contextmanager
    def without_views(self, connection: Connection, views: dict[str, str]) -> Iterator[None]:
        """Drop views, and make them anew with the owner, the options and the grants that they had.

        Raises SchemaOutdated if other views select from these.
        """
        rights = [one for name in views for one in connection.scalars(text(_RIGHTS), {"view": name})]
        try:
            with super().without_views(connection, views):
                yield
        except DBAPIError as error:
            if self.code_of(error) != _DEPENDED_ON:
                raise
            detail = " ".join(str(error.orig.diag.message_detail).split())  # type: ignore[union-attr]
            raise SchemaOutdated(
                f"views named infer_ have to be dropped and made again, but others select from them: {detail}",
                "drop those, repeat this command, and make them again",
            ) from None
        for right in rights:
            connection.exec_driver_sql(right.replace("%", "%%"))


@compiles(CreateIndex, "postgresql")
def _create_index(element: CreateIndex, compiler: Any, **options: Any) -> str:
    """Return the statement with the condition that is declared for SQLite, whose words are the same."""
    where = element.element.dialect_options["sqlite"]["where"]
    return f"{compiler.visit_create_index(element, **options)}{'' if where is None else f' WHERE {where}'}"


@compiles(UtcNow, "postgresql")
def _utc_now(element: UtcNow, compiler: object, **_: object) -> str:
    return "(clock_timestamp() AT TIME ZONE 'UTC')"


@compiles(HoursAfter, "postgresql")
def _hours_after(element: HoursAfter, compiler: Any, **options: Any) -> str:
    return f"({compiler.process(element.clauses, **options)} + INTERVAL '{element.hours} hours')"


def _begin(connection: Connection, schema: str) -> None:
    """Find our tables in their schema, and turn `jit` off, which takes half a second for each of our lookups.

    It holds for the transaction alone: a setting of the session would not hold behind a pooler.
    """
    at_once = {"stream_results": False, "yield_per": None}  # those of the connection are for a cursor on the server
    path = f'; SET LOCAL search_path = "{schema}", public' if schema else ""
    connection.exec_driver_sql(f"SET LOCAL jit = off{path}", execution_options=at_once).close()
