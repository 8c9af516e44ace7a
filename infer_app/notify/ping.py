"""The ping of healthchecks.io and its likes: url/start, then url for exit code 0 and url/EXIT-CODE for any other."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

from infer_app.notify.errand import BackgroundTask
from infer_app.notify.post import post

START_S = 5.0  # a start that hangs longer does not hold up the end
PLAIN = "text/plain; charset=utf-8"


class Ping:
    """Sends the start as soon as it is made, while the run goes on."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._start = BackgroundTask("start ping", lambda: post(address(url, "start"), b"", PLAIN))

    def end(self, exit_code: int, line: str) -> BackgroundTask:
        """`line` is shown beside the ping. Comes after the start wherever that is still under way."""

        def send() -> None:
            self._start.wait(self._start.began + START_S)
            post(address(self._url, str(exit_code) if exit_code else ""), line.encode(), PLAIN)

        return BackgroundTask("ping", send)

    @property
    def start_problem(self) -> str | None:
        """Why the start was not delivered; None also while it is under way and still may."""
        hangs = not self._start.has_ended and time.monotonic() < self._start.began + START_S
        return None if hangs else self._start.problem


def address(url: str, event: str) -> str:
    """The url of an event: a query stays behind the path."""
    if not event:
        return url
    parts = urlsplit(url)
    return parts._replace(path=f"{parts.path.rstrip('/')}/{event}").geturl()
