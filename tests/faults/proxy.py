"""A TCP proxy before a server: it delays commits and cuts connections, also between a commit and its answer."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

import pytest
from sqlalchemy import make_url

COMMIT = (b"\x03COMMIT", b"COMMIT\0")  # at the end of MariaDB's packet, and of PostgreSQL's message
BYTES = 1 << 16


class Proxy:
    """`with Proxy(url) as proxy`: proxy.url leads to the same database. Commits are numbered from 1."""

    def __init__(self, url: str, commit_s: float = 0.0, cut_at: int = 0) -> None:
        """Each commit waits for `commit_s`; of the one with number `cut_at` nobody hears whether it was done."""
        parsed = make_url(url)
        if not parsed.query:
            pytest.skip("only a server has connections to cut")
        self._socket = parsed.query.get("unix_socket") or f"{parsed.query['host']}/.s.PGSQL.5432"
        self._commit_s, self._cut_at = commit_s, cut_at
        self.num_commits = 0
        self._connections: list[socket.socket] = []
        self._door = socket.create_server(("127.0.0.1", 0))
        port = self._door.getsockname()[1]
        self.url = parsed.set(host="127.0.0.1", port=port, query={}).render_as_string(hide_password=False)

    def cut(self) -> None:
        """Ends all connections at once."""
        while self._connections:
            _end(self._connections.pop())

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        _end(self._door)
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                server = socket.socket(socket.AF_UNIX)
                try:
                    server.connect(self._socket)
                except OSError:
                    _end(client)
                    continue
                self._connections += [client, server]
                threading.Thread(target=self._to_server, args=(client, server), daemon=True).start()
                threading.Thread(target=self._to_client, args=(server, client), daemon=True).start()

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(BYTES):
                if data.endswith(COMMIT):
                    self.num_commits += 1
                    time.sleep(self._commit_s)
                    if self.num_commits == self._cut_at:
                        client.shutdown(socket.SHUT_WR)  # the answer will not be heard
                server.sendall(data)
        _end(client, server)

    def _to_client(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(BYTES):
                client.sendall(data)
        _end(client, server)


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
