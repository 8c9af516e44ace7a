import os
import threading
import time

import psutil
import pytest

from infer_app.errors import ModelError, NoAnswer
from infer_app.workers.isolated_call import iterate_in_process, run_in_process
from tests.process.workers.toy_calls import count_up, die, loaded, refuse


def test_a_function_runs_in_another_process_and_its_answer_comes_back():
    assert run_in_process(os.getpid) not in (os.getpid(), None)
    assert run_in_process(divmod, 17, 5) == (3, 2)


def test_an_error_comes_back_with_its_hint_and_exit_code():
    with pytest.raises(ModelError) as caught:
        run_in_process(refuse, "models/pets")
    assert (caught.value.message, caught.value.hint, caught.value.exit_code) == (
        "models/pets: refused",
        "ask again",
        12,
    )


def test_no_process_and_no_thread_stays_behind():
    threads = threading.active_count()
    pid = run_in_process(os.getpid)
    assert not psutil.pid_exists(pid)
    assert threading.active_count() == threads


def test_a_process_that_is_killed_is_an_error_and_no_endless_wait():
    with pytest.raises(ModelError, match="die: its process was killed"):
        run_in_process(die)
    assert run_in_process(divmod, 17, 5) == (3, 2)


def test_a_function_that_hangs_is_ended_and_an_error():
    with pytest.raises(NoAnswer, match=r"sleep: no answer within 0\.5 s"):
        run_in_process(time.sleep, 60, timeout_s=0.5)
    assert run_in_process(divmod, 17, 5) == (3, 2)


@pytest.mark.parametrize("end", ["ends", "raises", "dies"])
def test_what_is_yielded_in_another_process_comes_one_by_one_and_then_its_end(end):
    found, ended = [], "ends"
    try:
        found.extend(iterate_in_process(count_up, 3, end, timeout_s=60.0, check=list))
    except ModelError as error:
        ended = "raises" if str(error) == "counted: refused" else "dies"
    assert (found, ended) == ([0, 1, 2], end)


def test_an_item_that_does_not_come_in_time_is_an_error():
    with pytest.raises(NoAnswer, match=r"count_up: no answer within 0\.5 s"):
        list(iterate_in_process(count_up, 1, "hangs", timeout_s=0.5, check=list))


def test_a_caller_can_end_it_at_each_item_though_none_is_waited_for():
    calls = []
    list(iterate_in_process(count_up, 3, "ends", timeout_s=60.0, check=lambda: calls.append(1)))
    assert len(calls) >= 3


def test_a_wait_for_the_next_item_can_be_ended():
    def refuse_to_wait():
        raise InterruptedError

    items = iterate_in_process(count_up, 1, "hangs", timeout_s=60.0, check=refuse_to_wait)
    with pytest.raises(InterruptedError):
        list(items)


def test_torch_is_there_already_and_openvino_is_not():
    """Its threads would not survive the fork that a worker is made by."""
    assert run_in_process(loaded, "torch", "infer_app.handlers.cpu_handler", "openvino") == [
        "torch",
        "infer_app.handlers.cpu_handler",
    ]
