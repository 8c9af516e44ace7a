"""What a cluster changes in this process and on this machine is as it was once it is closed or could not be opened.

By a stand-in for Ray, which fails where it is told to.
"""

import contextlib
import signal
import sys
import types

import pytest

from infer_app.cluster.ray_cluster import ClusterSpec, StdoutToLog
from infer_app.errors import UsageError
from infer_app.handlers.handler_spec import HandlerSpec
from infer_app.images.read.local_files import ReadLimits
from infer_app.pipeline.executors import open_ray_executor

NODE = {"NodeID": "1", "NodeManagerAddress": "127.0.0.1", "Resources": {"CPU": 4.0}, "Alive": True}


class Unexpected(Exception):
    """An error that nobody foresaw."""


@pytest.fixture
def ray(monkeypatch):
    """ray(init=error) is a Ray whose `init` raises that error."""

    def install(**errors):
        def function(name, answer=None):
            def call(*_, **__):
                if name in errors:
                    raise errors[name]
                return answer

            return call

        functions = {"is_initialized": False, "nodes": [NODE]} | dict.fromkeys(("init", "shutdown"))
        module = types.SimpleNamespace(**{name: function(name, answer) for name, answer in functions.items()})
        monkeypatch.setitem(sys.modules, "ray", module)

    return install


def open_executor(**of_actor):
    handler = HandlerSpec((), ReadLimits((), 1), 1)
    return open_ray_executor(handler, 1, 30.0, ClusterSpec(**of_actor))


@contextlib.contextmanager
def all_as_before():
    """In the test itself: pytest puts its own standard output back between a test and its fixtures."""
    before = sys.stdout, [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    try:
        yield
        after = sys.stdout, [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    finally:
        sys.stdout = before[0]
    assert after == before


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """The cluster's own."""

    def make():
        (tmp_path / "ray").mkdir()
        return tmp_path / "ray"

    monkeypatch.setattr("infer_app.cluster.ray_cluster._temporary_folder", make)
    return tmp_path / "ray"


@pytest.mark.parametrize("where", ["init", "nodes"])
@pytest.mark.parametrize("error", [Unexpected, RuntimeError, KeyboardInterrupt])
def test_all_is_as_before_whatever_goes_wrong_as_it_opens(ray, folder, where, error):
    ray(**{where: error()})
    with all_as_before(), pytest.raises((error, UsageError)):
        open_executor().__enter__()
    assert not folder.exists()


def test_all_is_as_before_where_an_actor_fits_no_node(ray, folder):
    ray()
    with all_as_before(), pytest.raises(UsageError, match="CPU"):
        open_executor(num_cpus=8).__enter__()
    assert not folder.exists()


@pytest.mark.parametrize("errors", [{}, {"shutdown": Unexpected()}])
def test_all_is_as_before_at_the_end(ray, folder, errors):
    ray(**errors)
    with all_as_before(), contextlib.suppress(Unexpected), open_executor():
        assert isinstance(sys.stdout, StdoutToLog)
    assert not folder.exists()
