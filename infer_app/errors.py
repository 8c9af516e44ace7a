"""Failures that end a run, each with its exit code and a hint; a bad image is data, not an error."""

from __future__ import annotations


class InferError(Exception):
    """A run that can't go on: `message` says what and which, `hint` what to do next."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class UsageError(InferError):
    """A wrong flag, setting or argument."""

    exit_code = 2


class NothingAllowed(UsageError):
    """No image of a day has a location that may be read."""


class DatabaseUnavailable(InferError):
    """The database can't be reached or opened."""

    exit_code = 10


class SchemaOutdated(InferError):
    """Our tables are missing, older or newer than this program."""

    exit_code = 11


class ModelError(InferError):
    """The model is missing, changed, refused at build, or fails its golden check."""

    exit_code = 12


class DeviceLost(ModelError):
    """The GPU failed, and works for no process that had it open."""


class DayHeld(InferError):
    """Another run holds this day and model."""

    exit_code = 13


class StorageUnavailable(InferError):
    """The image storage is gone; nothing was rejected for it."""

    exit_code = 14


class WorkersKilled(InferError):
    """Workers end again and again from outside, usually for want of memory."""

    exit_code = 128 + 9


class Interrupted(InferError):
    """Ended at once by a second signal; what was committed stays."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"ended by signal {signal_number}")
        self.exit_code = 128 + signal_number

    def __reduce__(self) -> tuple[type[Interrupted], tuple[int]]:
        return type(self), (self.exit_code - 128,)


EXIT_OK = 0
EXIT_BUG = 1
EXIT_TOO_MANY_REJECTED = 3
EXIT_TIME_BUDGET = 75
SIGNALLED = 128  # an exit code from here on is that of a signal

# From harmless to grave. A run over several days ends with the gravest code of its days.
_GRAVITY = (EXIT_OK, EXIT_TIME_BUDGET, EXIT_TOO_MANY_REJECTED, 13, 14, 11, 10, 12, 2, EXIT_BUG)


def gravest(exit_codes: list[int]) -> int:
    """The exit code of several days: a signal before everything else, then by gravity."""
    return max(exit_codes, key=lambda code: _GRAVITY.index(code) if code in _GRAVITY else code, default=EXIT_OK)
