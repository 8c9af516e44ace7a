"""The pure tier: quick tests of one module each, that start no process and no server."""

from __future__ import annotations

import multiprocessing.process
import os
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from infer_app.images.decode.libjpeg_turbo import load_turbo

LIMIT_CPU_S = 2.0


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


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    """Fail a test that takes long, whatever else the machine does meanwhile."""
    began = time.process_time()
    yield
    assert time.process_time() - began < LIMIT_CPU_S, "this test belongs to tests/process: it takes too long"
