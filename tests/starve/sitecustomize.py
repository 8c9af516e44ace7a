"""Random pauses where another process can see a Python program half way; `starve.py` puts this folder on its path.

A file that is there and still empty, a child that has not come to its first line, a signal that is sent late.
"""

import builtins
import functools
import io
import os
import random
import socket
from time import sleep

LONGEST_S = 0.08
CHANCE = 0.25
ALL_S = 5.0  # in one process, so that a loop over thousands of files takes no minutes

_dice = random.SystemRandom()
_left_s = ALL_S


def _pause():
    global _left_s
    if _left_s > 0 and _dice.random() < CHANCE:
        pause_s = _dice.uniform(0, LONGEST_S)
        _left_s -= pause_s
        sleep(pause_s)


def _begin_child():
    global _left_s
    _left_s = ALL_S
    _pause()


def _then_pause(function, is_seen=lambda *_, **__: True):
    @functools.wraps(function)
    def paused(*args, **options):
        result = function(*args, **options)
        if is_seen(*args, **options):
            _pause()
        return result

    return paused


def _is_written(file, mode="r", *_, **__):
    return not isinstance(file, int) and not set(mode).isdisjoint("wax+")


builtins.open = io.open = _then_pause(io.open, _is_written)
for _name in ("kill", "link", "mkdir", "rename", "replace", "symlink", "unlink"):
    setattr(os, _name, _then_pause(getattr(os, _name)))
socket.socket.connect = _then_pause(socket.socket.connect)
os.register_at_fork(after_in_parent=_pause, after_in_child=_begin_child)
