"""PostgreSQL's connection: arrays sent in binary, and detection of a server that has frozen."""

from __future__ import annotations

import time
from collections.abc import Generator
from functools import partial
from typing import Any

import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.abc import Loader as AbstractLoader
from psycopg.adapt import Dumper, Loader
from psycopg.errors import ConnectionTimeout, OperationalError
from psycopg.pq import Format

from infer_app.tables.engine import reconnect
from infer_app.tables.engine.array_upsert import BinaryArray
from infer_app.tables.engine.column_types import OddTime

# Returns no row behind a pooler, whose session numbers are not the server's.
_WAITS_FOR_LOCK = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"


class _BinaryArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, array: BinaryArray) -> BinaryArray:
        return array


class _TimeLoader(Loader):
    """Loads a time as psycopg does, and what no datetime holds as text: one such row must not end a query."""

    exact: type[AbstractLoader]

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        self._exact = self.exact(oid, context)

    def load(self, data: Buffer) -> object:
        try:
            return self._exact.load(data)
        except psycopg.DataError:
            return OddTime(bytes(data).decode())


class WatchedConnection(psycopg.Connection[Any]):
    """A connection that raises an error when its server answers neither it nor a new connection.

    A paused machine or a hanging disk causes that. The machine's kernel still acknowledges packets, so no TCP timeout
    detects it.
    """

    reconnect: partial[WatchedConnection]

    @classmethod
    def open(cls, *arguments: Any, **options: Any) -> WatchedConnection:
        opened = cls.connect(*arguments, **options)
        assert isinstance(opened, cls)
        opened.adapters.register_dumper(BinaryArray, _BinaryArrayDumper)
        for name in ("date", "timestamp", "timestamptz"):
            exact = opened.adapters.get_loader(opened.adapters.types[name].oid, Format.TEXT)
            opened.adapters.register_loader(name, type("TimeLoader", (_TimeLoader,), {"exact": exact}))
        opened.reconnect = partial(cls.open, *arguments, **options)
        opened._set_formats()
        return opened

    def _set_formats(self) -> None:
        """Undo what a role or database sets of formats: psycopg reads ISO times, our literals hold backslashes."""
        for name, value in (("DateStyle", "ISO"), ("standard_conforming_strings", "on")):
            if not (self.info.parameter_status(name) or "").startswith(value):
                self.autocommit = True  # a rollback would undo the setting
                self.execute(f"SET {name} = {value}")
                self.autocommit = False

    def wait(self, gen: Any, *more: Any, **options: Any) -> Any:
        try:
            return super().wait(self._watched(gen), *more, **options)
        except psycopg.Error:
            raise
        except BaseException:  # a signal: wait neither for the answer nor for a rollback
            self.close()
            raise

    def rollback(self) -> None:
        """Roll back unless the connection is closed: then the server does it."""
        if not self.closed:
            super().rollback()

    def _watched(self, gen: Any) -> Generator[Any, Any, Any]:
        """Watch psycopg's generator, which is resumed every tenth of a second while the server is silent."""
        began_at = silent_since = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                now = time.monotonic()
                if ready:
                    began_at = silent_since = now
                elif now - silent_since > reconnect.SILENCE_S:
                    self._check_server(waited_s=now - began_at)
                    silent_since = time.monotonic()
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value

    def _check_server(self, waited_s: float) -> None:
        """Close and raise OperationalError if a new connection gets no answer either, or if a lock is held too long."""
        try:
            with self.reconnect() as other:
                waits_for_lock = other.execute(_WAITS_FOR_LOCK, [self.info.backend_pid]).fetchone()
        except ConnectionTimeout:
            self.close()
            raise OperationalError(f"no answer for {reconnect.SILENCE_S:.0f} s, nor to a new connection") from None
        except OperationalError:
            return  # the server answered
        if waits_for_lock is not None and waited_s > reconnect.LOCK_LIMIT_S:
            self.close()
            raise OperationalError(f"another session has held a lock for {waited_s:.0f} s: pg_stat_activity names it")
