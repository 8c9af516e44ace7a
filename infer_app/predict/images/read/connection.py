"""Connect urllib3 to addresses that were checked, and end all waits for a response at one time.

urllib3 itself resolves a name as it connects, after any check, when it could mean another machine; and it limits each
wait for the server separately, so that a server which sends a byte now and then could hold up a reader for ever.
"""

import socket
import ssl
import time
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any

from urllib3 import HTTPConnectionPool, HTTPResponse, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import NewConnectionError

from infer_app.base.domain import Reason
from infer_app.predict.images.read.bad_image import BadImage

_NAT64 = IPv6Network("64:ff9b::/96")  # IPv4 addresses as written in networks without IPv4, RFC 6052

SocketAddress = tuple[socket.AddressFamily, Any]  # what socket.socket and its connect take


def resolve(host: str, port: int, may_be_private: bool) -> Sequence[SocketAddress]:
    """Return the allowed addresses of a host. Raises OSError if it has no address, BadImage if none is allowed."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:  # a label of more than 63 characters
        raise OSError("no host can have this name") from None
    allowed = [(family, where) for family, *_, where in found if _is_allowed(str(where[0]), may_be_private)]
    if not allowed:
        raise BadImage(Reason.LOCATION_NOT_ALLOWED, "its host has an address of a local network, which is not allowed")
    return allowed


def _is_allowed(text: str, may_be_private: bool) -> bool:
    """Return whether an address is allowed; link-local ones never are: clouds serve credentials at 169.254.169.254."""
    address = _innermost(ip_address(text.partition("%")[0]))
    if address.is_multicast or address.is_link_local or address.is_unspecified:
        return False
    is_site_local = isinstance(address, IPv6Address) and address.is_site_local
    return may_be_private or (address.is_global and not is_site_local)


def _innermost(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 address contains, or else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo or [None, None])[1] or address


def seconds_until(ends_at: float) -> float:
    """Return the seconds left until a time of time.monotonic(). Raises TimeoutError if it has passed."""
    left = ends_at - time.monotonic()
    if left <= 0:
        raise TimeoutError("the time limit has passed")
    return left


def open_pool(scheme: str, host: str, port: int, may_be_private: bool, size: int) -> HTTPConnectionPool:
    """Return a pool that keeps up to `size` connections to a host, none of which is opened yet."""
    if scheme == "http":
        return _Pool(host, port, maxsize=size, may_be_private=may_be_private)
    tls = ssl.create_default_context()  # made once: urllib3 would read the certificates for each connection, in 20 ms
    tls.sslsocket_class = _TlsSocket
    return _TlsPool(host, port, maxsize=size, may_be_private=may_be_private, ssl_context=tls)


class _Socket(socket.socket):
    """A socket whose reads all end at `ends_at`, a time of time.monotonic()."""

    ends_at = 0.0

    def recv_into(self, *args: Any) -> int:
        self.settimeout(seconds_until(self.ends_at))
        return super().recv_into(*args)


class _TlsSocket(_Socket, ssl.SSLSocket):
    pass


class _Connection(HTTPConnection):
    sock: _Socket

    def __init__(self, *args: Any, may_be_private: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        self._may_be_private = may_be_private

    def _new_conn(self) -> socket.socket:
        """Connect to an address that was checked; the Host header, TLS and the certificate still use the name.

        Raises NewConnectionError, and BadImage for a host that may not be connected to.
        """
        try:
            addresses = resolve(self.host, self.port, self._may_be_private)
            return _connect_to_any(addresses, self._ends_at())
        except OSError as error:
            raise NewConnectionError(self, "no connection") from error

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as urllib3's own
        self.sock.ends_at = self._ends_at()
        return super().getresponse()

    def _ends_at(self) -> float:
        """Return when the whole request must end: before each step urllib3 sets `timeout` to the time that is left."""
        assert self.timeout is not None
        return time.monotonic() + self.timeout


class _TlsConnection(_Connection, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


def _connect_to_any(addresses: Sequence[SocketAddress], ends_at: float) -> _Socket:
    for number, (family, where) in enumerate(addresses, 1):
        sock = _Socket(family, socket.SOCK_STREAM)
        try:
            # An address that does not answer leaves time for the others.
            sock.settimeout(seconds_until(ends_at) / (len(addresses) - number + 1))
            sock.connect(where)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.settimeout(seconds_until(ends_at))  # for the TLS handshake
        except OSError:
            sock.close()
            if number == len(addresses):
                raise
        else:
            return sock
    raise OSError("no address")
