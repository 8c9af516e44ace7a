"""Drop buffered output that can't be written because the disk is full or the reader has closed the pipe."""

import os
from typing import TextIO


def discard_pending_output(stream: TextIO) -> None:
    """Discard what a stream still buffers after a failed write.

    Otherwise the next flush, which each start of a process does, would fail again. Later output is written as usual.
    """
    number = stream.fileno()
    original, null = os.dup(number), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, number)
        stream.flush()
    finally:
        os.dup2(original, number)
        os.close(original)
        os.close(null)
