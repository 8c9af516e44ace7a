"""A command that is forked by a process with its modules loaded, as most are in tests, is as one that is started."""

import os
import sys
from subprocess import run

import pytest

from tests.support.preloaded import INFER, infer_of_shells, run_forked, run_new

SEEN = """
import gc, multiprocessing, os, resource, signal, sys
print(sys.argv, os.getcwd(), sorted(os.environ.items()), sys.modules["__main__"].__file__, sys.path, sys.flags)
print([file for file in range(64) if os.path.exists(f"/proc/self/fd/{file}")], os.readlink("/proc/self/fd/0"))
print([(one.encoding, one.errors, one.isatty(), one.line_buffering) for one in (sys.stdin, sys.stdout, sys.stderr)])
print(os.getsid(0) == os.getpid() == os.getpgid(0), multiprocessing.parent_process(), gc.isenabled())
print(len(os.listdir("/proc/self/task")), gc.get_threshold(), signal.pthread_sigmask(signal.SIG_BLOCK, ()))
print([(number, str(signal.getsignal(number))) for number in sorted(signal.valid_signals())])
print([resource.getrlimit(limit) for limit in range(16)], os.sched_getaffinity(0), os.umask(0))
print("to standard error", file=sys.stderr)
"""


@pytest.mark.parametrize("end", ["", "sys.exit(7)", "sys.stdout.flush(); os.kill(os.getpid(), signal.SIGTERM)"])
def test_a_program_sees_the_same_and_ends_the_same(tmp_path, end):
    program = tmp_path / "program"
    program.write_text(f"#!{sys.executable}\n{SEEN}{end}\n")
    program.chmod(0o700)
    assert_same((str(program), "é"), tmp_path, os.environ | {"A": "é"})


BUILD = pytest.param("model build none", marks=pytest.mark.slow)


@pytest.mark.parametrize("arguments", ["--version", "run --help", "status", "list --json", "nonsense", BUILD])
def test_a_command_answers_the_same(tmp_path, arguments):
    assert_same((str(INFER), *arguments.split()), tmp_path, dict(os.environ))


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["status; false", "model list --json | cat", "nonsense 2>&1 >told || cat told"])
def test_a_command_answers_a_shell_the_same(tmp_path, arguments):
    program, files = infer_of_shells(tmp_path / "bin")
    how = {"cwd": tmp_path, "capture_output": True, "text": True, "pass_fds": files}
    forked, new = (run(["bash", "-o", "pipefail", "-c", f"{one} {arguments}"], **how) for one in (program, INFER))
    assert (forked.returncode, forked.stdout, forked.stderr) == (new.returncode, new.stdout, new.stderr)


def assert_same(command, folder, environ):
    forked, new = (one(command, folder, environ) for one in (run_forked, run_new))
    assert (forked.returncode, forked.stdout, forked.stderr) == (new.returncode, new.stdout, new.stderr)
    assert new.stdout + new.stderr
