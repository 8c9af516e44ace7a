"""One function in a process of its own: for what must not be loaded into the caller."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import ParamSpec, TypeVar

from infer_app.loading.nursery import context, signals_blocked

P = ParamSpec("P")
T = TypeVar("T")


def run_in_process(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `function` returns; it and all it is given are pickled. Raises what it raises."""
    with signals_blocked(), ProcessPoolExecutor(max_workers=1, mp_context=context()) as pool:
        future = pool.submit(function, *args, **kwargs)
    return future.result()
