"""URLs as they may be shown: whatever in them could be a password is left out."""

from __future__ import annotations

from urllib.parse import urlsplit

from sqlalchemy.engine import URL, make_url

# Of a database URL's options; any other could be a password by another name, or a slip of the pen for one.
_SHOWN_OPTIONS = {"host", "port", "unix_socket", "dbname", "sslmode", "connect_timeout", "charset", "application_name"}


def mask_address(url: str) -> str:
    """Of a web address no more than whose it is: user, path and query may be its password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/***"


def mask_url(url: URL) -> str:
    """The URL as it may be shown: no password, wherever in it one stands."""
    masked = {key: value if key in _SHOWN_OPTIONS else "***" for key, value in url.query.items()}
    return url.set(query=masked).render_as_string(hide_password=True)


def mask_text(text: str, url: URL) -> str:
    """What a driver says of the URL, without what `mask_url` leaves out."""
    values = (value for key, given in url.normalized_query.items() if key not in _SHOWN_OPTIONS for value in given)
    for secret in sorted({str(url.password or ""), *values} - {""}, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def has_password(url: str) -> bool:
    parsed = make_url(url)
    return mask_url(parsed) != parsed.render_as_string(hide_password=False)
