"""The block that a run of several models prints: what is equal stands once."""

from dataclasses import replace
from datetime import date

import pytest

from infer_app.base.run_report import DayCounts, DayObjects, Verdict
from infer_app.cli.commands.run_commands import RunOptions
from infer_app.cli.run.run_output import RunOutput
from infer_app.run.files.registration import Registration
from infer_app.run.run_result import ModelResult, RunSummary
from infer_app.tables.queries.pending_images import PendingDays
from tests.conftest import DAY
from tests.support.run_reports import REPORT

BEFORE = replace(REPORT, date=DAY.before(1).date, model="animals", reasons={})
ANIMALS = replace(REPORT, date=DAY.date, model="animals", stages={"model": 14.1})
SPECIES = replace(ANIMALS, model="species", objects=DayObjects(9, 3, 3))
WHOLE = replace(ANIMALS, model="whole", seconds=120.0, stages={"model": 2.0})
ATTENTION = Verdict("done", "attention", 0, ("unusual",))
OLDER = PendingDays(date(2026, 11, 1), date(2026, 11, 2), 7)


def result_of(*reports, older=OLDER):
    return ModelResult([*reports], [], older, None, 0, ATTENTION, True)


@pytest.fixture
def printed(capsys):
    def block(*results):
        RunOutput(RunSummary([*results], [], None), [DAY.before(1), DAY], RunOptions(), Registration()).print()
        return capsys.readouterr().out.splitlines()

    return block


def test_what_is_equal_for_all_models_stands_once_and_what_is_not_has_their_names(printed):
    block = printed(
        result_of(BEFORE, ANIMALS), *(result_of(replace(BEFORE, model=one.model), one) for one in (SPECIES, WHOLE))
    )
    costs = "limit 16 images/s, reached 15, 15 once the workers ran"
    balance = "41,203 = 41,188 predicted + 15 rejected + 0 pending"
    speed = "94 % of the limit; bottleneck: model"
    assert block == [
        f"19 Nov: {balance} · 46 min · {speed}",
        "needs attention: unusual",
        f"animals, species: CPU ms per image: model 14.10; {costs}",
        f"whole: CPU ms per image: model 2.00; {costs}",
        "rejected: 15 truncated; `infer list --state rejected --date 2026-11-20` lists them",
        "animals, species: 46 min",
        "species: objects: 9 found, 3 taken, 3 done",
        "whole: 2 min",
        f"20 Nov: {balance} · {speed}",
    ]


def test_of_one_model_there_are_no_names(printed):
    assert printed(result_of(BEFORE, SPECIES, older=None))[-1] == (
        "20 Nov: 41,203 = 41,188 predicted + 15 rejected + 0 pending"
        " · objects: 9 found, 3 taken, 3 done · 46 min · 94 % of the limit; bottleneck: model"
    )


def test_different_counts_have_the_name_of_their_model(printed):
    behind = replace(WHOLE, day=DayCounts(41_203, 41_000, 15, 188))
    block = printed(result_of(ANIMALS), result_of(behind, older=None))
    assert block[-3:] == [
        "animals: 20 Nov: 41,203 = 41,188 predicted + 15 rejected + 0 pending · 46 min",
        "whole: 20 Nov: 41,203 = 41,000 predicted + 15 rejected + 188 pending · 2 min",
        "94 % of the limit; bottleneck: model",
    ]
