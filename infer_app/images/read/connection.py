"""An HTTP connection whose every wait ends at one deadline, to an address that was checked.

http.client limits each wait by itself, so that a server which sends a byte now and then could hold a reader for ever.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

from infer_app.images.read.addresses import SocketAddress, resolve


class Deadline:
    """`at`, of time.monotonic, is set anew before each request."""

    def __init__(self) -> None:
        self.at = 0.0

    def left(self) -> float:
        """Seconds. Raises TimeoutError when it has passed."""
        left = self.at - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time limit has passed")
        return left


class Connection(http.client.HTTPConnection):
    """To one host, kept open between requests. It belongs to a thread and is closed when that ends.

    Nothing that it holds may refer to it: in a circle the socket could go before `__del__` has closed it.
    """

    def __init__(self, scheme: str, host: str, port: int, may_be_private: bool) -> None:
        super().__init__(host, port)
        self.default_port = http.client.HTTPS_PORT if scheme == "https" else http.client.HTTP_PORT
        self.deadline = Deadline()
        self._is_secure = scheme == "https"
        self._may_be_private = may_be_private

    def connect(self) -> None:
        """Raises OSError, TimeoutError at the deadline, and BadImage for a host that may not be connected to."""
        plain = self._connect_to_any(resolve(self.host, self.port, self._may_be_private))
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.settimeout(self.deadline.left())
            secured = _tls().wrap_socket(plain, server_hostname=self.host) if self._is_secure else plain
        except BaseException:
            plain.close()
            raise
        self.sock = _TimedSocket(secured, self.deadline)

    def __del__(self) -> None:
        self.close()

    def _connect_to_any(self, addresses: Sequence[SocketAddress]) -> socket.socket:
        for number, (family, where) in enumerate(addresses, 1):
            sock = socket.socket(family, socket.SOCK_STREAM)
            try:
                share = self.deadline.left() / (len(addresses) - number + 1)  # a dead one leaves time for the others
                sock.settimeout(share)
                sock.connect(where)
            except OSError:
                sock.close()
                if number == len(addresses):
                    raise
            else:
                return sock
        raise OSError("no address")


class _TimedSocket:
    """As much of a socket as http.client uses."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(self._deadline.left())
        self._sock.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Incoming(self._sock, self._deadline), 1 << 16)

    def close(self) -> None:
        """The socket itself is closed with the last response that reads from it."""
        self._sock.close()


class _Incoming(io.RawIOBase):
    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline
        self._file = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._deadline.left())
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


@cache  # reading the certificates takes some 20 ms
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
