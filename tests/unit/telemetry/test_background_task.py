import threading
import time

from infer_app.telemetry.notify import BackgroundTask, Undelivered, wait_for


def never():
    return False


def fail(error):
    raise error


def test_what_is_done_has_no_problem():
    done = []
    task = BackgroundTask("e", lambda: done.append(1))
    wait_for([task], time.monotonic() + 5, never)
    assert (done, task.problem) == ([1], None)


def test_a_problem_is_reported_and_of_a_bug_only_the_name():
    undelivered, bug = (
        BackgroundTask("e", lambda: fail(Undelivered("500"))),
        BackgroundTask("e", lambda: fail(ValueError("canary"))),
    )
    wait_for([undelivered, bug], time.monotonic() + 5, never)
    assert (undelivered.problem, bug.problem) == ("500", "ValueError")


def test_nobody_waits_beyond_the_deadline_for_all_of_them():
    held = threading.Event()
    tasks = [BackgroundTask("e", held.wait) for _ in range(50)]  # one after the other they would take 15 s
    began = time.monotonic()
    wait_for(tasks, began + 0.3, never)
    assert 0.25 < time.monotonic() - began < 10
    assert {task.problem for task in tasks} == {"no answer"}
    held.set()


def test_a_signal_ends_the_waiting():
    held = threading.Event()
    began = time.monotonic()
    wait_for([BackgroundTask("e", held.wait)], began + 30, lambda: time.monotonic() > began + 0.2)
    assert time.monotonic() - began < 20
    held.set()
