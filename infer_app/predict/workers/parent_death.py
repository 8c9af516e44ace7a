"""Handler, installed in the fork server only, that ends the server and its workers when the run's process dies.

Without it the server would wait for its workers, even for one that hangs. If the run was killed, the handler also
removes the server's socket, which is in a temporary folder made by multiprocessing. A process that goes on when its
thread that started the server ends, as of a cluster's actor, keeps its folder.
"""

import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

from infer_app.predict.workers.fork_server import LOCK, die_with_parent


def _socket_path() -> Path | None:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - numbers, not paths
        with suppress(OSError), socket.socket(fileno=os.dup(int(name))) as found:
            path = Path(os.fsdecode(found.getsockname() or "")) if found.family == socket.AF_UNIX else Path()
            if path.name.startswith("listener-") and path.parent.name.startswith("pymp-"):
                return path
    return None


def _end(*_: object) -> None:
    with suppress(OSError):
        if os.getppid() != _PARENT and (path := _socket_path()):
            path.unlink(missing_ok=True)
            path.with_name(LOCK).unlink(missing_ok=True)
            path.parent.rmdir()
    os._exit(0)


_PARENT = os.getppid()
signal.signal(signal.SIGUSR1, _end)
die_with_parent(signal.SIGUSR1)
