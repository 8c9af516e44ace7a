"""`infer` as the first process of a container, which nobody reaps for and whom no signal reaches by default."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.faults.conftest import NUM_PHOTOS
from tests.faults.stub import GOOD
from tests.support.projects import INFER

ALONE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


@pytest.fixture(autouse=True)
def _may_unshare():
    if subprocess.run([*ALONE, "true"], capture_output=True).returncode:
        pytest.skip("needs root, to make a PID namespace")


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'infer.db'}"


def first_of(run):
    """The process that is number 1 inside."""
    end = time.monotonic() + 10
    while not (children := psutil.Process(run.pid).children()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return children[0]


def wait_until_it_hears(process):
    """A first process has no default for a signal: one that comes before its handler is there is lost."""
    end = time.monotonic() + 20
    while not int(caught(process), 16) & 1 << (signal.SIGTERM - 1):
        assert time.monotonic() < end
        time.sleep(0.01)


def caught(process):
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("SigCgt"))


@pytest.mark.parametrize("count", [0, 8])
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)], ids=["SIGTERM", "SIGINT"]
)
def test_a_signal_ends_it_in_time_with_all_committed(night, seeded, number, count):
    night.add([GOOD + f"slow {i}".encode() for i in range(100)])
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


def test_its_budget_ends_it_with_75(night):
    night.add([GOOD + f"slow {i}".encode() for i in range(100)])
    for _ in range(2):
        ended = night.wait(night.start("--max-duration", "1", prefix=ALONE))
        assert ended.exit_code == 75, ended.err
        night.check(ended)
    night.finish()


def test_with_a_real_model_too(project, uninterrupted):
    """SIGTERM to number 1 alone, as `docker stop` sends it."""
    environ = os.environ | {"INFER_RUN__CHUNK_SIZE": "4"}
    run = subprocess.Popen(
        [*ALONE, str(INFER), *project.command("--json")], cwd=project.folder, env=environ, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    first = first_of(run)
    project.wait_for_results(run, 8)
    first.terminate()
    out, err = run.communicate(timeout=25)
    assert run.returncode == 143, err
    done = project.count_results()
    assert json.loads(out)["selected"] == done < NUM_PHOTOS
    assert project.run()["selected"] == NUM_PHOTOS - done
    assert project.results() == uninterrupted
