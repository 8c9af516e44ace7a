from dataclasses import replace
from types import SimpleNamespace

import pytest

from infer_app.base.errors import EXIT_TIME_BUDGET, DayHeld, ModelError, UsageError
from infer_app.base.run_report import ModelOutcome
from infer_app.run.run_day import with_left_out
from infer_app.run.run_result import FailedModel, RunSummary
from tests.support.run_reports import REPORT


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


def test_a_model_that_was_not_started_counts():
    results = [SimpleNamespace(exit_code=0)]
    assert RunSummary(results, [], [ModelOutcome("a", 0), ModelOutcome("b", 143)], None).exit_code == 143


def test_rows_that_are_left_out_are_wrong_settings_also_of_a_run_whose_time_was_over():
    (report,) = with_left_out([replace(REPORT, exit_code=EXIT_TIME_BUDGET)], "1 row without an id")
    assert report.exit_code == UsageError.exit_code
