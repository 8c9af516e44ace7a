"""Whatever ends a run, a worker or its coordinator: nothing is lost, nothing done twice, no process left behind."""

import json
import os
import signal
import time
from contextlib import suppress

import psutil
import pytest

from tests.faults.conftest import BROKEN, NUM_PHOTOS, descendants, workers_of
from tests.support.leftovers import shared_memory
from tests.support.suspended import suspend
from tests.support.waiting import wait_until

CHUNK = 4


@pytest.fixture(params=["cpu", "cuda"])
def _each_executor(request, monkeypatch):
    """`cuda` with its ring, and plain copies to the CPU."""
    monkeypatch.setenv("INFER_RUN__EXECUTOR", request.param)


@pytest.mark.usefixtures("_each_executor")
@pytest.mark.parametrize(
    ("_each_executor", "count"),
    [("cpu", 0), ("cuda", 0), pytest.param("cpu", 40, marks=pytest.mark.always), ("cuda", 40)],
    indirect=["_each_executor"],
)
def test_a_run_that_was_killed_is_finished_by_the_next(project, uninterrupted, seeded, count):
    """Everything at once, as by a power cut; `count` images were done, or none and the workers were starting."""
    run = project.start_run("--json")
    project.wait_for_results(run, count)
    time.sleep(seeded.uniform(0, 0.2) if count else seeded.uniform(0.3, 2.0))
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    done = project.count_results()
    assert project.run()["selected"] == NUM_PHOTOS - done  # only the rest
    assert project.results() == uninterrupted
    project.check_books()
    states = project.rows("SELECT state, exit_code, error FROM infer_runs ORDER BY started_at")
    killed, right = ("failed", None, "the process ended unexpectedly"), ("done", 0, None)
    too_late = [[right, right]] if done == NUM_PHOTOS else []
    assert states in ([killed, right], [right], *too_late)  # or before it had begun


@pytest.mark.usefixtures("_each_executor")
def test_a_run_whose_workers_are_killed_again_and_again_ends_right(project, uninterrupted, seeded):
    """As by the kernel's out-of-memory killer, every 200 ms for three seconds, then now and then."""
    run = project.start_run("--json")
    project.wait_for_results(run, 1)
    killed = 0
    for pause_s in [0.2] * 15 + [2.0] * 2:
        if victims := workers_of(run):
            with suppress(psutil.NoSuchProcess):  # it has just ended
                seeded.choice(victims).kill()
                killed += 1
        time.sleep(pause_s)
    out, err = run.communicate(timeout=100)
    assert run.returncode == 0, err
    assert killed > 5
    report = json.loads(out)
    assert report["day"] == {
        "eligible": NUM_PHOTOS,
        "predicted": NUM_PHOTOS - len(BROKEN),
        "rejected": len(BROKEN),
        "pending": 0,
    }
    assert (report["selected"], project.results()) == (NUM_PHOTOS, uninterrupted)


def wait_for_workers(run):
    """Until one has started, or the run has ended."""
    wait_until(lambda: workers_of(run) or run.poll() is not None)


@pytest.mark.usefixtures("_each_executor")
@pytest.mark.parametrize("count", [0, 10])
def test_when_the_coordinator_is_killed_its_workers_end_and_leave_nothing_behind(project, seeded, tmp_path, count):
    """`count` images were done, or none and the workers were starting."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    shared = shared_memory()
    run = project.start_run(TMPDIR=str(temporary))
    wait_for_workers(run)
    time.sleep(0 if count else seeded.uniform(0, 0.3))
    project.wait_for_results(run, count)
    orphans = descendants(run)
    assert orphans
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    _, alive = psutil.wait_procs(orphans, timeout=60)
    assert alive == []
    assert list(temporary.iterdir()) == []
    wait_until(lambda: shared_memory() <= shared)  # others of this machine make and remove some


@pytest.mark.usefixtures("_each_executor")
@pytest.mark.parametrize(
    ("number", "to_group", "count"),
    [(signal.SIGTERM, False, 1), (signal.SIGTERM, True, 40), (signal.SIGINT, True, 1)],
    ids=["SIGTERM", "SIGTERM to all", "SIGINT to all"],
)
def test_a_signal_ends_a_run_with_what_is_in_flight_committed(project, uninterrupted, number, to_group, count):
    """To the coordinator alone, or to all its processes as systemd and a terminal send it."""
    run = project.start_run("--json")
    project.wait_for_results(run, count)
    before = project.count_results()
    (os.killpg if to_group else os.kill)(run.pid, number)
    start = time.monotonic()
    out, err = run.communicate(timeout=60)
    assert time.monotonic() - start < 25
    assert run.returncode == 128 + number, err
    report, done = json.loads(out), project.count_results()
    assert (report["exit_code"], report["selected"]) == (128 + number, done)
    assert before <= done < NUM_PHOTOS
    assert report["day"]["pending"] == NUM_PHOTOS - done
    assert project.rows("SELECT state, exit_code FROM infer_runs") == [("done", 128 + number)]
    assert project.run()["selected"] == NUM_PHOTOS - done
    assert project.results() == uninterrupted
    project.check_books()


@pytest.mark.parametrize("after_s", [0.0, 0.8])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_while_the_workers_start_is_no_failure_of_theirs(project, number, after_s):
    """To all processes. A worker that is told to go has not failed to start."""
    run = project.start_run("--json")
    wait_for_workers(run)
    time.sleep(after_s)
    os.killpg(run.pid, number)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 128 + number, err
    assert json.loads(out)["exit_code"] == 128 + number
    assert "died" not in err


@pytest.mark.always
def test_after_a_second_signal_no_process_is_left_and_the_next_run_completes(project, uninterrupted):
    run = project.start_run("--json")
    project.wait_for_results(run, 10)
    orphans = descendants(run)
    run.terminate()
    run.terminate()
    run.communicate(timeout=60)
    assert run.returncode == 143
    assert psutil.wait_procs(orphans, timeout=60)[1] == []
    project.run()
    assert project.results() == uninterrupted


def test_a_time_budget_ends_a_run_with_75_and_the_rest_is_done_next_time(project, uninterrupted):
    first = project.run("--max-duration", "1", exit_code=75)
    assert 0 < first["selected"] < NUM_PHOTOS
    assert first["day"]["pending"] == NUM_PHOTOS - first["selected"] == NUM_PHOTOS - project.count_results()
    project.check_books()
    assert project.run("--max-duration", "600")["selected"] == NUM_PHOTOS - first["selected"]
    assert project.results() == uninterrupted


def test_a_run_that_waits_hears_a_signal_and_its_deadline_and_goes_on_where_the_other_ended(project, uninterrupted):
    first = project.start_run("--json")
    project.wait_for_results(first, 1)
    suspend(first, project.folder / "infer.db")  # alive all the same
    late = project.start_run("--json", "--wait", "--max-duration", "1")
    assert (late.communicate(timeout=30), late.returncode)[1] == 13
    told, second = (project.start_run("--json", "--wait") for _ in range(2))
    time.sleep(3)
    told.terminate()
    assert (told.communicate(timeout=10), told.returncode)[1] == 143
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    out, err = second.communicate(timeout=100)
    assert second.returncode == 0, out + err
    assert 0 < json.loads(out)["selected"] < NUM_PHOTOS
    assert project.results() == uninterrupted
