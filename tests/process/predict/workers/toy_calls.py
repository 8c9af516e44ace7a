"""What a process of its own is asked to do."""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

import psutil

from infer_app.base.errors import ModelError


def refuse(name):
    raise ModelError(f"{name}: refused", "ask again")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def count_up(count, end):
    yield from range(count)
    if end == "raises":
        refuse("counted")
    if end == "dies":
        die()
    if end == "hangs":
        time.sleep(60)


def signal_the_group():
    """As a terminal or systemd does it; whoever hears it, but for the one who started all of this, is no more."""
    os.killpg(0, signal.SIGTERM)
    os.killpg(0, signal.SIGINT)
    return os.getppid()


def loaded(*names):
    return [name for name in names if name in sys.modules]


def hold_the_interpreter(pid_file):
    """C code that hangs and lets no other thread of this process run."""
    Path(pid_file).write_text(str(os.getpid()))
    ctypes.PyDLL(None).sleep(60)


def count_threads_of_parent():
    return psutil.Process(os.getppid()).num_threads()
