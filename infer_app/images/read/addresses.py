"""Resolve hosts to the addresses that may be connected to, so that no image's location leads into the local network.

The connection is made to the very address that was checked, because a name may mean another machine a moment later.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any

from infer_app.domain import Reason
from infer_app.images.read.bad_image import BadImage

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
