"""Run a command while the processor is taken away from it at random: `starve.py COMMAND …`, on Linux, as root.

Every core has a busy loop. Again and again a quarter of the command's processes get the processor only when nobody else
wants it, and Python processes pause after steps that others can see (`sitecustomize.py`). So each may stand still at
any statement, as on a machine that others use, and a test that waits for the wrong thing fails sooner or later.
Nothing is killed and no signal is sent. The exit code is the command's.
"""

import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil


def main() -> int:
    try:
        for policy in (os.SCHED_IDLE, os.SCHED_OTHER):
            os.sched_setscheduler(0, policy, os.sched_param(0))
    except PermissionError:
        sys.exit("only root may give a process the processor back")
    path = os.pathsep.join(filter(None, [str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH")]))
    with subprocess.Popen(sys.argv[1:], env=os.environ | {"PYTHONPATH": path}) as command:
        loop = f"import os\nwhile os.getppid() == {os.getpid()}: pass"
        busy = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(os.cpu_count() or 1)]
        try:
            while command.poll() is None:
                starve_some(psutil.Process(command.pid))
        finally:
            for process in busy:
                process.kill()
                process.wait()
    return command.returncode


def starve_some(command: psutil.Process) -> None:
    """Take the processor from a quarter of the command's processes for a moment."""
    for process in family_of(command):
        if random.random() < 0.25:
            schedule(process, os.SCHED_IDLE)
    time.sleep(random.uniform(0.02, 0.6))
    for process in family_of(command):  # also those that began meanwhile, which inherit it
        schedule(process, os.SCHED_OTHER)


def family_of(command: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return [command, *command.children(recursive=True)]
    return []


def schedule(process: psutil.Process, policy: int) -> None:
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        for thread in process.threads():
            if os.sched_getscheduler(thread.id) != policy:
                os.sched_setscheduler(thread.id, policy, os.sched_param(0))


if __name__ == "__main__":
    sys.exit(main())
