"""What lies in the temporary folder while a run lives, and after it was killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

# A process that claims its folder and waits to be killed.
CLAIM = """
import sys
from multiprocessing import util
from infer_app.predict.workers.fork_server import claim_temporary_folder
claim_temporary_folder()
print(util.get_temp_dir(), flush=True)
sys.stdin.read()
"""


def start(folder):
    environ = os.environ | {"TMPDIR": str(folder)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", CLAIM], env=environ, text=True, **pipes)
    return process, Path(process.stdout.readline().strip())


def end(process, number=None):
    if number is not None:
        process.send_signal(number)
    process.communicate()


def test_what_a_killed_run_left_is_removed_by_the_next_and_nothing_else(tmp_path):
    foreign = tmp_path / "pymp-foreign"
    foreign.mkdir()
    living, its_folder = start(tmp_path)
    killed, left = start(tmp_path)
    end(killed, signal.SIGKILL)
    assert left.is_dir()
    next_one, own = start(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([foreign, its_folder, own])
    for process in (living, next_one):
        end(process)
    assert list(tmp_path.iterdir()) == [foreign]


def test_of_a_path_too_long_for_a_socket_a_shorter_one_is_taken(tmp_path):
    long = tmp_path / ("long " * 20)
    long.mkdir()
    process, own = start(long)
    assert own.parent == Path("/tmp")
    end(process)
    assert not own.exists()
