import re
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from infer_app.ask.missing_prediction import Cause, Refusal, Why, explain_days, explain_image, explain_other_model
from infer_app.ask.next_run import NextRun
from infer_app.base.domain import Reason
from infer_app.base.errors import UsageError
from infer_app.base.packages import install
from infer_app.tables.queries.pending_images import StoredFailure

TODAY = date(2026, 11, 22)
COLUMN = "column shot_at of specimens"
NEXT = NextRun(
    (("pets", "1" * 16),), None, TODAY, lookback=3, time_column=COLUMN, watches=lambda location: "watched" in location
)


def days_ago(number):
    return TODAY - timedelta(days=number)


CORRUPT, TIMEOUT = StoredFailure("corrupt", 1, "bad marker", True), StoredFailure("read_timeout", 1, "30 s")
UNDECODED, MISSING = StoredFailure("heic_decoder_missing", 7, "HEIC", True), StoredFailure("not_found", 9, "")
SETTLED = replace(TIMEOUT, attempts=3, is_settled=True)
DECODABLE = replace(UNDECODED, reason="avif_decoder_missing", is_settled=False)
ELSEWHERE = StoredFailure("location_not_allowed", 1, "", True)
REFUSAL = Refusal("outside the allowed roots", "allow it")
REPLACED = {"failure": CORRUPT, "is_replaced": True}
RUN, ONE_DAY, RETRY = "infer run", "infer run --date {} --lookback 0", "infer retry --image 'my photo'"
BACKFILL = "infer backfill --from 2026-11-13 --to 2026-11-13"
CORRECT, REPAIR = "correct the time if it is wrong", "repair or replace the file, if that is the cause"
SOON, LATE, NEVER = "the next run covers 2026-11-21", "no run covers 2026-11-13 any more", "no run tries it again"
BAD, CORRECTED = "rejected as corrupt (bad marker)", "a corrected file is taken by the next run"
OWN, WATCHED = {"location": "/own/a.jpg"}, {"location": "/watched/a.jpg"}
BY_MODEL = StoredFailure("model_error", 1, "", True)


@pytest.mark.parametrize(
    ("ago", "known", "why", "message", "command", "fix"),
    [
        (1, {}, "covered", SOON, RUN, ""),
        (4, {}, "covered", "the next run covers 2026-11-18", RUN, ""),
        (9, {}, "not_covered", LATE, BACKFILL, ""),
        (0, {}, "covered", "tomorrow's run covers 2026-11-22, which is today", ONE_DAY.format("2026-11-22"), ""),
        (-1, {}, "in_future", "2026-11-23 is in the future", ONE_DAY.format("2026-11-23"), CORRECT),
        (None, {}, "no_time", "it has no time, so no run covers it", None, f"give it a time in {COLUMN}"),
        (1, {"failure": TIMEOUT}, "retried", f"read_timeout (30 s), tried 1 of 3 times; {SOON}", RUN, ""),
        (1, {"failure": SETTLED}, "rejected", f"read_timeout (30 s), tried 3 of 3 times; {NEVER}", RETRY, ""),
        (1, {"failure": MISSING}, "retried", f"not_found; {SOON}", RUN, ""),
        (1, {"failure": CORRUPT}, "rejected", f"{BAD}; {NEVER}", RETRY, REPAIR),
        (1, {"failure": CORRUPT} | OWN, "rejected", f"{BAD}; {CORRECTED}", RUN, REPAIR),
        (9, {"failure": CORRUPT} | OWN, "rejected", f"{BAD}; {NEVER}", RETRY, REPAIR),
        (9, {"failure": CORRUPT} | WATCHED, "rejected", f"{BAD}; {CORRECTED}", RUN, REPAIR),
        (9, {"failure": BY_MODEL} | WATCHED, "rejected", f"rejected as model_error; {NEVER}", RETRY, REPAIR),
        (1, {"failure": CORRUPT, "location": "row:1@2026"}, "rejected", f"{BAD}; {NEVER}", RETRY, REPAIR),
        (-1, {"failure": CORRUPT} | WATCHED, "rejected", f"{BAD}; {NEVER}", RETRY, REPAIR),
        (9, REPLACED | WATCHED, "retried", f"{BAD}, and the file has changed since; the next run takes it", RUN, ""),
        (9, REPLACED, "retried", f"{BAD}, and the file has changed since; {LATE}", BACKFILL, ""),
        (
            *(9, {"failure": UNDECODED}, "rejected"),
            f"rejected as heic_decoder_missing (HEIC); {NEVER} before its decoder is installed",
            *(BACKFILL, install("heic")),
        ),
        (
            *(1, {"failure": DECODABLE}, "retried"),
            f"rejected as avif_decoder_missing (HEIC), and its decoder is installed now; {SOON}",
            *(RUN, ""),
        ),
        (1, {"refusal": REFUSAL}, "not_allowed", f"its location is not allowed: {REFUSAL.detail}", RUN, "allow it"),
        (
            *(1, {"failure": ELSEWHERE, "refusal": REFUSAL}, "rejected"),
            *(f"rejected as location_not_allowed; {NEVER}", RETRY, "allow it"),
        ),
    ],
)
def test_why_an_image_has_no_prediction_and_what_leads_to_one(installed, ago, known, why, message, command, fix):
    installed.remove("_pillow_heif")
    cause = explain_image(NEXT, "my photo", None if ago is None else days_ago(ago), **known)
    assert cause == Cause(Why(why), message, command, fix)


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


def test_without_a_model_no_run_is_possible():
    none = NextRun((), UsageError("no model in models", "make one"), TODAY, 3)
    for cause in (explain_image(none, "7", days_ago(1)), explain_days(none, TODAY, TODAY)):
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


def test_every_reason_is_documented_with_its_class():
    page = Path(__file__).parents[3] / "docs" / "reasons.md"
    rows = re.findall(r"^\| (`[^|]*`) \| (\w+) \|", page.read_text().partition("\n## Rejected")[2], re.MULTILINE)
    documented = {name: of for names, of in rows for name in re.findall(r"`(\w+)`", names)}
    assert documented == {reason.value: reason.of.value for reason in Reason}
