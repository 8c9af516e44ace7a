"""What the rooms of this package raise for an image that can't be predicted; a lane turns it into `Broken`."""

from __future__ import annotations

from infer_app.records import FileFacts, Reason


class BadImage(Exception):
    """One image is at fault, not the run: `reason` is of the closed list, `detail` is for a person."""

    def __init__(self, reason: Reason, detail: str, facts: FileFacts | None = None) -> None:
        super().__init__(reason, detail, facts)  # all three are args, so that it pickles
        self.reason = reason
        self.detail = detail
        self.facts = facts

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"
