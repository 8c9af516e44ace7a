"""The process that workers are forked from, of which each script starts one with little in it; and its folder."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE

import psutil
import pytest

from infer_app import __version__
from infer_app.predict.workers.fork_server import signals_blocked
from tests.support.waiting import wait_until

REPOSITORY = Path(__file__).parents[4]
SCRIPT = """
import signal, sys
sys.path.insert(0, {repository!r})
from multiprocessing import forkserver
from tests.process.predict.workers.toy_calls import *
from infer_app.predict.workers import fork_server
from infer_app.predict.workers.isolated_call import run_in_process
from infer_app.predict.workers.pool import WorkerPool
from infer_app.base.domain import Chunk, ImageRef

fork_server.PRELOAD = ("infer_app.predict.workers.parent_death",)

def open_stuck():
    hold_the_interpreter({pid_file!r})

def main():
    {main}

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def start(tmp_path):
    """start(main) is a process of that script, in a group of its own."""
    with ExitStack() as stack:

        def start_script(main, folder=None):
            names = {"repository": str(REPOSITORY), "pid_file": str(tmp_path / "pid")}
            (tmp_path / "script.py").write_text(SCRIPT.format(main=main.strip().replace("\n", "\n    "), **names))
            temporary = tmp_path / "temporary"
            temporary.mkdir()
            command, environ = [sys.executable, tmp_path / "script.py"], os.environ | {"TMPDIR": str(temporary)}
            pipes = {"stdout": PIPE, "stderr": PIPE, "text": True}
            started = subprocess.Popen(command, env=environ, cwd=folder, start_new_session=True, **pipes)
            process = stack.enter_context(started)
            stack.callback(process.kill)
            return process

        yield start_script


def test_signals_to_the_group_are_heard_by_its_first_process_alone(start):
    """Here by fork server and worker, in the middle of their work: both still answer."""
    script = start(
        """
heard = []
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, _: heard.append(signal.Signals(number).name))
fork_server.start_early()
server = forkserver._forkserver._forkserver_pid
for _ in range(2):
    signal_the_group()
    assert run_in_process(signal_the_group) == server
print(sorted(set(heard)), server == forkserver._forkserver._forkserver_pid)
"""
    )
    out, err = script.communicate(timeout=30)
    assert (out, err) == ("['SIGINT', 'SIGTERM'] True\n", "")


@pytest.mark.parametrize(
    "script_text",
    ["run_in_process(hold_the_interpreter, {!r})", "list(WorkerPool([[open_stuck]], 60).run([CHUNK]))"],
    ids=["once", "worker"],
)
def test_all_end_with_the_killed_process_that_started_them_and_leave_nothing_behind(start, tmp_path, script_text):
    """Even a worker that holds the interpreter and so can't notice it."""
    chunk = "Chunk(0, (ImageRef('1', '/a.jpg'),))"
    script = start(script_text.format(str(tmp_path / "pid")).replace("CHUNK", chunk))
    pid_file = tmp_path / "pid"
    wait_until(lambda: (pid_file.exists() and pid_file.read_text()) or script.poll() is not None)
    family = psutil.Process(script.pid).children(recursive=True)
    assert int(pid_file.read_text()) in [process.pid for process in family]
    script.kill()
    script.wait()
    _, alive = psutil.wait_procs(family, timeout=60)
    assert (alive, list((tmp_path / "temporary").iterdir())) == ([], [])


def test_the_folder_of_a_process_that_goes_on_without_the_thread_that_started_the_server_stays(start):
    """As of a cluster's actor, which starts it in a thread."""
    process = start(
        """import os, threading
starting = threading.Thread(target=run_in_process, args=(os.getpid,))
starting.start()
starting.join()
os.waitpid(forkserver._forkserver._forkserver_pid, 0)
print(sorted(path.name for path in fork_server.run_folder().iterdir()))"""
    )
    out, err = process.communicate(timeout=60)
    assert ("infer.lock" in out, err) == (True, "")


def test_modules_are_not_looked_for_in_the_working_directory(start, tmp_path):
    """Beside a clone there is a folder of its name."""
    folder = tmp_path / "work"
    (folder / "infer_app").mkdir(parents=True)
    (folder / "ctypes.py").write_text("raise ImportError")
    code = "from infer_app import __version__\nprint(__version__)"
    process = start(f"worker = fork_server.start_process(exec, {code!r}, daemon=True)\nworker.join()", folder)
    assert process.communicate(timeout=100) == (f"{__version__}\n", "")


def test_signals_are_let_in_again_whatever_happens():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with pytest.raises(ZeroDivisionError), signals_blocked():
        assert {signal.SIGINT, signal.SIGTERM} <= signal.pthread_sigmask(signal.SIG_BLOCK, [])
        raise ZeroDivisionError
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


# A process that claims its folder and waits to be killed.
CLAIM = """
import sys
from multiprocessing import util
from infer_app.predict.workers.fork_server import claim_temporary_folder
claim_temporary_folder()
print(util.get_temp_dir(), flush=True)
sys.stdin.read()
"""


def claim(folder):
    process = subprocess.Popen(
        [sys.executable, "-c", CLAIM], env=os.environ | {"TMPDIR": str(folder)}, text=True, stdin=PIPE, stdout=PIPE
    )
    return process, Path(process.stdout.readline().strip())


def test_what_a_killed_run_left_is_removed_by_the_next_and_nothing_else(tmp_path):
    foreign = tmp_path / "pymp-foreign"
    foreign.mkdir()
    living, its_folder = claim(tmp_path)
    killed, left = claim(tmp_path)
    killed.kill()
    killed.communicate()
    assert left.is_dir()
    next_one, own = claim(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([foreign, its_folder, own])
    for process in (living, next_one):
        process.communicate()
    assert list(tmp_path.iterdir()) == [foreign]


def test_of_a_path_too_long_for_a_socket_a_shorter_one_is_taken(tmp_path):
    long = tmp_path / ("long " * 20)
    long.mkdir()
    process, own = claim(long)
    assert own.parent == Path("/tmp")
    process.communicate()
    assert not own.exists()
