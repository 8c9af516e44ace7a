"""A signal that comes while a command is starting ends it, wherever Python is at that moment."""

import signal
import subprocess
import sys

import pytest

DROPPED = """
import os, signal, sys, time, weakref
from infer_app import cli

class Lock: pass

def import_commands():
    lock = Lock()
    callback = weakref.ref(lock, lambda _: os.kill(os.getpid(), signal.{name}))  # as importlib has one of each lock
    del lock
    time.sleep(30)

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background has not
cli.load_app = import_commands
sys.argv = ["infer", "status"]
cli.main()
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_whose_exception_python_drops_in_a_callback_ends_the_command(name):
    ended = subprocess.run([sys.executable, "-c", DROPPED.format(name=name)], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (128 + getattr(signal, name), "")


def test_another_exception_that_python_drops_is_shown():
    dropped = DROPPED.replace("os.kill(os.getpid(), signal.{name})", "1 / 0").replace("time.sleep(30)", "sys.exit(7)")
    ended = subprocess.run([sys.executable, "-c", dropped], capture_output=True, text=True)
    assert ended.returncode == 7
    assert "ZeroDivisionError" in ended.stderr
