"""Notify web addresses of a run: POST requests in background threads, and the pings of healthchecks.io.

An address may hold a secret, so no message about a failure shows it.
"""

import base64
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from infer_app import __version__

STEP_S = 5.0  # time limit of each wait on the network; a caller with less time abandons the thread
START_S = 5.0  # a start ping that takes longer does not delay the end ping
POLL_EVERY_S = 0.05
PLAIN = "text/plain; charset=utf-8"


class Undelivered(Exception):
    """A request was not answered with 2xx; the message is the reason and shows no part of the address."""


class BackgroundTask:
    """A function that runs in a daemon thread from construction on.

    A thread that hangs (resolving a name, or on a server that sends its answer slowly) ends with the process. So the
    task logs nothing itself; its caller reads `problem`.
    """

    def __init__(self, name: str, function: Callable[[], None]) -> None:
        self.name = name
        self.problem: str | None = "no answer"  # why the function has not succeeded; None once it has
        self.started_at = time.monotonic()
        self._function = function
        self._ended = threading.Event()
        try:
            threading.Thread(target=self._run, name=name, daemon=True).start()
        except RuntimeError as error:  # the machine can't start another thread
            self.problem = str(error)
            self._ended.set()

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def wait(self, until: float) -> None:
        """Wait for the end, at most until a time of time.monotonic()."""
        self._ended.wait(max(0.0, until - time.monotonic()))

    def _run(self) -> None:
        try:
            self._function()
            self.problem = None
        except Exception as error:  # not even a bug in here may make a run look failed
            self.problem = str(error) if isinstance(error, Undelivered) else type(error).__name__
        self._ended.set()


class Ping:
    """The two pings of a run: `url`/start on construction, then `url` for exit code 0 and `url`/EXIT-CODE for others.

    The start ping is sent in the background, while the run goes on; the end ping waits for it up to `start_s`.
    """

    def __init__(self, url: str, start_s: float = START_S) -> None:
        self._url, self._start_s = url, start_s
        self._start = BackgroundTask("start ping", lambda: post(event_url(url, "start"), b"", PLAIN))

    def end(self, exit_code: int, line: str) -> BackgroundTask:
        """Send the end ping with `line` as its body, after the start ping unless that one takes too long."""

        def send() -> None:
            self._start.wait(self._start.started_at + self._start_s)
            post(event_url(self._url, str(exit_code) if exit_code else ""), line.encode(), PLAIN)

        return BackgroundTask("ping", send)


def wait_for(tasks: Sequence[BackgroundTask], until: float, is_over: Callable[[], bool]) -> None:
    """Wait until all tasks have ended, `until` (of time.monotonic()) has passed, or `is_over` returns true."""
    while not is_over() and time.monotonic() < until:
        pending = [task for task in tasks if not task.has_ended]
        if not pending:
            return
        pending[0].wait(min(until, time.monotonic() + POLL_EVERY_S))


def post(url: str, body: bytes, content_type: str, step_s: float = STEP_S) -> None:
    """Send a POST request and return once the server has answered 2xx; the body of the answer is not read.

    Uses the proxy that http_proxy, https_proxy and no_proxy name, as urllib does, and checks certificates. Follows no
    redirect: that would send the address's secret, and the body, to another server. Raises Undelivered.
    """
    try:
        with build_opener(_NoRedirect).open(_request(url, body, content_type), timeout=step_s):
            return
    except (OSError, HTTPException, ValueError) as error:
        raise Undelivered(_describe(error)) from None


def event_url(url: str, event: str) -> str:
    """Append an event to the path of a ping's URL, before its query."""
    if not event:
        return url
    parts = urlsplit(url)
    return parts._replace(path=f"{parts.path.rstrip('/')}/{event}").geturl()


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def _request(url: str, body: bytes, content_type: str) -> Request:
    parts = urlsplit(url)
    headers = {"Content-Type": content_type, "User-Agent": f"infer_app/{__version__}"}
    user, at, host = parts.netloc.rpartition("@")
    if at:  # urllib would take it as part of the host name
        headers["Authorization"] = "Basic " + base64.b64encode(unquote(user).encode()).decode()
    return Request(parts._replace(netloc=host, fragment="").geturl(), body, headers, method="POST")


def _describe(error: Exception) -> str:
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
