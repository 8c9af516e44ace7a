import os
import threading
import time

import psutil
import pytest

from infer_app.base.errors import ModelError, NoAnswer
from infer_app.predict.workers.isolated_call import iterate_in_process, run_in_process
from tests.process.predict.workers.toy_calls import count_threads_of_parent, count_up, die, loaded, refuse


def test_a_function_runs_in_another_process_of_which_nothing_stays_behind():
    threads = threading.active_count()
    assert run_in_process(divmod, 17, 5) == (3, 2)
    pid = run_in_process(os.getpid)
    assert pid not in (os.getpid(), None)
    assert not psutil.pid_exists(pid)
    assert threading.active_count() == threads


def test_an_error_comes_back_with_its_hint_and_exit_code():
    with pytest.raises(ModelError, match="^models/pets: refused") as caught:
        run_in_process(refuse, "models/pets")
    assert (caught.value.hint, caught.value.exit_code) == ("ask again", 12)


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda: run_in_process(die), ModelError, "die: its process was killed"),
        (lambda: run_in_process(time.sleep, 60, timeout_s=0.5), NoAnswer, r"sleep: no answer within 0\.5 s"),
        (lambda: list(iterate_in_process(count_up, 1, "hangs", timeout_s=0.5, check=list)), NoAnswer, "no answer"),
    ],
    ids=["killed", "hangs", "an item does not come in time"],
)
def test_a_process_that_is_killed_or_hangs_is_an_error_and_no_endless_wait(call, error, told):
    with pytest.raises(error, match=told):
        call()
    assert run_in_process(divmod, 17, 5) == (3, 2)


@pytest.mark.parametrize("end", ["ends", "raises", "dies"])
def test_what_is_yielded_in_another_process_comes_one_by_one_and_then_its_end(end):
    found, ended = [], "ends"
    try:
        found.extend(iterate_in_process(count_up, 3, end, timeout_s=60.0, check=list))
    except ModelError as error:
        ended = "raises" if str(error) == "counted: refused" else "dies"
    assert (found, ended) == ([0, 1, 2], end)


def test_a_caller_can_end_the_wait_for_each_item_also_where_none_is_waited_for():
    calls = []
    list(iterate_in_process(count_up, 3, "ends", timeout_s=60.0, check=lambda: calls.append(1)))
    assert len(calls) >= 3

    def refuse_to_wait():
        raise InterruptedError

    with pytest.raises(InterruptedError):
        list(iterate_in_process(count_up, 1, "hangs", timeout_s=60.0, check=refuse_to_wait))


def test_what_workers_need_is_there_already_and_torch_is_not():
    """A run with OpenVINO needs none; importing it takes a second."""
    assert run_in_process(loaded, "torch", "infer_app.predict.handlers.cpu_handler", "openvino") == [
        "infer_app.predict.handlers.cpu_handler",
        "openvino",
    ]


def test_what_processes_are_forked_from_has_one_thread():
    """Others would not survive the fork, and what they hold would stay locked."""
    assert run_in_process(count_threads_of_parent) == 1
