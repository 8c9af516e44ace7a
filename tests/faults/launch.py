"""`infer` with faults let in from outside, so that the program itself has no hooks.

    python -m tests.faults.launch '{"point": "after commit", "number": 3}' run --date …

point, number   "before write", "before commit" or "after commit": the whole process group is killed there, at the
                number-th transaction
statement       the whole process group is killed before the number-th statement that changes anything
is_stub         results are hashes of the files' bytes, made without torch, so that starting takes a moment
outage_s        how long a server that is away is waited for
silence_s       after how long a server that says nothing is taken for frozen
lease           false: no run holds a day
host            as if on this machine, so that a run lives by its heartbeat; it is too old after `lease_s`, two beats
max_pages       that SQLite's file may have
lost_read       the server ends the connection of the number-th read, before its question; standard error says so
bf16            whether the CPU says that it computes bf16
crash           an exception in the middle of a run that is nobody's fault, to see what a traceback shows
"""

import json
import os
import signal
import sys
from contextlib import contextmanager
from functools import partial, partialmethod
from itertools import count

CHANGES = ("CREATE", "DROP", "INSERT", "UPDATE", "DELETE")
BEFORE_IMPORTS = {"outage_s", "silence_s", "host"}  # these replace values that modules copy when they are imported
POINTS = ("before write", "before commit", "after commit")


def let_in(faults: dict) -> None:
    if "point" in faults:
        _kill_at(faults["point"], faults["number"])
    if "statement" in faults:
        _kill_before_statement(faults["statement"])
    if faults.get("is_stub"):
        _stub_handlers()
    if "outage_s" in faults:
        from infer_app.tables.engine import reconnect

        _replace(reconnect, "OUTAGE_S", faults["outage_s"])
    if "silence_s" in faults:
        from infer_app.tables.engine import mysql, reconnect

        _replace(reconnect, "SILENCE_S", faults["silence_s"])
        _replace(mysql, "READ_TIMEOUT_S", faults["silence_s"])
    if not faults.get("lease", True):
        from infer_app.tables.results import runs

        _replace(runs, "_take_over", lambda *_: None)
    if "host" in faults:
        _live_elsewhere(faults["host"], faults["lease_s"])
    if "bf16" in faults:
        from infer_app.base import machine

        every_cpu_has = frozenset({"fpu", "fp"})
        _replace(machine, "BF16_FLAGS", every_cpu_has if faults["bf16"] else frozenset())
    if "lost_read" in faults:
        _lose_connection(faults["lost_read"])
    if "max_pages" in faults:
        _limit_pages(faults["max_pages"])
    if faults.get("crash"):
        from infer_app.tables.results.sink import Sink

        def crash(self, *_):
            raise RuntimeError(f"crash with {self._database._engine!r}")

        _replace(Sink, "commit_chunk", crash)


def _replace(owner: object, name: str, value: object) -> None:
    """Fails for a name that the program no longer has; the fault would be let in nowhere."""
    getattr(owner, name)
    setattr(owner, name, value)


def _kill_at(point: str, number: int) -> None:
    from infer_app.tables.engine.connect import Database

    write, numbers = Database.write, count(1)

    @contextmanager
    def failing(self, *args, **kwargs):
        doomed = next(numbers) == number

        def reach(here):
            if doomed and here == point:
                os.killpg(0, signal.SIGKILL)

        reach("before write")
        with write(self, *args, **kwargs) as connection:
            yield connection
            reach("before commit")
        reach("after commit")

    _replace(Database, "write", failing)


def _kill_before_statement(number: int) -> None:
    from sqlalchemy import Engine, event

    numbers = count(1)

    def reach(connection, cursor, statement, *_):
        if statement.split(maxsplit=1)[0] in CHANGES and next(numbers) == number:
            os.killpg(0, signal.SIGKILL)

    event.listen(Engine, "before_cursor_execute", reach)


def _lose_connection(number: int) -> None:
    from infer_app.tables.engine.connect import Database

    read, numbers = Database.read, count(1)

    @contextmanager
    def losing(self):
        with read(self) as connection:
            if next(numbers) == number:
                is_postgres = self.dialect.name == "postgresql"
                own = connection.exec_driver_sql(f"SELECT {'pg_backend_pid' if is_postgres else 'connection_id'}()")
                end = "SELECT pg_terminate_backend(%s)" if is_postgres else "KILL %s"
                with self._engine.connect() as other:
                    other.exec_driver_sql(end % own.scalar())
                print(f"lost read {number}", file=sys.stderr)
            yield connection

    _replace(Database, "read", losing)


def _live_elsewhere(host: str, lease_s: float) -> None:
    import socket

    from infer_app.tables.results import runs

    _replace(socket, "gethostname", lambda: host)
    _replace(runs, "LEASE_S", lease_s)
    _replace(runs.RunStore, "lease_renewal", partialmethod(runs.RunStore.lease_renewal, every_s=lease_s / 2))


def _limit_pages(number: int) -> None:
    from infer_app.tables.engine import sqlite

    connect_sqlite = sqlite.connect_sqlite

    def limited(path, read_only):
        connection = connect_sqlite(path, read_only)
        connection.execute(f"PRAGMA max_page_count = {number}")
        return connection

    _replace(sqlite, "connect_sqlite", limited)


def _stub_handlers() -> None:
    from infer_app.predict import executors
    from infer_app.predict.workers import fork_server
    from tests.faults import stub

    _replace(executors, "open_pool", partial(stub.open_pool, stub.OpenStubHandler))
    _replace(fork_server, "PRELOAD", ("infer_app.predict.workers.parent_death", "tests.faults.stub"))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # as `infer` does first of all
    let_in(json.loads(sys.argv.pop(1)))
    from infer_app.cli import main

    main()
