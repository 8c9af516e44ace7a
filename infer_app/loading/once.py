"""One function in a process of its own: for what must not be loaded into the caller."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import ParamSpec, TypeVar

from infer_app.errors import ModelError
from infer_app.loading.nursery import context, die_with_parent, signals_blocked

P = ParamSpec("P")
T = TypeVar("T")


def run_in_process(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `function` returns; it and all it is given are pickled.

    Raises what it raises, and ModelError where its process is killed or crashes.
    """
    with signals_blocked(), ProcessPoolExecutor(1, context(), initializer=die_with_parent) as pool:
        future = pool.submit(function, *args, **kwargs)
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise ModelError(
            f"{function.__name__}: its process was killed or crashed", "is there memory enough?"
        ) from error
