"""Where worker processes come from: a fork server that has imported what they need, once for all of them.

Loading torch takes about two seconds of a core; forked from a process that has done it, a worker is ready at once and
shares its memory with the others. The server runs no thread and no model, which is what makes forking it safe.
OpenVINO is not loaded in it: its threads don't survive a fork.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext, ForkServerProcess

from infer_app.errors import WorkersKilled
from infer_app.loading.temporary import claim_temporary_folder

START_LIMIT_S = 10.0  # for a server that is killed again and again
SERVER_GONE = 255  # multiprocessing's exit code for a process whose server ended before it
PRELOAD = ("__main__", "infer_app.loading.orphan", "infer_app.executors.lane")


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


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Asks the kernel for a signal: a worker that hangs in code that never lets other threads run has no other end."""
    pr_set_pdeathsig = 1  # linux/prctl.h
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, number)
