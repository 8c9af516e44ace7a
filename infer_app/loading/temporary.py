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

LOCK = "infer.lock"  # by which we tell our folders from those of other programs


@cache
def claim_temporary_folder() -> int | None:
    """Once in a process; returns the lock's descriptor, which is open until the process ends.

    None in a worker, which uses its run's folder.
    """
    if parent_process() is not None:
        return None
    _remove_abandoned(Path(tempfile.gettempdir()))
    folder = Path(util.get_temp_dir())
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
