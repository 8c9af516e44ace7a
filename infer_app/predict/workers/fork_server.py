"""The fork server from which worker processes are started, its temporary folder, and the end of processes.

Importing what a worker needs takes a fifth of a second. Forked from a process that has imported it, a worker is ready
at once and shares memory with the others. The server runs no threads and no model, so forking it is safe.
"""

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

from infer_app.base.errors import UsageError, WorkersKilled, os_errors_as

HINT = "name one with TMPDIR that has free space and a short path"
LOCK = "infer.lock"  # distinguishes our folders from those of other programs
MAX_PARENT = 107 - len("/pymp-12345678/listener-12345678")  # bytes: Linux limits a socket's path to 107
SHORT_PARENTS = ("/tmp", "/var/tmp", "/dev/shm")  # used if TMPDIR is longer


@cache
def claim_temporary_folder() -> int | None:
    """Make and lock this process's temporary folder once, and return the descriptor of its lock.

    Return None in a worker, which uses its run's folder. Raises UsageError if no folder is writable.
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
    """Return this process's temporary folder. It is removed at exit, or by the next run if this process is killed."""
    claim_temporary_folder()
    return Path(util.get_temp_dir())


def _parent() -> Path:
    """Return the parent of temporary folders: the configured one, or the first with a short enough path."""
    with os_errors_as(UsageError, "there is no temporary folder", HINT):
        first = tempfile.gettempdir()
    for parent in (first, *SHORT_PARENTS):
        if len(os.fsencode(parent)) <= MAX_PARENT and os.access(parent, os.W_OK | os.X_OK):
            return Path(parent)
    raise UsageError(f"the path of the temporary folder {first} is too long for a socket", HINT)


def _lock(folder: Path) -> int:
    unlocked = folder / f"{LOCK}.new"
    descriptor = os.open(unlocked, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    unlocked.rename(folder / LOCK)  # so that it never exists unlocked
    return descriptor


def _remove_abandoned(parent: Path) -> None:
    for lock in parent.glob(f"pymp-*/{LOCK}"):
        with suppress(OSError):  # locked by an active run, another user's, or just removed
            descriptor = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(descriptor)


log = logging.getLogger(__name__)

KILL_LIMIT_S = 3.0  # for a process to end after it was killed
START_LIMIT_S = 10.0  # for starting a process while the server is killed repeatedly
SERVER_GONE = 255  # multiprocessing's exit code for a process whose server ended before it
PRELOAD = ("infer_app.predict.workers.parent_death", "infer_app.predict.workers.preload")


def context() -> ForkServerContext:
    """Return the multiprocessing context of all worker processes."""
    claim_temporary_folder()
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(list(PRELOAD))
    return found


def start_early() -> None:
    """Start the server, so that it imports in parallel with the caller; else the first worker would start it."""
    context()
    with _starting():
        forkserver.ensure_running()


@contextmanager
def _starting() -> Iterator[None]:
    """Let the server be started in the `with` block by a Python that finds no modules in the working directory.

    A folder `infer_app` there, as a clone is one, or a file with a module's name would be imported instead.
    """
    before = os.environ.get("PYTHONSAFEPATH", "")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        with signals_blocked():
            yield
    finally:
        os.environ["PYTHONSAFEPATH"] = before  # empty: as if it were not set


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Block SIGINT and SIGTERM in processes that are started in the `with` block.

    A terminal or systemd sends these signals to the whole process group, but only the supervisor handles them.
    """
    with output_silenced():  # the tracker outlives this process, and cron waits for its streams
        resource_tracker.ensure_running()  # its start, which the first worker would cause, unblocks signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start_process(target: Callable[..., object], *args: object, daemon: bool) -> ForkServerProcess:
    """Start a process from the server, and the server too if it was killed (by the kernel's out-of-memory killer).

    A `daemon` is killed with this process and can't have child processes. Raises WorkersKilled if it can't be started.
    """
    give_up_at = time.monotonic() + START_LIMIT_S
    while True:
        process = context().Process(target=target, args=args, daemon=daemon)
        try:
            with _starting():
                process.start()
        except (EOFError, OSError) as error:
            if time.monotonic() > give_up_at:
                raise WorkersKilled(
                    f"no process can be started: {type(error).__name__}: {error}",
                    "is there enough memory, and is `ulimit -n` high enough?",
                ) from error
            time.sleep(0.05)  # a server that is being killed may still look alive
            continue
        return process


def end_process(process: BaseProcess) -> None:
    """Kill a process and wait up to KILL_LIMIT_S for its end.

    The kernel can't end a process during a call to storage that does not answer. Such a process is left running. It
    ends as soon as the storage answers, before it does anything else.
    """
    process.kill()
    process.join(KILL_LIMIT_S)
    if process.is_alive():
        log.warning("process %s can't be ended while its storage does not answer: left running", process.pid)
        process_module._children.discard(process)  # type: ignore[attr-defined]  # else the program would wait for it at exit


@contextmanager
def output_silenced() -> Iterator[None]:
    """Withhold standard output and standard error from processes that are started in the `with` block."""
    copies = {}
    for stream in (1, 2):
        with suppress(OSError):  # closed
            copies[stream] = os.dup(stream)
    silence_output()
    try:
        yield
    finally:
        for stream, copy in copies.items():
            os.dup2(copy, stream)
            os.close(copy)


def silence_output() -> None:
    """Redirect standard output and standard error to /dev/null for the rest of the process.

    Standard output must contain only the JSON of the run, and libraries print. A reader such as cron also waits until
    the last process that has the stream open ends.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(null, stream)
    if null > 2:  # else it replaces a stream that was closed
        os.close(null)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Ask the kernel to signal this process when its parent dies, even if it hangs in native code."""
    pr_set_pdeathsig = 1  # linux/prctl.h
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, number)
