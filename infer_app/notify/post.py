"""One POST to an address of the user's, which may hold a secret: what is said of a failure never shows it."""

from __future__ import annotations

import base64
import ssl
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from infer_app import __version__

STEP_S = 5.0  # for each wait on the network; whoever can't wait for all of them leaves the thread behind


class Undelivered(Exception):
    """Why, in words."""


def post(url: str, body: bytes, content_type: str) -> None:
    """Done once the server has answered 2xx; what it says beyond that is not read.

    Goes by the proxy that http_proxy, https_proxy and no_proxy name, as urllib does, and checks certificates. Follows
    no redirect: that would take the address's secret, and the body, to somewhere else. Raises Undelivered.
    """
    try:
        with build_opener(_NoRedirect).open(_request(url, body, content_type), timeout=STEP_S):
            return
    except (OSError, HTTPException, ValueError) as error:
        raise Undelivered(_in_words(error)) from None


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def _request(url: str, body: bytes, content_type: str) -> Request:
    parts = urlsplit(url)
    headers = {"Content-Type": content_type, "User-Agent": f"infer_app/{__version__}"}
    user, at, host = parts.netloc.rpartition("@")
    if at:  # urllib takes it for a part of the host's name
        headers["Authorization"] = "Basic " + base64.b64encode(unquote(user).encode()).decode()
    return Request(parts._replace(netloc=host, fragment="").geturl(), body, headers, method="POST")


def _in_words(error: Exception) -> str:
    if isinstance(error, HTTPError):
        redirect = " and redirects are not followed" if 300 <= error.code < 400 else ""
        error.close()
        return f"the server answered {error.code}{redirect}"
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, TimeoutError):
        return "no answer"
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {reason.verify_message}"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return type(reason).__name__  # its text may hold the address
