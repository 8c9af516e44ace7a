"""Where worker processes come from: a fork server that has imported what they need, once for all of them.

Loading torch takes about two seconds of a core; forked from a process that has done it, a worker is ready at once and
shares its memory with the others. The server runs no thread and no model, which is what makes forking it safe.
OpenVINO is not loaded in it: its threads don't survive a fork.
"""

from __future__ import annotations

import ctypes
import fcntl
import logging
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing import forkserver, parent_process, resource_tracker, util
from multiprocessing import process as process_module
from multiprocessing.context import ForkServerContext, ForkServerProcess
from multiprocessing.process import BaseProcess
from pathlib import Path

from infer_app.errors import UsageError, WorkersKilled

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


log = logging.getLogger(__name__)

KILL_LIMIT_S = 3.0  # for a process to be gone once it was killed
START_LIMIT_S = 10.0  # for a server that is killed again and again
SERVER_GONE = 255  # multiprocessing's exit code for a process whose server ended before it
PRELOAD = ("__main__", "infer_app.workers.parent_death", "infer_app.handlers.cpu_handler")


def context() -> ForkServerContext:
    """The context of all worker processes."""
    claim_temporary_folder()
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(list(PRELOAD))
    return found


def start_early() -> None:
    """Start the server, which imports while the caller does other things; else the first worker process starts it."""
    context()
    with signals_blocked():
        forkserver.ensure_running()


@contextmanager
def signals_blocked() -> Iterator[None]:
    """What is started meanwhile never hears SIGINT or SIGTERM, which a terminal or systemd send to all of a group:
    signals are the supervisor's business, from a worker's first moment on.
    """
    with output_silenced():  # it ends with the last process that has its pipe, and cron waits for both streams
        resource_tracker.ensure_running()  # starting it, which the first worker would do, unblocks them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start_process(target: Callable[..., object], *args: object, daemon: bool) -> ForkServerProcess:
    """A process from the server; a server that was killed (by the kernel, for memory) is started again.

    A `daemon` is ended with this process, and may have no processes of its own. Raises WorkersKilled where it can't be.
    """
    give_up_at = time.monotonic() + START_LIMIT_S
    while True:
        process = context().Process(target=target, args=args, daemon=daemon)
        try:
            with signals_blocked():
                process.start()
        except (EOFError, OSError) as error:
            if time.monotonic() > give_up_at:
                raise WorkersKilled(
                    f"no process can be started: {type(error).__name__}: {error}",
                    "is there memory enough, and `ulimit -n`?",
                ) from error
            time.sleep(0.05)  # what is being killed may still look alive
            continue
        return process


def end_process(process: BaseProcess) -> None:
    """Kill a process and wait for its end, but not for ever.

    The kernel keeps a process that is in a call to storage that does not answer, whatever kills it. It is left behind:
    it ends by itself, once the storage answers and before it does anything else.
    """
    process.kill()
    process.join(KILL_LIMIT_S)
    if process.is_alive():
        log.warning("process %s can't be ended while its storage does not answer: left behind", process.pid)
        process_module._children.discard(process)  # type: ignore[attr-defined]  # this program's end would wait for it


@contextmanager
def output_silenced() -> Iterator[None]:
    """Keep both streams from processes that are started meanwhile."""
    kept = {}
    for stream in (1, 2):
        with suppress(OSError):  # closed
            kept[stream] = os.dup(stream)
    silence_output()
    try:
        yield
    finally:
        for stream, copy in kept.items():
            os.dup2(copy, stream)
            os.close(copy)


def silence_output() -> None:
    """Send both streams nowhere, for good: standard output holds the JSON of the run, and libraries print.

    Whoever reads a stream, as cron does, waits for the last process that has it.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(null, stream)
    if null > 2:  # else it took the place of a stream that was closed
        os.close(null)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Asks the kernel for a signal: a worker that hangs in code that never lets other threads run has no other end."""
    pr_set_pdeathsig = 1  # linux/prctl.h
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, number)
