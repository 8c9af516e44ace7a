import time

import pytest

from infer_app.base.telemetry.notify import BackgroundTask, Undelivered, wait_for


@pytest.mark.parametrize(
    ("error", "problem"), [(None, None), (Undelivered("500"), "500"), (ValueError("canary"), "ValueError")]
)
def test_a_problem_is_reported_and_of_a_bug_only_the_name(error, problem):
    def do():
        if error:
            raise error

    task = BackgroundTask("e", do)
    wait_for([task], time.monotonic() + 60, lambda: False)
    assert task.problem == problem
