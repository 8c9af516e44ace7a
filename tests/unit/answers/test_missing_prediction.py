import re
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from infer_app import versions
from infer_app.answers.missing_prediction import (
    Refusal,
    Why,
    explain_changed_file,
    explain_days,
    explain_image,
    explain_other_model,
)
from infer_app.answers.next_run import NextRun
from infer_app.database.queries.pending_images import StoredFailure
from infer_app.domain import Reason
from infer_app.errors import UsageError

TODAY = date(2026, 11, 22)
NEXT = NextRun((("pets", "1" * 16),), None, TODAY, lookback=3)
COLUMN = "column shot_at of specimens"


def days_ago(number):
    return TODAY - timedelta(days=number)


@pytest.mark.parametrize(
    ("ago", "why", "message", "command"),
    [
        (1, Why.COVERED, "the next run covers 2026-11-21", "infer run"),
        (4, Why.COVERED, "the next run covers 2026-11-18", "infer run"),
        (
            5,
            Why.NOT_COVERED,
            "no run covers 2026-11-17 any more",
            "infer backfill --from 2026-11-17 --to 2026-11-17",
        ),
        (
            0,
            Why.COVERED,
            "tomorrow's run covers 2026-11-22, which is today",
            "infer run --date 2026-11-22 --lookback 0",
        ),
        (-1, Why.IN_FUTURE, "2026-11-23 is in the future", "infer run --date 2026-11-23 --lookback 0"),
    ],
)
def test_a_pending_image_waits_for_the_run_that_covers_its_day(ago, why, message, command):
    cause = explain_image(NEXT, "7", days_ago(ago), COLUMN)
    assert (cause.why, cause.message, cause.command) == (why, message, command)


def test_a_range_of_days_is_one_command():
    cause = explain_days(NEXT, date(2026, 11, 1), date(2026, 11, 10))
    assert cause.message == "no run covers 2026-11-01 to 2026-11-10 any more"
    assert cause.command == "infer backfill --from 2026-11-01 --to 2026-11-10"
    assert explain_days(NEXT, days_ago(4), days_ago(1)).command == "infer run"
    assert explain_days(NEXT, days_ago(-1), days_ago(-9)).command == "infer backfill --from 2026-11-23 --to 2026-12-01"


def test_days_of_every_era_are_predicted_by_two_commands():
    assert NEXT.commands([days_ago(1), days_ago(9), days_ago(20)]) == [
        "infer backfill --from 2026-11-02 --to 2026-11-13",
        "infer run",
    ]
    assert NEXT.commands([days_ago(2)]) == ["infer run"]
    named = replace(NEXT, options=" --model 'a b'")
    assert named.commands([days_ago(2), days_ago(5)]) == [
        "infer backfill --from 2026-11-17 --to 2026-11-17 --model 'a b'",
        "infer run --model 'a b'",
    ]


def test_a_run_that_tries_a_version_covers_no_late_days():
    assert replace(NEXT, is_of_version=True).with_late(None, "UTC").late == frozenset()


def test_an_image_without_a_time_is_of_no_day():
    cause = explain_image(NEXT, "7", None, COLUMN)
    assert (cause.why, cause.command, cause.fix) == (Why.NO_TIME, None, "give it a time in column shot_at of specimens")


@pytest.mark.parametrize(
    ("failure", "why", "message", "command"),
    [
        (
            StoredFailure("read_timeout", 1, "30 s"),
            Why.RETRIED,
            "read_timeout (30 s), tried 1 of 3 times; the next run covers 2026-11-21",
            "infer run",
        ),
        (
            StoredFailure("read_timeout", 3, ""),
            Why.REJECTED,
            "read_timeout, tried 3 of 3 times; no run tries it again",
            "infer retry --image 'my photo'",
        ),
        (StoredFailure("not_found", 9, ""), Why.RETRIED, "not_found; the next run covers 2026-11-21", "infer run"),
        (
            StoredFailure("corrupt", 1, "bad marker"),
            Why.REJECTED,
            "rejected as corrupt (bad marker); no run tries it again",
            "infer retry --image 'my photo'",
        ),
    ],
)
def test_a_rejected_image_is_tried_again_or_not(failure, why, message, command):
    cause = explain_image(NEXT, "my photo", days_ago(1), COLUMN, failure)
    assert (cause.why, cause.message, cause.command) == (why, message, command)


