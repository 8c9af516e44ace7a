"""The clock of a program's processes, set by libfaketime: file times and monotonic clocks stay as they are."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
needs_faketime = pytest.mark.skipif(LIBRARY is None, reason="needs faketime: apt-get install faketime")


class Clock:
    """A clock that goes on from where it is set, for processes that get its variables;
    one with a file can be set while they run."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        common = {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1", "LD_PRELOAD": str(LIBRARY)}
        moves = {"FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1"}  # read at each question: slow
        self.environ: dict[str, str] = common | (moves if file else {})

    def set(self, now: datetime) -> None:
        offset = f"{(now - datetime.now(UTC)).total_seconds():+.0f}"
        if self._file:
            self._file.write_text(f"{offset}\n")
        else:
            self.environ["FAKETIME"] = offset
