"""MariaDB's own ways: how a session is prepared, and what is longer than the server takes."""

from __future__ import annotations

from pymysql.connections import Connection
from pymysql.constants import ER
from pymysql.err import OperationalError


class CappedConnection(Connection):  # type: ignore[misc]  # it has no types
    """One that refuses a statement longer than the server takes, which would hang up in the middle of it: as a lost
    connection it would be waited for, and the same sent again."""

    max_statement_bytes: int | None = None

    def prepare(self, read_only: bool) -> None:
        """Columns of type TIMESTAMP are read as UTC, and a value that doesn't fit is an error instead of being cut."""
        with self.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00', sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')")
            cursor.execute("SELECT VERSION(), @@max_allowed_packet")
            version, max_packet_bytes = cursor.fetchone()
            if "MariaDB" in version:
                # It would turn `is not yet predicted` into a table of all predictions, made for each page.
                cursor.execute("SET optimizer_switch = 'exists_to_in=off'")
            if read_only:
                cursor.execute("SET SESSION TRANSACTION READ ONLY")
        self.max_statement_bytes = max_packet_bytes - 1  # the first says that it is a statement

    def query(self, sql: str | bytes, unbuffered: bool = False) -> int:
        encoded = sql.encode(self.encoding) if isinstance(sql, str) else sql
        if self.max_statement_bytes is not None and len(encoded) > self.max_statement_bytes:
            raise OperationalError(
                ER.NET_PACKET_TOO_LARGE,
                f"a statement of {len(encoded):,} bytes, max_allowed_packet is {self.max_statement_bytes + 1:,}",
            )
        num_rows: int = super().query(encoded, unbuffered)
        return num_rows

    def rollback(self) -> None:
        """Of a connection that is closed, as after a signal, the server does it."""
        if self.open:
            super().rollback()
