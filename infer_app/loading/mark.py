"""What a worker has in hand, in memory it shares with its supervisor: it outlives the worker's death."""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from typing import Any

from infer_app.records import FileFacts

NOTHING = -1
STAGES = ("", "read", "decode", "transform", "model")
_LAYOUT = struct.Struct("<qqqd qd32s")  # task, position in the chunk, stage, since; size, modified, sha256
_UNKNOWN_SIZE = -1


@dataclass(frozen=True, slots=True)
class InHand:
    """One look at a mark. `position` is that of the image in its chunk; the model has the whole chunk in hand."""

    task: int
    position: int
    stage: str
    since: float  # time.monotonic(), one clock for all processes of a machine
    file: FileFacts


class Mark:
    """Written by one worker at every step (about a microsecond), read by its supervisor."""

    def __init__(self, memory: Any) -> None:
        self.memory = memory  # a RawArray: travels to the worker as an argument of its process
        self._task = NOTHING

    @classmethod
    def create(cls, context: BaseContext) -> Mark:
        mark = cls(context.RawArray("B", _LAYOUT.size))
        mark.rest()
        return mark

    def begin_task(self, task: int) -> None:
        self._task = task

    def hold(self, position: int, stage: str, file: FileFacts = FileFacts()) -> None:  # noqa: B008 (frozen)
        size = _UNKNOWN_SIZE if file.size is None else file.size
        sha256 = bytes.fromhex(file.sha256) if file.sha256 else b""
        _LAYOUT.pack_into(
            self.memory,
            0,
            self._task,
            position,
            STAGES.index(stage),
            time.monotonic(),
            size,
            file.modified or 0.0,
            sha256,
        )

    def rest(self) -> None:
        """Nothing in hand."""
        self._task = NOTHING
        self.hold(NOTHING, "")

    def look(self) -> InHand:
        task, position, stage, since, size, modified, sha256 = _LAYOUT.unpack_from(self.memory)
        known = size != _UNKNOWN_SIZE
        file = FileFacts(size, modified, sha256.hex()) if known else FileFacts()
        return InHand(task, position, STAGES[stage], since, file)
