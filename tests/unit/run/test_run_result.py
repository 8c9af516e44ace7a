from types import SimpleNamespace

import pytest

from infer_app.base.run_report import ModelOutcome
from infer_app.run.run_result import RunSummary


@pytest.mark.parametrize(
    ("exit_codes", "expected"),
    [([], 0), ([0, 0], 0), ([0, 3, 75], 3), ([0, 12, 13], 12), ([0, 2], 2), ([0, 3, 12], 12), ([143, 3, 13], 143)],
)
def test_the_exit_code_of_a_run_is_the_most_severe_one_of_its_models(exit_codes, expected):
    ended = [SimpleNamespace(outcome=ModelOutcome("a", code)) for code in exit_codes]
    assert RunSummary(ended, [], None).exit_code == RunSummary([], ended, None).exit_code == expected
