"""The result of reading an image: its bytes, or a BadImage that a handler turns into `Broken`."""

import re
from dataclasses import dataclass

from infer_app.base.domain import FileFacts, Reason


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
