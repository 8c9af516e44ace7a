"""The policy of retries after a worker died: pure functions that decide which images to retry and which to reject.

An image is rejected for a crash only if the decoder crashed on it twice, the second time alone. SIGKILL (the kernel's
out-of-memory killer, an operator) is no image's fault. A chunk is retried image by image after a failure inside the
model, which processes a whole chunk, a failure of the GPU, or KILLS_BEFORE_SPLIT kills.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from infer_app.domain import Broken, Chunk, ImageRef, Reason
from infer_app.errors import WorkersKilled
from infer_app.workers.heartbeat import CurrentStep

CRASH_SIGNALS = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})
DEVICE_LOST = 76  # exit code of a worker whose GPU failed: another process may be able to use it
KILLS_BEFORE_SPLIT = 3
KILLS_BEFORE_REJECTION = 5  # of a task with one image
MAX_EXITS_IN_A_ROW = 10  # without a result in between; also required:
MIN_NO_RESULT_S = 60  # seconds after the last result


@dataclass(frozen=True, slots=True)
class Task:
    """A chunk that is given to workers, with its retries so far."""

    number: int
    chunk: Chunk
    retried_alone: bool = False  # a single image, retried after a crash
    kills: int = 0


@dataclass(frozen=True, slots=True)
class WorkerExit:
    """How a worker process ended, and its step at that time."""

    exitcode: int  # of multiprocessing: -N for signal N
    timed_out: bool  # killed by the supervisor because one step took too long
    current_step: CurrentStep


@dataclass(frozen=True, slots=True)
class Decision:
    """The images of a task to reject, and the tasks to retry."""

    broken: tuple[Broken, ...] = ()
    retry: tuple[Task, ...] = ()


class ExitLimit:
    """Ends the run when workers keep being killed without any result."""

    def __init__(self, kind: str, hint: str) -> None:
        self._kind = kind
        self._hint = hint
        self._num_exits = 0
        self._last_result_at = time.monotonic()

    @property
    def waited_s(self) -> float:
        """Return the seconds since the last result or the start of the run."""
        return time.monotonic() - self._last_result_at

    def start_run(self) -> None:
        self._last_result_at = time.monotonic()

    def on_result(self) -> None:
        self._num_exits = 0
        self._last_result_at = time.monotonic()

    def on_exit(self) -> None:
        """Count another exit. Raises WorkersKilled at the limit."""
        self._num_exits += 1
        if self._num_exits >= MAX_EXITS_IN_A_ROW and self.waited_s > MIN_NO_RESULT_S:
            exits = f"{self._num_exits} {self._kind} ended one after another"
            raise WorkersKilled(f"{exits} and {self.waited_s:.0f} s passed without a result", self._hint)


def decide(task: Task, ended: WorkerExit) -> Decision:
    """Decide which images of the worker's task to reject and which to retry; every ref is in exactly one part."""
    if ended.exitcode == DEVICE_LOST:
        return _decide_device(task, ended)
    crashed = -ended.exitcode in CRASH_SIGNALS
    if ended.current_step.task != task.number or not (crashed or ended.timed_out):
        return _decide_killed(task, ended)
    if ended.current_step.stage == "model":
        return _decide_model(task, ended)
    return _decide_image(task, ended)


def _decide_image(task: Task, ended: WorkerExit) -> Decision:
    ref = task.chunk.refs[ended.current_step.position]
    rest = _retry(task, [other for other in task.chunk.refs if other is not ref])
    if ended.timed_out:
        reason = Reason.READ_TIMEOUT if ended.current_step.stage == "read" else Reason.DECODE_TIMEOUT
        detail = f"{ended.current_step.stage} exceeded the time limit"
        return Decision((_broken(ref, reason, detail, ended),), rest)
    if task.retried_alone:
        detail = f"the decoder died twice by {_exit_name(ended)}, the second time alone"
        return Decision((_broken(ref, Reason.DECODER_CRASH, detail, ended),), rest)
    alone = replace(task, chunk=task.chunk.of([ref]), retried_alone=True, kills=0)
    return Decision(retry=(*rest, alone))


def _decide_model(task: Task, ended: WorkerExit) -> Decision:
    if len(task.chunk.refs) > 1:
        return Decision(retry=_one_by_one(task))
    if not task.retried_alone:
        return Decision(retry=(replace(task, retried_alone=True),))
    cause = "took too long" if ended.timed_out else f"died by {_exit_name(ended)}"
    return Decision(
        (_broken(task.chunk.refs[0], Reason.MODEL_ERROR, f"the model {cause} twice on this image alone", ended),)
    )


def _decide_device(task: Task, ended: WorkerExit) -> Decision:
    """Retry the images one by one. The next worker checks the device on the golden images before it processes any."""
    if len(task.chunk.refs) > 1:
        return Decision(retry=_one_by_one(task))
    if not task.retried_alone:
        return Decision(retry=(replace(task, retried_alone=True),))
    detail = "the GPU failed twice with this image alone, and worked in between"
    return Decision((Broken(task.chunk.refs[0], Reason.OUT_OF_MEMORY, detail, "model", ended.current_step.file),))


def _decide_killed(task: Task, ended: WorkerExit) -> Decision:
    kills = task.kills + 1
    if len(task.chunk.refs) == 1 and kills >= KILLS_BEFORE_REJECTION:
        detail = f"its worker was ended {kills} times ({_exit_name(ended)}) while it processed this image alone"
        return Decision((_broken(task.chunk.refs[0], Reason.OUT_OF_MEMORY, detail, ended),))
    if len(task.chunk.refs) > 1 and kills >= KILLS_BEFORE_SPLIT:
        return Decision(retry=_one_by_one(task))
    return Decision(retry=(replace(task, kills=kills),))


def _retry(task: Task, refs: Sequence[ImageRef]) -> tuple[Task, ...]:
    return (replace(task, chunk=task.chunk.of(refs)),) if refs else ()


def _one_by_one(task: Task) -> tuple[Task, ...]:
    return tuple(replace(task, chunk=task.chunk.of([ref]), kills=0) for ref in task.chunk.refs)


def _broken(ref: ImageRef, reason: Reason, detail: str, ended: WorkerExit) -> Broken:
    return Broken(ref, reason, detail, ended.current_step.stage or "read", ended.current_step.file)


def _exit_name(ended: WorkerExit) -> str:
    if ended.exitcode >= 0:
        return f"exit code {ended.exitcode}"
    try:
        return signal.Signals(-ended.exitcode).name
    except ValueError:
        return f"signal {-ended.exitcode}"
