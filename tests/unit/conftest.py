"""The pure tier: tests of one module each, that start no process and no server."""

import multiprocessing.process
import os
import socket
import subprocess
from collections.abc import Callable, Iterator

import pytest

from infer_app.predict.images.decode.libjpeg_turbo import load_turbo


@pytest.fixture(scope="package", autouse=True)
def no_process() -> Iterator[None]:
    """Fail a test that starts a process or a server."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("this test belongs to tests/process: it starts a process or a server")

    load_turbo()  # once; the library is looked for with programs
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in (
            (subprocess.Popen, "__init__"),
            (os, "fork"),
            (os, "posix_spawn"),
            (multiprocessing.process.BaseProcess, "start"),
            (socket.socket, "listen"),
        ):
            patch.setattr(owner, name, refuse)
        yield


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    """umask(0o077) sets it for the test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)
