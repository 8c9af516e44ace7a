"""A command that is forked by a process with its modules loaded, as most are in tests, is as one that is started."""

import os
import sys

import pytest

from tests.support.preloaded import INFER, run_forked, run_new

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


def assert_same(command, folder, environ):
    forked, new = (run(command, folder, environ) for run in (run_forked, run_new))
    assert (forked.returncode, forked.stdout, forked.stderr) == (new.returncode, new.stdout, new.stderr)
    assert new.stdout + new.stderr
