"""Calls of a function in a separate process, for libraries that must not be loaded into the caller or may crash.

Storage that does not answer is another case: a process that waits for it can't even be killed.
"""

import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from typing import Any, TypeVar, TypeVarTuple

from infer_app.base.errors import ModelError, NoAnswer
from infer_app.predict.workers.fork_server import context, die_with_parent, end_process, silence_output, start_process

TIMEOUT_S = 1800.0  # measuring the largest models takes minutes
STORAGE_TIMEOUT_S = 30.0  # without an answer of an image storage, which may be slow
CHECK_EVERY_S = 0.25

Args = TypeVarTuple("Args")
T = TypeVar("T")


def run_in_process(function: Callable[[*Args], T], *args: *Args, timeout_s: float = TIMEOUT_S) -> T:
    """Return what `function` returns; the function, its arguments and its result are pickled.

    Raises what it raises, ModelError if its process is killed or crashes, and NoAnswer if it takes longer than
    `timeout_s`.
    """
    result: T
    (result,) = _results(function, args, False, timeout_s, lambda: None)
    return result


def iterate_in_process(
    function: Callable[[*Args], Iterable[T]], *args: *Args, timeout_s: float, check: Callable[[], None]
) -> Iterator[T]:
    """Yield what the iterable yields that `function` returns; it runs ahead by what a pipe holds.

    Before each item and while it is waited for, `check` is called; it may raise. Raises what the iterable raises,
    ModelError if its process is killed or crashes, and NoAnswer if it sends nothing for `timeout_s`.
    """
    return _results(function, args, True, timeout_s, check)


def _results(
    function: Callable[..., object],
    args: tuple[object, ...],
    is_iterable: bool,
    timeout_s: float,
    check: Callable[[], None],
) -> Iterator[Any]:
    receiver, sender = context().Pipe(duplex=False)
    process = start_process(_run, sender, function, args, is_iterable, daemon=False)
    sender.close()  # so that the pipe ends when the process ends
    try:
        while True:
            _wait(receiver, function.__name__, timeout_s, check)
            results, error = _receive(receiver, function.__name__)
            if error is not None:
                raise error
            if not results:
                return
            yield from results
    finally:
        end_process(process)
        receiver.close()


def _wait(receiver: Connection, name: str, timeout_s: float, check: Callable[[], None]) -> None:
    check()
    give_up_at = time.monotonic() + timeout_s
    while not receiver.poll(min(CHECK_EVERY_S, timeout_s)):
        check()
        if time.monotonic() > give_up_at:
            raise NoAnswer(f"{name}: no answer within {timeout_s:g} s", "does the model hang?")


def _receive(receiver: Connection, name: str) -> tuple[tuple[object, ...], Exception | None]:
    try:
        results, error = pickle.loads(receiver.recv_bytes())
    except EOFError:
        raise ModelError(f"{name}: its process was killed or crashed", "is there enough memory?") from None
    return results, error


def _run(sender: Connection, function: Callable[..., Any], args: tuple[object, ...], is_iterable: bool) -> None:
    die_with_parent()
    silence_output()
    error = None
    try:
        for result in function(*args) if is_iterable else (function(*args),):
            _send(sender, (result,), None)
    except Exception as raised:
        error = raised
    _send(sender, (), error)


def _send(sender: Connection, results: tuple[object, ...], error: Exception | None) -> None:
    # multiprocessing's own pickler would request tensors from this process later
    sender.send_bytes(pickle.dumps((results, error)))
