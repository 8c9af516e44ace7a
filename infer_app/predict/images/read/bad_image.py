"""The result of reading an image: its bytes, or a BadImage that a handler turns into `Broken`; a Transient is retried.

Pauses between tries are random, so that readers don't all retry at the same time.
"""

import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from infer_app.base.domain import FileFacts, Reason

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 8.0
LIMITED_PAUSE_S = 1.0  # for a server that allows some reads a second

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ImageBytes:
    """An encoded image as it was read, from a file or from elsewhere."""

    data: bytes
    facts: FileFacts
    mode: int = 0o666  # permissions of its file; those of a new file where it is no file


class BadImage(Exception):
    """An image that can't be predicted, through no fault of the run; `reason` is for programs, `detail` for people."""

    def __init__(self, reason: Reason, detail: str, facts: FileFacts | None = None) -> None:
        super().__init__(reason, detail, facts)  # all three are args, so that it pickles
        self.reason = reason
        self.detail = detail
        self.facts = facts

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


# The reasons that messages of decoders stand for, of libjpeg-turbo as well as of Pillow; the first match counts.
_REASON_PATTERNS = (
    (re.compile(r"premature end|truncated", re.IGNORECASE), Reason.TRUNCATED),
    (re.compile(r"insufficient memory|memory limit", re.IGNORECASE), Reason.OUT_OF_MEMORY),
    (
        re.compile(
            r"unsupported (?!marker)|not (?:supported|implemented|been built)|omitted at compile|unknown pixel mode",
            re.IGNORECASE,
        ),
        Reason.UNSUPPORTED_FORMAT,
    ),
)


def reason_of(message: str) -> Reason:
    """Return the reason that a decoder's message stands for; CORRUPT if the message is not a known one."""
    return next((reason for pattern, reason in _REASON_PATTERNS if pattern.search(message)), Reason.CORRUPT)


def too_large(size: int, max_bytes: int, facts: FileFacts | None = None) -> BadImage:
    """Return the BadImage for an image of more than `max_bytes`."""
    detail = f"{size:,} bytes, at most {max_bytes:,} are read"
    return BadImage(Reason.TOO_LARGE_BYTES, detail, facts or FileFacts(size=size))


class Transient(Exception):
    """A read failure that may be temporary; `pause_s` is the pause that the server requested.

    `is_limit`: the server allows no more reads now, which says nothing of this picture.
    """

    def __init__(self, detail: str, pause_s: float | None = None, *, is_limit: bool = False) -> None:
        super().__init__(detail, pause_s)
        self.detail = detail
        self.pause_s = pause_s
        self.is_limit = is_limit


def with_retries(attempt: Callable[[], T], retries: int, deadline: float) -> T:
    """Call `attempt`, and after a Transient again, with exponential back-off and full jitter.

    Raises BadImage(READ_ERROR) when the retries, or the time until the deadline, are used up; a server's limit uses up
    the time alone.
    """
    number = 0
    while True:
        try:
            return attempt()
        except Transient as failure:
            most = LIMITED_PAUSE_S if failure.is_limit else LONGEST_PAUSE_S
            longest = min(most, FIRST_PAUSE_S * 2**number)
            pause = random.uniform(0, longest) if failure.pause_s is None else failure.pause_s
            is_last = number >= retries and not failure.is_limit
            if is_last or time.monotonic() + pause >= deadline:
                times = f"; tried {number + 1} times" if number else ""
                raise BadImage(Reason.READ_ERROR, f"{failure.detail}{times}") from failure
        time.sleep(pause)
        number += 1
