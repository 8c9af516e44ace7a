"""What the rooms of this package raise for an image that can't be predicted; a handler turns it into `Broken`."""

from __future__ import annotations

import re

from infer_app.domain import FileFacts, Reason


class BadImage(Exception):
    """One image is at fault, not the run: `reason` is of the closed list, `detail` is for a person."""

    def __init__(self, reason: Reason, detail: str, facts: FileFacts | None = None) -> None:
        super().__init__(reason, detail, facts)  # all three are args, so that it pickles
        self.reason = reason
        self.detail = detail
        self.facts = facts

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


# What an error message means, the first that matches. Pillow's words are here too, for every format.
_MEANINGS = (
    (re.compile(r"premature end|truncated", re.IGNORECASE), Reason.TRUNCATED),
    (re.compile(r"insufficient memory|memory limit", re.IGNORECASE), Reason.OUT_OF_MEMORY),
    (
        re.compile(
            r"unsupported (?!marker)|not supported|not implemented|omitted at compile|unknown pixel mode", re.IGNORECASE
        ),
        Reason.UNSUPPORTED_FORMAT,
    ),
)


def reason_of(message: str) -> Reason:
    """Corrupt, unless a decoder's message says otherwise."""
    return next((reason for pattern, reason in _MEANINGS if pattern.search(message)), Reason.CORRUPT)
