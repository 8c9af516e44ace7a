"""The tier keeps its promise: what starts a process or a server fails here."""

import multiprocessing
import os
import socket
import subprocess

import pytest


def listen():
    with socket.socket() as server:
        server.listen()


STARTS = {
    "subprocess": lambda: subprocess.run(["true"]),
    "fork": lambda: os.fork(),
    "multiprocessing": lambda: multiprocessing.get_context("spawn").Process(target=print).start(),
    "server": listen,
}


@pytest.mark.parametrize("start", STARTS)
def test_a_test_that_starts_a_process_or_a_server_is_sent_elsewhere(start):
    with pytest.raises(pytest.fail.Exception, match="this test belongs to tests/process"):
        STARTS[start]()
