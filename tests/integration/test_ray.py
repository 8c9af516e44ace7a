"""`infer run --executor ray` on this machine alone: the rows of the `cpu` executor, and nothing left behind."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.support.projects import DATE, Project, install, without
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.ray, pytest.mark.slow]
RAY = ("run", "--date", DATE, "--lookback", "0", "--executor", "ray", "--workers", "2")


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory):
    """Where a run puts what it needs meanwhile; Ray makes sockets in it."""
    pytest.importorskip("ray")
    folder = Path("/tmp") / f"t{os.getpid()}"
    folder.mkdir()
    yield folder
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    folder.rmdir()


def check_nothing_is_left(temporary):
    wait_until(lambda: processes(str(temporary)) == [])
    assert list(temporary.iterdir()) == []


def processes(mark):
    """Processes that run with this temporary folder."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("TMPDIR") == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def count(project):
    return project.rows("SELECT count(*) FROM infer_predictions")[0][0]


def test_it_gives_the_rows_of_the_cpu_executor_and_leaves_nothing(make_project, temporary):
    on_cpu, on_ray = make_project("cpu"), make_project("ray")
    for project in (on_cpu, on_ray):
        project.add_photos(40)
        (project.photos / "0007.jpg").write_bytes(b"")
    on_cpu.infer(*RAY[:5], "--executor", "cpu")
    told = on_ray.infer_json(*RAY, TMPDIR=str(temporary))
    assert on_ray.results() == on_cpu.results()
    assert (told["executor"], told["num_workers"], told["reasons"]) == ("ray", 2, {"empty": 1})
    ((host, figures),) = told["nodes"].items()
    assert (host, figures["images"]) == (os.uname().nodename, 40)
    assert figures["stages"]["decode"] > 0
    assert on_ray.rows("SELECT executor, throughput LIKE '%" + host + "%' FROM infer_runs") == [("ray", 1)]
    check_nothing_is_left(temporary)


@pytest.mark.parametrize(
    "to_all", [pytest.param(False, id="SIGTERM", marks=pytest.mark.full), pytest.param(True, id="SIGTERM to all")]
)
def test_a_signal_ends_it_after_what_is_in_flight(project, temporary, to_all):
    project.add_photos(400)
    run = project.start(*RAY, "--json", TMPDIR=str(temporary), INFER_RUN__CHUNK_SIZE="1")
    wait_until(lambda: run.poll() is not None or count(project))
    start = time.monotonic()
    (os.killpg if to_all else os.kill)(run.pid, signal.SIGTERM)
    out, err = run.communicate(timeout=60)
    assert (run.returncode, time.monotonic() - start < 25) == (143, True), err
    assert 0 < count(project) < 400
    assert f'"predicted": {count(project)}' in out
    check_nothing_is_left(temporary)


def test_a_driver_that_is_killed_leaves_no_process_and_its_day_is_completed(project, temporary):
    project.add_photos(400)
    run = project.start(*RAY, TMPDIR=str(temporary), INFER_RUN__CHUNK_SIZE="1")
    wait_until(lambda: run.poll() is not None or count(project))
    os.kill(run.pid, signal.SIGKILL)
    run.communicate(timeout=60)
    wait_until(lambda: processes(str(temporary)) == [])
    project.infer("run", "--date", DATE, "--executor", "cpu")
    assert count(project) == 400


def test_without_ray_it_says_what_to_install(project, tmp_path):
    project.add_photos(1)
    error = project.infer_json(*RAY, exit_code=2, **without(tmp_path / "hides", "ray"))
    assert (error["error"], error["hint"]) == ("Ray is not installed", install("ray"))


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("ADDRESS", "127.0.0.1:1", "no Ray cluster at 127.0.0.1:1"),
        ("NUM_GPUS", "64", "no node has room for an actor of"),
    ],
    ids=["no cluster at the address", "an actor fits no node"],
)
def test_a_cluster_that_can_not_be_used_is_told_and_leaves_nothing(project, temporary, setting, value, said):
    project.add_photos(1)
    error = project.infer_json(*RAY, exit_code=2, TMPDIR=str(temporary), **{f"INFER_RAY__{setting}": value})
    assert said in error["error"]
    check_nothing_is_left(temporary)


def test_doctor_looks_at_each_node(project: Project, temporary):
    project.add_photos(3)
    found = project.infer_json("doctor", "--executor", "ray", TMPDIR=str(temporary))
    (ray,) = [finding for finding in found["findings"] if finding["check"] == "ray"]
    assert (ray["exit_code"], ray["found"].endswith("reads 3 of 3 images")) == (0, True)
