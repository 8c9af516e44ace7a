"""Calls of a function in a separate process, for libraries that must not be loaded into the caller or may crash."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TypeVar, TypeVarTuple

from infer_app.errors import ModelError
from infer_app.workers.fork_server import context, die_with_parent, end_process, silence_output, start_process

TIMEOUT_S = 1800.0  # measuring the largest models takes minutes

Args = TypeVarTuple("Args")
T = TypeVar("T")


def run_in_process(function: Callable[[*Args], T], *args: *Args, timeout_s: float = TIMEOUT_S) -> T:
    """Return what `function` returns; the function, its arguments and its result are pickled.

    Raises what it raises, and ModelError if its process is killed, crashes, or takes longer than `timeout_s`.
    """
    receiver, sender = context().Pipe(duplex=False)
    process = start_process(_run, sender, function, args, daemon=False)
    sender.close()  # so that the pipe ends when the process ends
    try:
        if not receiver.poll(timeout_s):
            raise ModelError(f"{function.__name__}: no answer within {timeout_s:g} s", "does the model hang?")
        answer, error = pickle.loads(receiver.recv_bytes())
    except EOFError:
        raise ModelError(f"{function.__name__}: its process was killed or crashed", "is there enough memory?") from None
    finally:
        end_process(process)
        receiver.close()
    if error is not None:
        raise error
    result: T = answer
    return result


def _run(sender: Connection, function: Callable[[*Args], T], args: tuple[*Args]) -> None:
    die_with_parent()
    silence_output()
    try:
        answer: tuple[T | None, Exception | None] = function(*args), None
    except Exception as error:
        answer = None, error
    sender.send_bytes(
        pickle.dumps(answer)
    )  # multiprocessing's own pickler would request tensors from this process later
