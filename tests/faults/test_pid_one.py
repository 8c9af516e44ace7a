"""`infer` as the first process of a container, which nobody reaps for and whom no signal reaches by default."""

import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.faults.conftest import on
from tests.faults.project_run import slow_photos
from tests.support.waiting import wait_until

ALONE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
pytestmark = on("sqlite", of=["sqlite"])


@pytest.fixture(autouse=True)
def _may_unshare():
    if subprocess.run([*ALONE, "true"], capture_output=True).returncode:
        pytest.skip("needs root, to make a PID namespace")


def first_of(run):
    """The process that is number 1 inside."""
    wait_until(psutil.Process(run.pid).children)
    return psutil.Process(run.pid).children()[0]


def wait_until_it_hears(process):
    """A first process has no default for a signal: one that comes before its handler is there is lost."""
    status = Path(f"/proc/{process.pid}/status")
    wait_until(lambda: int(status.read_text().split("SigCgt:")[1].split()[0], 16) & 1 << (signal.SIGTERM - 1))


@pytest.mark.parametrize("count", [0, 8])
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)], ids=["SIGTERM", "SIGINT"]
)
def test_a_signal_ends_it_in_time_with_all_committed(night, seeded, number, count):
    night.add(slow_photos(100))
    run = night.start(prefix=ALONE)
    first = first_of(run)
    night.wait_for_results(run, count)
    wait_until_it_hears(first)
    time.sleep(seeded.uniform(0, 1.5))
    start = time.monotonic()
    first.send_signal(number)
    ended = night.wait(run)
    assert time.monotonic() - start < 25
    assert ended.exit_code == 128 + number, ended.err
    night.check(ended)
    if count:
        assert len(night.results()) == ended.answer["selected"] > 0
    night.finish()
