"""The heartbeat of a worker: its current step in memory shared with the supervisor, which outlives the worker."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from typing import Any

from infer_app.base.domain import FileFacts

NOTHING = -1
STAGES = ("", "read", "decode", "transform", "crop", "model")
MODELS = 256  # of a handler
# number of the record; task, position in the chunk, stage, since; size, modified, sha256; a bit for each model
_LAYOUT = struct.Struct(f"<q qqqd qd32s {MODELS // 8}s")
_CHECKSUM = struct.Struct("<I")
_RECORD_SIZE = _LAYOUT.size + _CHECKSUM.size
SIZE = 2 * _RECORD_SIZE  # bytes of a heartbeat
_UNKNOWN_SIZE = -1
_NO_FILE = FileFacts()


@dataclass(frozen=True, slots=True)
class CurrentStep:
    """The step that a heartbeat records; `position` is the index of an image in its chunk."""

    task: int
    position: int
    stage: str
    since: float  # time.monotonic(), one clock for all processes of a machine
    file: FileFacts
    models: frozenset[int] = frozenset()  # of the handler, for which alone it is done; none: for all of the chunk


class Heartbeat:
    """The current step, which one worker writes (in some microseconds) and its supervisor reads at any time.

    The two processes are not synchronised, and a worker may be stopped or killed while it writes. So there are two
    records, written alternately, each with a checksum. At least one is complete, and the newest complete one counts.
    """

    def __init__(self, memory: Any) -> None:
        self.memory = memory  # a RawArray, passed to the worker as an argument of its process
        self._bytes = memoryview(memory).cast("B")
        self._number = max((record[0] for record in self._complete_records()), default=0)
        self._task = NOTHING

    @classmethod
    def create(cls, context: BaseContext) -> Heartbeat:
        heartbeat = cls(context.RawArray("B", SIZE))
        heartbeat.clear()
        return heartbeat

    def begin_task(self, task: int) -> None:
        self._task = task

    def record(self, position: int, stage: str, file: FileFacts = _NO_FILE, models: Iterable[int] = ()) -> None:
        size = _UNKNOWN_SIZE if file.size is None else file.size
        sha256 = bytes.fromhex(file.sha256) if file.sha256 else b""
        step = (self._task, position, STAGES.index(stage), time.monotonic())
        self._number += 1
        bits = sum(1 << model for model in models).to_bytes(MODELS // 8, "little")
        record = _LAYOUT.pack(self._number, *step, size, file.modified or 0.0, sha256, bits)
        start = self._number % 2 * _RECORD_SIZE
        self._bytes[start : start + _RECORD_SIZE] = record + _CHECKSUM.pack(zlib.crc32(record))

    def clear(self) -> None:
        """Record that the worker is idle."""
        self._task = NOTHING
        self.record(NOTHING, "")

    def read(self) -> CurrentStep:
        """Return the step of the newest complete record; read again if the worker overwrote both meanwhile."""
        while not (records := self._complete_records()):
            pass
        _, task, position, stage, since, size, modified, sha256, bits = max(records)
        known = size != _UNKNOWN_SIZE
        file = FileFacts(size, modified, sha256.hex()) if known else FileFacts()
        flags = int.from_bytes(bits, "little")
        models = frozenset(model for model in range(flags.bit_length()) if flags >> model & 1)
        return CurrentStep(task, position, STAGES[stage], since, file, models)

    def _complete_records(self) -> list[tuple[Any, ...]]:
        found = []
        for start in (0, _RECORD_SIZE):
            record = bytes(self._bytes[start : start + _RECORD_SIZE])
            if _CHECKSUM.unpack_from(record, _LAYOUT.size) == (zlib.crc32(record[: _LAYOUT.size]),):
                found.append(_LAYOUT.unpack_from(record))
        return found
