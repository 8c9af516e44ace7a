"""The clock of a program's processes, set by libfaketime: file times and monotonic clocks stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
needs_faketime = pytest.mark.skipif(LIBRARY is None, reason="needs faketime: apt-get install faketime")


class Clock:
    """A clock that goes on from where it is set, for all processes that get its variables."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.environ: Mapping[str, str] = {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set(self, now: datetime) -> None:
        self._file.write_text(f"{(now - datetime.now(UTC)).total_seconds():+.0f}\n")
