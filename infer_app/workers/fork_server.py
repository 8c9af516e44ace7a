"""Where worker processes come from: a fork server that has imported what they need, once for all of them.

Loading torch takes about two seconds of a core; forked from a process that has done it, a worker is ready at once and
shares its memory with the others. The server runs no thread and no model, which is what makes forking it safe.
OpenVINO is not loaded in it: its threads don't survive a fork.
"""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing import process as process_module
from multiprocessing.context import ForkServerContext, ForkServerProcess
from multiprocessing.process import BaseProcess

from infer_app.errors import WorkersKilled
from infer_app.workers.temporary_folder import claim_temporary_folder

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
    """Starts the server, which imports while the caller does other things. Workers start it where nobody did."""
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
