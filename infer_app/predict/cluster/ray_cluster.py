"""Connection to a Ray cluster, or the start of a local one: its nodes, and calls of functions on them."""

import io
import logging
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from infer_app.base.errors import UsageError, lines_of
from infer_app.base.packages import install
from infer_app.base.settings.sections import RaySettings
from infer_app.predict.workers.fork_server import run_folder, signals_blocked

log = logging.getLogger(__name__)

T = TypeVar("T")

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

LOCAL = "local"
STORE_BYTES = 256 << 20  # of a local Ray's shared memory: bundles of models and results, no pixels
MAX_FOLDER = 36  # characters: Ray makes a socket in it, and Linux limits its path to 107
CONNECT_S = 5.0
NODE_TIMEOUT_S = 120.0  # for a function on every node


@dataclass(frozen=True, slots=True)
class Node:
    """A living machine of the cluster, and the resources that Ray can allocate on it."""

    node_id: str
    address: str
    num_cpus: int
    num_gpus: float


class Cluster:
    """A connection to a Ray cluster. If the program was connected before, closing keeps that connection."""

    def __init__(self, spec: RaySettings, num_cpus: int) -> None:
        """Connect, or start a local Ray with `num_cpus`. Raises UsageError without Ray or without a cluster."""
        self._ray = import_ray()
        self._folder: Path | None = None
        self._closing = ExitStack()
        self.is_ours = not self._ray.is_initialized()
        if not self.is_ours:
            return
        with ExitStack() as closing:
            closing.callback(setattr, sys, "stdout", sys.stdout)
            closing.callback(self._remove_folder)
            closing.callback(self._shut_down)
            sys.stdout = StdoutToLog()
            handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
            try:
                with signals_blocked():  # a terminal or systemd would signal Ray's processes too
                    self._connect(spec, num_cpus)
            except (OSError, RuntimeError, ValueError) as error:
                raise UsageError(
                    f"no Ray cluster at {spec.address}: {lines_of(error)[0]}", "`ray status` there, or [ray] address"
                ) from error
            finally:
                for number, handler in handlers.items():  # Ray has replaced our handlers
                    signal.signal(number, handler)
            self._closing = closing.pop_all()

    def nodes(self) -> list[Node]:
        """Return the living nodes, the smallest first."""
        found = [
            Node(
                node["NodeID"],
                node["NodeManagerAddress"],
                int(node["Resources"].get("CPU", 0)),
                node["Resources"].get("GPU", 0.0),
            )
            for node in self._ray.nodes()
            if node["Alive"]
        ]
        return sorted(found, key=lambda node: (node.num_cpus, node.address))

    def on_each_node(self, function: Callable[..., T], *args: object) -> dict[Node, T | Exception]:
        """Call the function on every node, and return its result, or the error, by node."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        remote = self._ray.remote(function)
        refs = {}
        for node in self.nodes():
            affinity = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
            refs[node] = remote.options(num_cpus=0, max_retries=0, scheduling_strategy=affinity).remote(*args)
        return {node: self._result(ref) for node, ref in refs.items()}

    def close(self) -> None:
        self._closing.close()

    def _shut_down(self) -> None:
        with suppress(AttributeError):  # private: if Ray changes it, this only takes longer
            _end_at_once(self._ray._private.worker._global_node)
        self._ray.shutdown()

    def _remove_folder(self) -> None:
        if self._folder is not None:
            _end_all_in(self._folder)
            shutil.rmtree(self._folder, ignore_errors=True)

    def _connect(self, spec: RaySettings, num_cpus: int) -> None:
        common: dict[str, object] = {
            "log_to_driver": False,
            "logging_level": logging.ERROR,
            "runtime_env": dict(spec.runtime_env) or None,
        }
        if spec.address != LOCAL:
            _check_listens(os.environ.get("RAY_ADDRESS", "auto") if spec.address == "auto" else spec.address)
            self._ray.init(address=spec.address, **common)
            return
        self._folder = _temporary_folder()
        with _variable(
            "TMPDIR", str(self._folder)
        ):  # inherited by Ray's processes, so that they write nothing elsewhere
            self._ray.init(
                address=LOCAL,
                num_cpus=num_cpus,
                include_dashboard=False,
                object_store_memory=STORE_BYTES,
                _node_ip_address="127.0.0.1",
                _temp_dir=str(self._folder),
                **common,
            )

    def _result(self, ref: object) -> Any:
        try:
            return self._ray.get(ref, timeout=NODE_TIMEOUT_S)
        except Exception as error:
            return getattr(error, "cause", None) or error


def _check_listens(address: str) -> None:
    """Raise OSError if nothing listens at host:port: Ray itself would try for minutes, ignoring signals."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()


class StdoutToLog(io.TextIOBase):
    """A replacement of standard output that logs what Ray prints, since the real one is for the run's JSON only."""

    def write(self, text: str) -> int:
        for line in filter(None, map(str.strip, _COLOUR.sub("", text).splitlines())):
            log.info("%s", line)
        return len(text)


def no_room(num_cpus: int, num_gpus: float, nodes: Sequence[Node]) -> tuple[str, str]:
    """Return message and hint of the error that no node has room for an actor."""
    request = f"{num_cpus} CPUs" + (f" and {num_gpus:g} GPUs" if num_gpus else "")
    available = ", ".join(f"{node.address}: {node.num_cpus} CPUs, {node.num_gpus:g} GPUs" for node in nodes)
    return (
        f"no node has room for an actor of {request} ({available})",
        "[ray] num_cpus, num_gpus or --workers; `ray status`",
    )


def import_ray() -> ModuleType:
    """Import and return Ray. Raises UsageError if it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a Ray started here sends no usage statistics
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray's future default, which silences a warning
    try:
        import ray
    except ImportError as error:
        raise UsageError("Ray is not installed", install("ray")) from error
    library: ModuleType = ray
    return library


def _end_at_once(node: Any) -> None:
    """Make the node kill its processes at once: Ray would wait a second for each, since they have SIGTERM blocked."""
    kill = node.kill_all_processes
    node.kill_all_processes = lambda **given: kill(**given | {"allow_graceful": False})


def _end_all_in(folder: Path) -> None:
    """Kill Ray's agents, which outlive their raylet by some seconds: this user's processes with the folder as TMPDIR.

    The pidfd is opened before the environment is read, so that no later process with the same pid is killed.
    """
    marker = f"TMPDIR={folder}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            descriptor = os.pidfd_open(int(process.name))
            try:
                is_own = process.stat().st_uid == os.getuid()
                if is_own and marker in (process / "environ").read_bytes().split(b"\0"):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)


def _temporary_folder() -> Path:
    folder = run_folder() / "ray"
    if len(str(folder)) > MAX_FOLDER:
        return Path(tempfile.mkdtemp(prefix="infer-ray-", dir="/tmp"))
    folder.mkdir()
    return folder


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
