"""The temporary folder of multiprocessing, locked by its run: what a killed run left there, the next one removes."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from multiprocessing import parent_process, util
from pathlib import Path

from infer_app.errors import UsageError

HINT = "name one with TMPDIR that has room and a short path"
LOCK = "infer.lock"  # by which we tell our folders from those of other programs
MAX_PARENT = 107 - len("/pymp-12345678/listener-12345678")  # bytes: of a socket's path Linux takes 107
SHORT_PARENTS = ("/tmp", "/var/tmp", "/dev/shm")  # where TMPDIR is longer


@cache
def claim_temporary_folder() -> int | None:
    """Once in a process; returns the lock's descriptor, which is open until the process ends.

    None in a worker, which uses its run's folder. Raises UsageError where there is no folder to write into.
    """
    if parent_process() is not None:
        return None
    parent = _parent()
    _remove_abandoned(parent)
    configured, tempfile.tempdir = tempfile.tempdir, str(parent)
    try:
        folder = Path(util.get_temp_dir())
        return _lock(folder)
    except OSError as error:
        raise UsageError(f"no temporary folder can be made in {parent}: {error.strerror}", HINT) from None
    finally:
        tempfile.tempdir = configured


def run_folder() -> Path:
    """This process's own: gone with it, or removed by the next run where it was killed."""
    claim_temporary_folder()
    return Path(util.get_temp_dir())


def _parent() -> Path:
    """Where temporary folders are made, or the first other one whose path is short enough."""
    try:
        first = tempfile.gettempdir()
    except FileNotFoundError as error:
        raise UsageError(f"there is no temporary folder: {error.strerror}", HINT) from None
    for parent in (first, *SHORT_PARENTS):
        if len(os.fsencode(parent)) <= MAX_PARENT and os.access(parent, os.W_OK | os.X_OK):
            return Path(parent)
    raise UsageError(f"the path of the temporary folder {first} is too long for a socket", HINT)


def _lock(folder: Path) -> int:
    unlocked = folder / f"{LOCK}.new"
    descriptor = os.open(unlocked, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    unlocked.rename(folder / LOCK)  # never there without its lock
    return descriptor


def _remove_abandoned(parent: Path) -> None:
    for lock in parent.glob(f"pymp-*/{LOCK}"):
        with suppress(OSError):  # locked by a living run, another user's, or just removed
            descriptor = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(descriptor)
