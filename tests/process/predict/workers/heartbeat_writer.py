"""Writes a heartbeat as fast as it can, in records whose every field follows from one number."""

import itertools
from typing import Any

from infer_app.base.domain import FileFacts
from infer_app.predict.workers.heartbeat import STAGES, Heartbeat


def step(number: int) -> tuple[int, int, str, FileFacts]:
    """Return task, position, stage and file of the record of this number."""
    sha256 = f"{number:08x}" * 8
    return number, number % 256, STAGES[1 + number % 4], FileFacts(number, number / 8, sha256)


def write_for_ever(memory: Any) -> None:
    heartbeat = Heartbeat(memory)
    for number in itertools.count(1):
        task, position, stage, file = step(number)
        heartbeat.begin_task(task)
        heartbeat.record(position, stage, file)
