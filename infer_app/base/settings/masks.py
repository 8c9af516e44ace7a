"""Mask passwords in URLs and in messages, so that they can be shown."""

from urllib.parse import urlsplit

from sqlalchemy.engine import URL, make_url

# Options of a database URL that are shown; any other could be a password under another or a misspelt name.
_SHOWN_OPTIONS = {"host", "port", "unix_socket", "dbname", "sslmode", "connect_timeout", "charset", "application_name",
                  "results_schema"}  # fmt: skip


def mask_address(url: str) -> str:
    """Return only scheme and host of a web address: user, path and query may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/***"


def mask_url(url: URL) -> str:
    """Return a database URL as text without its password and without options that may be one."""
    masked = {key: value if key in _SHOWN_OPTIONS else "***" for key, value in url.query.items()}
    return url.set(query=masked).render_as_string(hide_password=True).replace("=%2A%2A%2A", "=***")


def mask_text(text: str, url: URL) -> str:
    """Return a driver's message without the parts of the URL that `mask_url` masks."""
    values = (value for key, given in url.normalized_query.items() if key not in _SHOWN_OPTIONS for value in given)
    for secret in sorted({str(url.password or ""), *values} - {""}, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def has_password(url: str) -> bool:
    """Return whether a database URL has a part that `mask_url` masks."""
    parsed = make_url(url)
    return mask_url(parsed) != parsed.render_as_string(hide_password=False)