def test_a_replaced_file_is_tried_again_without_a_retry():
    failure = StoredFailure("corrupt", 1, "")
    cause = explain_image(NEXT, "7", days_ago(9), COLUMN, failure, is_replaced=True)
    assert cause.why is Why.RETRIED
    assert cause.message == "rejected as corrupt, and the file has changed since; no run covers 2026-11-13 any more"
    assert cause.command == "infer backfill --from 2026-11-13 --to 2026-11-13"


def test_an_image_without_a_decoder_waits_for_it(monkeypatch):
    failure = StoredFailure("heic_decoder_missing", 7, "HEIC")
    monkeypatch.setattr(versions, "missing_decoders", lambda: {Reason.HEIC_DECODER_MISSING})
    cause = explain_image(NEXT, "7", days_ago(9), COLUMN, failure)
    message = "rejected as heic_decoder_missing (HEIC); no run tries it again before its decoder is installed"
    assert (cause.why, cause.message) == (Why.REJECTED, message)
    assert (cause.fix, cause.command) == (
        "pip install 'infer_app[heic]'",
        "infer backfill --from 2026-11-13 --to 2026-11-13",
    )


def test_an_image_whose_decoder_is_installed_now_is_tried_again(monkeypatch):
    failure = StoredFailure("heic_decoder_missing", 7, "HEIC")
    monkeypatch.setattr(versions, "missing_decoders", lambda: {Reason.AVIF_DECODER_MISSING})
    cause = explain_image(NEXT, "7", days_ago(1), COLUMN, failure)
    installed = "rejected as heic_decoder_missing (HEIC), and its decoder is installed now"
    assert (cause.why, cause.message, cause.command) == (
        Why.RETRIED,
        f"{installed}; the next run covers 2026-11-21",
        "infer run",
    )


def test_a_location_that_may_not_be_read_comes_with_how_to_allow_it():
    refusal = Refusal("outside the allowed roots", "allow it")
    pending = explain_image(NEXT, "7", days_ago(1), COLUMN, None, refusal)
    assert (pending.why, pending.fix, pending.command) == (Why.NOT_ALLOWED, "allow it", "infer run")
    failure = StoredFailure("location_not_allowed", 1, "")
    rejected = explain_image(NEXT, "7", days_ago(1), COLUMN, failure, refusal)
    assert (rejected.why, rejected.fix, rejected.command) == (Why.REJECTED, "allow it", "infer retry --image 7")


def test_without_a_model_no_run_is_possible():
    none = NextRun((), UsageError("no model in models", "make one"), TODAY, 3)
    for cause in (explain_image(none, "7", days_ago(1), COLUMN), explain_days(none, TODAY, TODAY)):
        assert (cause.why, cause.fix, cause.command) == (Why.NO_MODEL, "make one", None)
        assert cause.message == "no run is possible: no model in models"


def test_a_model_that_runs_do_not_use():
    built = explain_other_model(NEXT, ("birds", "2" * 16), days_ago(9), is_built=True)
    assert (built.why, built.message) == (Why.OTHER_MODEL, "runs use pets unless told otherwise")
    assert built.command == "infer backfill --from 2026-11-13 --to 2026-11-13 --model birds"
    older = explain_other_model(NEXT, ("pets", "0" * 16), days_ago(9), is_built=False)
    assert (older.message, older.command) == (f"runs use version {'1' * 16} of pets", None)


def test_every_cause_is_documented():
    page = Path(__file__).parents[3] / "docs" / "reasons.md"
    table = page.read_text().partition("\n## Rejected")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(Why)


def test_the_file_of_a_prediction_has_changed():
    assert explain_changed_file("7").command == "infer retry --image 7"
