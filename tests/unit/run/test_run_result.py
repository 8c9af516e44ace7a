from types import SimpleNamespace

import pytest

from infer_app.base.errors import DayHeld, ModelError, UsageError
from infer_app.run.run_result import FailedModel, RunSummary


@pytest.mark.parametrize(
    ("exit_codes", "errors", "expected"),
    [
        *(([], [], 0), ([0, 0], [], 0), ([0, 3, 75], [], 3), ([0, 12, 13], [], 12), ([0], [UsageError("")], 2)),
        *(([0, 3], [ModelError("")], 12), ([143, 3], [DayHeld("")], 143)),
    ],
)
def test_the_exit_code_of_a_run_is_the_most_severe_one_of_its_models(exit_codes, errors, expected):
    results = [SimpleNamespace(exit_code=code) for code in exit_codes]
    assert RunSummary(results, [FailedModel("a", error) for error in errors], [], None).exit_code == expected
