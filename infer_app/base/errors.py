"""The errors that end a run, each with an exit code and a hint; a bad image is data and not an error."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager


class InferError(Exception):
    """An error that ends the run. `message` states the problem, `hint` what to do about it."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class UsageError(InferError):
    """A flag, setting or argument is wrong."""

    exit_code = 2


class OtherProject(UsageError):
    """The database belongs to another project."""


class NothingAllowed(UsageError):
    """No image of a day has a location that may be read."""


class ProvesLittle(InferError):
    """A comparison proves neither that two programs give the same nor that they differ."""

    exit_code = 4


class DatabaseUnavailable(InferError):
    """The database can't be reached or opened."""

    exit_code = 10


class SchemaOutdated(InferError):
    """Our tables are missing, older or newer than this program."""

    exit_code = 11


class ModelError(InferError):
    """The model is missing, was changed, was refused by the build, or fails its golden check."""

    exit_code = 12


class ModelChanged(ModelError):
    """Files of the model are not those of its build, or it gives other outputs for the golden images."""


class PixelsChanged(ModelError):
    """Golden images are decoded to other pixels than at the build, or to ones that get another label or object."""


class PrecisionUnavailable(ModelError):
    """The dtype that a day was begun in can't run here; the day is never finished in another one."""


class NoAnswer(ModelError):
    """A process of its own sent nothing within its time limit."""


class DeviceLost(ModelError):
    """The GPU failed and can't be used any more by processes that had it open."""


class DayHeld(InferError):
    """Another run holds this day and model."""

    exit_code = 13


class StorageUnavailable(InferError):
    """The image storage is unavailable; no image was rejected for that."""

    exit_code = 14


class TimeIsOver(InferError):
    """The time limit passed before the first image was predicted."""

    exit_code = 75  # EX_TEMPFAIL of sysexits.h


class WorkersKilled(InferError):
    """Workers are killed again and again, usually because memory is too small."""

    exit_code = 128 + 9


class Interrupted(InferError):
    """A second signal ended the run at once; committed results stay."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"ended by signal {signal_number}")
        self.exit_code = 128 + signal_number

    def __reduce__(self) -> tuple[type[Interrupted], tuple[int]]:
        return type(self), (self.exit_code - 128,)


class MachineFailure(InferError):
    """The machine has no disk space, memory, open files or processes left for the program, or a disk failed."""

    exit_code = 74  # EX_IOERR of sysexits.h


_HINTS = {
    errno.ENOSPC: "free space on the disk that is written to; temporary files lie in TMPDIR",
    errno.EROFS: "make its disk writable, or name another place",
    errno.EIO: "the disk or terminal failed: the kernel's log says more (dmesg)",
    errno.EMFILE: "raise the limit of open files (ulimit -n), or use fewer workers",
    errno.ENOMEM: "free memory, or use fewer workers",
    errno.EAGAIN: "raise the limit of processes (ulimit -u, or the container's), or use fewer workers",
    errno.EPIPE: "the other end of a pipe was closed",
}
_HINTS |= {
    errno.EDQUOT: _HINTS[errno.ENOSPC],
    errno.EFBIG: _HINTS[errno.ENOSPC],
    errno.ENFILE: _HINTS[errno.EMFILE],
}


NO_TORCH = "torch is not installed"


def as_known(error: BaseException) -> InferError | None:
    """Return the error of a run, or what the machine did to the program or lacks as one; None for a bug."""
    if isinstance(error, InferError):
        return error
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        from infer_app.base.packages import install  # takes a while, which other commands save

        without_cuda = (
            "without a GPU, install torch first, from the index of CPU builds that PyTorch's install page names"
        )
        return UsageError(f"{NO_TORCH}, and this needs it", f"{install('torch')} · {without_cuda}")
    if isinstance(error, MemoryError):
        error = OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    elif isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        error = OSError(errno.EAGAIN, str(error))
    if not isinstance(error, OSError) or error.errno not in _HINTS:
        return None
    text = error.strerror or str(error)
    return MachineFailure(f"{error.filename}: {text}" if error.filename else text, _HINTS[error.errno])


@contextmanager
def os_errors_as(kind: type[InferError], what: str, hint: str = "") -> Iterator[None]:
    """Raise an error of this type in place of an OSError: what could not be done, and the reason."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what}: {error.strerror or error}", hint) from error


# A run over several days leaves such a day out and goes on with the others.
OF_ONE_DAY = (DayHeld, NothingAllowed, PrecisionUnavailable, StorageUnavailable, WorkersKilled)

EXIT_OK = 0
EXIT_BUG = 1
EXIT_TOO_MANY_REJECTED = 3
EXIT_TIME_BUDGET = TimeIsOver.exit_code
SIGNALLED = 128  # exit codes above this are 128 + the signal's number

# In order of severity. A run over several days ends with the most severe code of its days.
_BY_SEVERITY = (EXIT_OK, EXIT_TIME_BUDGET, EXIT_TOO_MANY_REJECTED, 13, 14, 11, 10, 74, 12, 2, EXIT_BUG)


def most_severe(exit_codes: list[int]) -> int:
    """Return the most severe exit code of several days; signals are more severe than all others."""
    return max(exit_codes, key=lambda code: _BY_SEVERITY.index(code) if code in _BY_SEVERITY else code, default=EXIT_OK)


def lines_of(error: BaseException) -> list[str]:
    """Return the lines of an error's message that are not blank; the name of its type if there are none."""
    return [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]


def first_line(error: BaseException) -> str:
    """Return the line of a message of torch that says what failed, without its pages of traceback."""
    lines = lines_of(error)
    error_lines = [line for line in lines if "Error: " in line]  # the last one is the cause inside TorchScript code
    return (error_lines[-1] if error_lines else lines[0])[:300]


# TorchScript and other runtimes raise every error of an operation as a RuntimeError that quotes it.
_NO_MEMORY = re.compile(r"out of memory|can(?:no|')t allocate memory|not enough memory|bad[_ ]alloc", re.IGNORECASE)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether a retry may succeed with a smaller batch or later; torch's own error is a RuntimeError."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and bool(_NO_MEMORY.search(str(error))))
