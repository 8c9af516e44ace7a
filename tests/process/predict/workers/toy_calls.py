"""What a process of its own is asked to do."""

import ctypes
import itertools
import os
import signal
import sys
import time
from pathlib import Path

import psutil

from infer_app.base.domain import FileFacts
from infer_app.base.errors import ModelError
from infer_app.predict.workers.heartbeat import STAGES, Heartbeat


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


def step(number):
    """Return task, position, stage and file of the record of this number."""
    return number, number % 256, STAGES[1 + number % 4], FileFacts(number, number / 8, f"{number:08x}" * 8)


def write_for_ever(memory):
    """Write a heartbeat as fast as it can be, in records whose every field follows from one number."""
    heartbeat = Heartbeat(memory)
    for number in itertools.count(1):
        task, position, stage, file = step(number)
        heartbeat.begin_task(task)
        heartbeat.record(position, stage, file)
