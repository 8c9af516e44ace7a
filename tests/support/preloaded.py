"""`infer` as a fork of a process that has imported its modules, which is most of what a command costs.

Only where a command sees no difference; with --full each is a new process. What a test starts to kill, to signal or to
read from while it runs is one anyway, by `Project.start`.
"""

import atexit
import gc
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from subprocess import CompletedProcess, Popen, run
from tempfile import TemporaryFile

Environ = dict[str, str]
INFER = Path(sys.executable).with_name("infer")
REPOSITORY = Path(__file__).parents[2]
ENVIRON = dict(os.environ)
READ_LATER = ("INFER_", "AWS_", "PYTEST_")  # variables that are not read when a module is imported
ACT_AT_IMPORT = {"__main__", "migrations", "parent_death", "preload"}
TORCH_COMMANDS = {("model", "build"), ("model", "check")}
# What builds models and compares them with their source, and what runs TorchScript and GPU variants.
LOADS_TORCH = (
    "build",
    "cli.model.build",
    "cli.model.check",
    "cli.model.describe",
    "predict.handlers.gpu_handlers",
    "predict.runtimes.gpu_variants",
    "predict.runtimes.tensorrt",
    "predict.runtimes.torchscript",
)
TIMEOUT_S = 100
FROM_A_SHELL = """#!{python} -IS
import json, os, socket, sys
own, others = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server = {servers}[tuple(sys.argv[1:3]) in {torch_commands}]
request = json.dumps([["{infer}", *sys.argv[1:]], os.getcwd(), dict(os.environ)])
socket.send_fds(socket.socket(fileno=server), [request.encode()], [1, 2, others.fileno()])
others.close()
own.recv(16)
exit_code = int(own.recv(16))
sys.exit(exit_code if exit_code >= 0 else 128 - exit_code)
"""
always_new = False  # whether each command is a new process


def run_infer(*arguments: str, cwd: Path, **environ: str) -> CompletedProcess[str]:
    """Run `infer …` to its end."""
    environment = os.environ | environ
    differing = {name for name, _ in environment.items() ^ ENVIRON.items()}
    is_forked = not always_new and all(name.startswith(READ_LATER) for name in differing)
    return (run_forked if is_forked else run_new)((INFER, *arguments), cwd, environment)


def run_new(command: tuple[object, ...], cwd: Path, environ: Environ) -> CompletedProcess[str]:
    how = {"capture_output": True, "text": True, "start_new_session": True}
    return run(command, cwd=cwd, env=environ, timeout=TIMEOUT_S, **how)  # type: ignore[call-overload, no-any-return]


def run_forked(command: tuple[object, ...], cwd: Path, environ: Environ) -> CompletedProcess[str]:
    """Run a Python program that lies in a file as `run_new` does."""
    server = _server(command[1:3] in TORCH_COMMANDS)
    own, others = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with own, TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        with others:
            request = json.dumps([command, cwd, environ], default=os.fspath).encode()
            socket.send_fds(server, [request], [out.fileno(), err.fileno(), others.fileno()])
        pid = int(own.recv(16))
        own.settimeout(TIMEOUT_S)
        try:
            exit_code = int(own.recv(16))
        except TimeoutError:
            os.killpg(pid, signal.SIGKILL)
            raise
        for stream in (out, err):
            stream.seek(0)
        return CompletedProcess(command, exit_code, out.read(), err.read())


def infer_of_shells(folder: Path) -> tuple[Path, list[int]]:
    """Write an `infer` that the servers fork; return it and the open files that it needs."""
    if always_new:
        return INFER, []
    servers = {has_torch: _server(has_torch).fileno() for has_torch in (False, True)}
    folder.mkdir()
    program = folder / INFER.name
    names = {"python": sys.executable, "infer": INFER, "servers": servers, "torch_commands": TORCH_COMMANDS}
    program.write_text(FROM_A_SHELL.format(**names))
    program.chmod(0o700)
    return program, [*servers.values()]


@cache
def _server(has_torch: bool) -> socket.socket:
    own, others = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with others:
        code = f"from tests.support.preloaded import serve; serve({others.fileno()}, {has_torch})"
        server = Popen([sys.executable, "-c", code], cwd=REPOSITORY, env=ENVIRON, pass_fds=[others.fileno()])
    atexit.register(server.wait)
    atexit.register(own.close)
    return own


def serve(descriptor: int, has_torch: bool) -> None:
    """Fork a process for each request, one after another, until no test process is left that could send one."""
    requests = socket.socket(fileno=descriptor)
    _import_modules(has_torch)
    while True:
        request, streams, *_ = socket.recv_fds(requests, 1 << 20, 3)
        if not request:
            break
        if not (pid := os.fork()):
            requests.close()
            _become(streams, *json.loads(request))
            break
        with socket.socket(fileno=streams.pop()) as answer, suppress(BrokenPipeError):  # a test that waits no longer
            answer.send(str(pid).encode())
            for stream in streams:
                os.close(stream)
            answer.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


def _import_modules(has_torch: bool) -> None:
    gc.disable()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # NumPy starts a thread for each core when it is imported
    left_out = () if has_torch else tuple(f"infer_app.{name}" for name in LOADS_TORCH)
    for module in pkgutil.walk_packages(import_module("infer_app").__path__, "infer_app."):
        if not module.name.startswith(left_out) and not set(module.name.split(".")) & ACT_AT_IMPORT:
            import_module(module.name)
    assert has_torch is ("torch" in sys.modules)
    assert len([*Path("/proc/self/task").iterdir()]) == 1, "a fork would lack the other threads"
    del os.environ["OPENBLAS_NUM_THREADS"]
    gc.freeze()
    gc.enable()


def _become(streams: list[int], command: list[str], folder: str, environ: Environ) -> None:
    os.setsid()
    os.chdir(folder)
    for number, (name, stream) in enumerate(zip(("stdout", "stderr"), streams, strict=False), 1):
        os.dup2(stream, number)
        old = getattr(sys, name)  # which has seen whether the server's may be a pipe
        file = open(number, "wb", buffering=0 if old.write_through else -1, closefd=False)  # noqa: SIM115
        how = {one: getattr(old, one) for one in ("encoding", "errors", "line_buffering", "write_through")}
        setattr(sys, name, io.TextIOWrapper(file, **how))
    for stream in streams:
        os.close(stream)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = command
    sys.path[0] = str(Path(command[0]).parent)
    runpy.run_path(command[0], run_name="__main__")
