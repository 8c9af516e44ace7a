"""Who is to blame when a worker dies, and what is tried again: a pure decision.

An image is rejected only when the decoder died on it twice, the second time alone. SIGKILL (the kernel's
out-of-memory killer, an operator) blames no image. Only a failure inside the model, which has a whole chunk in
hand, makes the chunk be tried image by image.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from infer_app.domain import Broken, Chunk, ImageRef, Reason
from infer_app.errors import WorkersKilled
from infer_app.workers.heartbeat import CurrentStep
from infer_app.workers.worker_process import DEVICE_LOST

CRASH_SIGNALS = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})
KILLS_BEFORE_SPLIT = 3
KILLS_BEFORE_REJECTION = 5  # of one image that was alone
MAX_EXITS_IN_A_ROW = 10  # without one result in between, and no sooner than
PATIENCE_S = 60  # seconds after the last result


@dataclass(frozen=True, slots=True)
class Task:
    """A chunk on its way through the workers."""

    number: int
    chunk: Chunk
    retried_alone: bool = False  # one image, alone, on which a decoder died before
    kills: int = 0


@dataclass(frozen=True, slots=True)
class WorkerExit:
    """How a worker ended with a task in hand."""

    exitcode: int  # as multiprocessing gives it: -N for signal N
    timed_out: bool  # killed by the supervisor because one step took too long
    in_hand: CurrentStep


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of the task: images that are rejected, and tasks (chunk, retried_alone, kills) to try again."""

    broken: tuple[Broken, ...] = ()
    retry: tuple[Task, ...] = ()


class ExitLimit:
    """Ends the run when workers keep ending from outside and none gives a result."""

    def __init__(self, who: str, hint: str) -> None:
        self._who = who
        self._hint = hint
        self._num_exits = 0
        self._last_result_at = time.monotonic()

    @property
    def waited_s(self) -> float:
        """Seconds since the last result, or since the run began."""
        return time.monotonic() - self._last_result_at

    def start_run(self) -> None:
        self._last_result_at = time.monotonic()

    def on_result(self) -> None:
        self._num_exits = 0
        self._last_result_at = time.monotonic()

    def on_exit(self) -> None:
        """Count one more. Raises WorkersKilled."""
        self._num_exits += 1
        if self._num_exits >= MAX_EXITS_IN_A_ROW and self.waited_s > PATIENCE_S:
            what = f"{self._num_exits} {self._who} ended one after another"
            raise WorkersKilled(f"{what} and {self.waited_s:.0f} s passed without a result", self._hint)


def decide(task: Task, death: WorkerExit) -> Decision:
    """Every ref of the task is in exactly one of the verdict's parts."""
    if death.exitcode == DEVICE_LOST:
        return _device(task, death)
    crashed = -death.exitcode in CRASH_SIGNALS
    if death.in_hand.task != task.number or not (crashed or death.timed_out):
        return _nobody(task, death)
    if death.in_hand.stage == "model":
        return _model(task, death)
    return _image(task, death)


def _image(task: Task, death: WorkerExit) -> Decision:
    ref = task.chunk.refs[death.in_hand.position]
    rest = _again(task, [other for other in task.chunk.refs if other is not ref])
    if death.timed_out:
        reason = Reason.READ_TIMEOUT if death.in_hand.stage == "read" else Reason.DECODE_TIMEOUT
        return Decision((_broken(ref, reason, f"no end of {death.in_hand.stage} within the time limit", death),), rest)
    if task.retried_alone:
        detail = f"the decoder died twice by {_name(death)}, the second time alone"
        return Decision((_broken(ref, Reason.DECODER_CRASH, detail, death),), rest)
    alone = replace(task, chunk=task.chunk.of([ref]), retried_alone=True, kills=0)
    return Decision(retry=(*rest, alone))


def _model(task: Task, death: WorkerExit) -> Decision:
    if len(task.chunk.refs) > 1:
        return Decision(retry=_one_by_one(task))
    if not task.retried_alone:
        return Decision(retry=(replace(task, retried_alone=True),))
    cause = "took too long" if death.timed_out else f"died by {_name(death)}"
    return Decision(
        (_broken(task.chunk.refs[0], Reason.MODEL_ERROR, f"the model {cause} twice on this image alone", death),)
    )


def _device(task: Task, death: WorkerExit) -> Decision:
    """Try the images one by one. A worker that is replaced has proved the device on golden images before its first."""
    if len(task.chunk.refs) > 1:
        return Decision(retry=_one_by_one(task))
    if not task.retried_alone:
        return Decision(retry=(replace(task, retried_alone=True),))
    detail = "the GPU failed twice with this image alone, and worked in between"
    return Decision((Broken(task.chunk.refs[0], Reason.OUT_OF_MEMORY, detail, "model", death.in_hand.file),))


def _nobody(task: Task, death: WorkerExit) -> Decision:
    kills = task.kills + 1
    if len(task.chunk.refs) == 1 and kills >= KILLS_BEFORE_REJECTION:
        detail = f"its worker was ended {kills} times ({_name(death)}) while it was alone in hand"
        return Decision((_broken(task.chunk.refs[0], Reason.OUT_OF_MEMORY, detail, death),))
    if len(task.chunk.refs) > 1 and kills >= KILLS_BEFORE_SPLIT:
        return Decision(retry=_one_by_one(task))
    return Decision(retry=(replace(task, kills=kills),))


def _again(task: Task, refs: Sequence[ImageRef]) -> tuple[Task, ...]:
    return (replace(task, chunk=task.chunk.of(refs)),) if refs else ()


def _one_by_one(task: Task) -> tuple[Task, ...]:
    return tuple(replace(task, chunk=task.chunk.of([ref]), kills=0) for ref in task.chunk.refs)


def _broken(ref: ImageRef, reason: Reason, detail: str, death: WorkerExit) -> Broken:
    return Broken(ref, reason, detail, death.in_hand.stage or "read", death.in_hand.file)


def _name(death: WorkerExit) -> str:
    if death.exitcode >= 0:
        return f"exit code {death.exitcode}"
    try:
        return signal.Signals(-death.exitcode).name
    except ValueError:
        return f"signal {-death.exitcode}"
