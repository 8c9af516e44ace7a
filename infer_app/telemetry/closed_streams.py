"""Words that can't be written, for a full disk or a reader who has gone: they are forgotten and nothing else is."""

from __future__ import annotations

import os
from typing import TextIO


def forget(stream: TextIO) -> None:
    """What a stream holds back after a failed write: whoever flushes it next, as each start of a process does, would
    fail for it. Later words are tried again."""
    number = stream.fileno()
    there, nowhere = os.dup(number), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, number)
        stream.flush()
    finally:
        os.dup2(there, number)
        os.close(there)
        os.close(nowhere)
