from dataclasses import replace
from datetime import date

import pytest

from infer_app.ask.advice import Before, Situation, changes, steps
from infer_app.ask.drift import Drift
from infer_app.ask.run_figures import run_figures
from infer_app.base.domain import DECODER_MODULES, TRANSIENT_REASONS, Reason, ReasonClass
from infer_app.base.run_report import DayCounts, DayState
from infer_app.tables.queries.day_state import DayFacts
from infer_app.tables.queries.pending_images import PendingDays
from tests.support.day_rows import run_row

RUN = run_figures(run_row() | {"error": None, "selected": 1000, "throughput": {"steady_images_per_second": 100.0}})
GOOD = DayState("done", "good", 0, ())
ROW = {"state": "done", "exit_code": 0, "error": None, "throughput": None}
NEW = DayCounts(9, 0, 0, 9)
FACTS = DayFacts(DayCounts(1000, 1000, 0, 0), [ROW], "5%")
ALL_WELL = Situation(date(2026, 11, 20), FACTS, GOOD, {})
BEFORE = Before([1000, 1000], predicted=1990, rejected=10, runs=[RUN, RUN, RUN])


def test_when_all_is_well_there_is_nothing_to_do():
    assert steps(ALL_WELL) == ()


@pytest.mark.parametrize(
    ("changed", "command"),
    [
        ({"facts": replace(FACTS, problems=["2 images have both"])}, "infer verify --date 2026-11-20"),
        ({"facts": replace(FACTS, runs=[ROW | {"state": "failed", "exit_code": 10, "error": "gone"}])}, "infer doctor"),
        ({"facts": replace(FACTS, counts=NEW)}, "infer run --date 2026-11-20"),
        ({"facts": replace(FACTS, counts=NEW), "day_state": replace(GOOD, state="running")}, "infer status"),
        (
            {"facts": replace(FACTS, older=PendingDays(date(2026, 11, 2), date(2026, 11, 9), 3))},
            "infer backfill --from 2026-11-02 --to 2026-11-09",
        ),
        ({"day_state": replace(GOOD, exit_code=3)}, "infer list --state rejected --date 2026-11-20"),
        ({"reasons": {"truncated": 2}}, "infer list --state rejected --date 2026-11-20"),
        ({"facts": replace(FACTS, labels_moved=True)}, None),
    ],
)
def test_what_to_do_is_one_step_with_its_command(changed, command):
    assert [step.command for step in steps(replace(ALL_WELL, **changed))] == [command]


def test_a_step_of_one_of_several_models_names_it():
    (step,) = steps(replace(ALL_WELL, reasons={"truncated": 2}))
    assert step.of(()) == step
    told = step.of(["lite0"])
    assert told.what == "lite0: 2 rejected for content: fix or remove the files"
    assert told.command == "infer list --state rejected --date 2026-11-20 --model lite0"
    assert step.of(["lite0", "b0"]).command == step.command


def test_rejections_are_told_by_what_helps():
    (step,) = steps(replace(ALL_WELL, reasons={"truncated": 2, "not_found": 3, "location_not_allowed": 4}))
    retry = "infer retry --date 2026-11-20 --reason location_not_allowed"
    assert step.what.split("; ") == [
        "2 rejected for content: fix or remove the files",
        "3 rejected for now: the next run retries them",
        f"4 rejected for a setting: correct the images, or change it and run `{retry}`",
    ]


@pytest.mark.parametrize("reason", Reason)
def test_a_rejection_is_told_by_the_class_of_its_reason_or_by_what_retries_it(reason):
    """Whatever the class, what the next run tries again by itself is told as such."""
    (step,) = steps(replace(ALL_WELL, reasons={reason.value: 2}))
    told = {"the model": ReasonClass.MODEL, "a setting": ReasonClass.SETTING, "content": ReasonClass.CONTENT}
    found = next((of for text, of in told.items() if step.what.startswith(f"2 rejected for {text}:")), None)
    is_retried = reason in TRANSIENT_REASONS or reason in DECODER_MODULES
    assert found == (None if is_retried else reason.of)
    assert found is not None or step.what.startswith(("2 rejected for now", "2 rejected for want of a decoder"))


def test_a_usual_day_has_nothing_notable():
    found = changes(DayCounts(1000, 995, 5, 0), RUN, BEFORE, Drift(0.02, 0.05, 1990))
    assert [(one.what, one.now, one.before, one.is_notable) for one in found] == [
        ("Images", "1,000", "1,000 a day", False),
        ("Rejected", "0.50 %", "0.50 %", False),
        ("Images/s", "100", "100", False),
        ("Label drift", "0.02", "≤ 0.05 by chance", False),
    ]


def test_what_differs_is_notable():
    run = replace(RUN, steady_images_per_second=70.0, variant="cpu-openvino-int8", versions={"python": "3.12.1"})
    found = changes(DayCounts(400, 300, 100, 0), run, BEFORE, Drift(0.2, 0.05, 1990))
    assert [(one.what, one.now) for one in found if one.is_notable] == [
        ("Images", "400"),
        ("Rejected", "25 %"),
        ("Images/s", "70"),
        ("Label drift", "0.20"),
        ("Variant", "cpu-openvino-int8"),
        ("python", "3.12.1"),
    ]


def test_a_run_of_a_few_images_is_no_measure_of_speed():
    few = replace(RUN, selected=5)
    assert "Images/s" not in [one.what for one in changes(DayCounts(5, 5, 0, 0), few, BEFORE, None)]
