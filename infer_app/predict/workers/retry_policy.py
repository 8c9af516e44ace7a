"""The policy of retries after a worker died: pure functions that decide which images to retry and which to reject.

An image is rejected for a crash only if the decoder crashed on it twice, the second time alone. SIGKILL (the kernel's
out-of-memory killer, an operator) is no image's fault. A chunk is retried image by image after a failure inside the
model, which processes a whole chunk, a failure of the GPU, or KILLS_BEFORE_SPLIT kills. In a step that is done for some
models alone, the image is rejected for these, and retried for the others.
"""

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from infer_app.base.domain import Broken, Chunk, ChunkResult, ImageRef, Reason
from infer_app.base.errors import WorkersKilled
from infer_app.predict.workers.heartbeat import CurrentStep

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
    decided: tuple[Broken, ...] = ()  # of its single image, for models that are no longer among the chunk's

    @property
    def model_indices(self) -> tuple[int, ...]:
        """Return the indices of the models that its images have an outcome for, when it ends."""
        decided = {one.model_index for one in self.decided if one.model_index is not None}
        return tuple(sorted({*self.chunk.model_indices, *decided}))

    def finish(self, result: ChunkResult) -> ChunkResult:
        """Return the task's last result, in which its image has one outcome for each model."""
        if not self.decided:
            return result
        broken = [one for some in result.broken for one in _for_each(some, self.chunk.model_indices)]
        return replace(result, broken=(*broken, *self.decided), model_indices=self.model_indices)


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

    def __init__(self, processes: str, hint: str) -> None:
        self._processes = processes
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
            exits = f"{self._num_exits} {self._processes} ended one after another"
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
    others = [other for other in task.chunk.refs if other is not ref]
    rest = (replace(task, chunk=task.chunk.of(others)),) if others else ()
    if ended.timed_out:
        reason = Reason.READ_TIMEOUT if ended.current_step.stage == "read" else Reason.DECODE_TIMEOUT
        return _reject(task, ref, reason, f"{_step_name(ended)} exceeded the time limit", ended, rest)
    if task.retried_alone:
        what = "the decoder" if ended.current_step.stage in ("read", "decode") else _step_name(ended)
        detail = f"{what} died twice by {_exit_name(ended)}, the second time alone"
        return _reject(task, ref, Reason.DECODER_CRASH, detail, ended, rest)
    alone = replace(task, chunk=task.chunk.of([ref]), retried_alone=True, kills=0)
    return Decision(retry=(*rest, alone))


def _decide_model(task: Task, ended: WorkerExit) -> Decision:
    cause = "took too long" if ended.timed_out else f"died by {_exit_name(ended)}"
    return _try_alone(task, ended, Reason.MODEL_ERROR, f"the model {cause} twice on this image alone")


def _decide_device(task: Task, ended: WorkerExit) -> Decision:
    """Retry the images one by one. The next worker checks the device on the golden images before it processes any."""
    detail = "the GPU failed twice with this image alone, and worked in between"
    return _try_alone(task, ended, Reason.OUT_OF_MEMORY, detail)


def _try_alone(task: Task, ended: WorkerExit, reason: Reason, detail: str) -> Decision:
    """Retry the images one by one, each of them twice, and then reject the one that is left."""
    if len(task.chunk.refs) > 1:
        return Decision(retry=_one_by_one(task))
    if not task.retried_alone:
        return Decision(retry=(replace(task, retried_alone=True),))
    return _reject(task, task.chunk.refs[0], reason, detail, ended)


def _decide_killed(task: Task, ended: WorkerExit) -> Decision:
    kills = task.kills + 1
    if len(task.chunk.refs) == 1 and kills >= KILLS_BEFORE_REJECTION:
        detail = f"its worker was ended {kills} times ({_exit_name(ended)}) while it processed this image alone"
        return _reject(task, task.chunk.refs[0], Reason.OUT_OF_MEMORY, detail, ended)
    if len(task.chunk.refs) > 1 and kills >= KILLS_BEFORE_SPLIT:
        return Decision(retry=_one_by_one(task))
    return Decision(retry=(replace(task, kills=kills),))


def _one_by_one(task: Task) -> tuple[Task, ...]:
    return tuple(replace(task, chunk=task.chunk.of([ref]), kills=0) for ref in task.chunk.refs)


def _reject(
    task: Task, ref: ImageRef, reason: Reason, detail: str, ended: WorkerExit, rest: tuple[Task, ...] = ()
) -> Decision:
    """Reject an image for the models that the step was done for, and retry it for the others, with what is decided."""
    step = ended.current_step
    stage = "model" if ended.exitcode == DEVICE_LOST else {"": "read", "crop": "transform"}.get(step.stage, step.stage)
    broken = Broken(ref, reason, detail, stage, step.file)
    models = task.chunk.model_indices
    failed = step.models.intersection(models) if step.task == task.number else frozenset[int]()
    left = tuple(model for model in models if failed and model not in failed)
    if not left:
        last = task.finish(ChunkResult(0, (), (broken,), models))
        return Decision(last.broken, rest)
    decided = (*task.decided, *_for_each(broken, [model for model in models if model in failed]))
    return Decision(retry=(*rest, Task(task.number, task.chunk.of([ref], left), decided=decided)))


def _for_each(broken: Broken, models: Sequence[int]) -> list[Broken]:
    if broken.model_index is not None:
        return [broken]
    return [replace(broken, model_index=model) for model in models]


def _step_name(ended: WorkerExit) -> str:
    stage = ended.current_step.stage
    return "the crop function" if stage == "crop" else stage


def _exit_name(ended: WorkerExit) -> str:
    if ended.exitcode >= 0:
        return f"exit code {ended.exitcode}"
    try:
        return signal.Signals(-ended.exitcode).name
    except ValueError:
        return f"signal {-ended.exitcode}"
