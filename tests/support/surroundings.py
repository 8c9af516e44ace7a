"""What surrounds this process: a name server, a full disk, a folder in which permissions count."""

import logging
import os
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from infer_app.base.telemetry.log import StderrHandler

NOBODY = 65534  # the user's number on Debian


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str] | Iterator[str]]:
    """The addresses of names, which a test sets; of an iterator each look-up takes one. No other name is known."""
    known: dict[str, list[str] | Iterator[str]] = {}
    look_up = socket.getaddrinfo

    def answer(host: str, port: int, *_: object, **__: object) -> list[Any]:
        found = known.get(host, [host])
        addresses = found if isinstance(found, list) else [next(found)]
        by_number = {"type": socket.SOCK_STREAM, "flags": socket.AI_NUMERICHOST}
        return [one for address in addresses for one in look_up(address, port, **by_number)]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return known


@pytest.fixture
def no_space() -> Callable[[], AbstractContextManager[None]]:
    """In `with no_space():` no file gets a further byte, by a limit of this process: as on a full disk."""

    @contextmanager
    def limit() -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limit


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder in which permissions count for `os.access`, though these tests may run as root, who has them all."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        real = os.getuid()
        if real == 0:
            os.setresuid(NOBODY, 0, 0)
        yield Path(folder)
        if real == 0:
            os.setresuid(0, 0, 0)


@pytest.fixture
def logging_as_it_was() -> Iterator[None]:
    """Around what calls `log_to_stderr` in this process."""
    level = logging.getLogger("infer_app").level
    yield
    root = logging.getLogger()
    root.handlers = [handler for handler in root.handlers if not isinstance(handler, StderrHandler)]
    logging.getLogger("infer_app").setLevel(level)
    logging.captureWarnings(False)
