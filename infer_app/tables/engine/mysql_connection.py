"""MariaDB's connection: session settings and a limit on the length of statements."""

from pymysql.connections import Connection
from pymysql.constants import ER
from pymysql.err import OperationalError


class CappedConnection(Connection):  # type: ignore[misc]  # it has no types
    """A connection that refuses statements longer than the server accepts.

    The server would close the connection in the middle of such a statement. The program would take that for an outage,
    reconnect and send the statement again.
    """

    max_statement_bytes: int | None = None

    def prepare(self, read_only: bool) -> None:
        """Read TIMESTAMP columns as UTC in this session, and raise an error for values that don't fit."""
        with self.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00', sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')")
            cursor.execute("SELECT VERSION(), @@max_allowed_packet")
            version, max_packet_bytes = cursor.fetchone()
            if "MariaDB" in version:
                # The optimizer would turn NOT EXISTS into a temporary table of all predictions for each page.
                cursor.execute("SET optimizer_switch = 'exists_to_in=off'")
            if read_only:
                cursor.execute("SET SESSION TRANSACTION READ ONLY")
        self.max_statement_bytes = max_packet_bytes - 1  # the first byte of the packet is the command

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
        """Roll back unless the connection is closed, as after a signal: then the server does it."""
        if self.open:
            super().rollback()
