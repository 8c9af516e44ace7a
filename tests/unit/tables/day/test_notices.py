from dataclasses import replace
from datetime import date

import pytest

from infer_app.base.domain import DECODER_MODULES, TRANSIENT_REASONS, Reason, ReasonClass
from infer_app.base.run_report import DayCounts
from infer_app.tables.day.facts import DayFacts, ProjectFacts
from infer_app.tables.day.ill_cameras import NONE_ILL, IllCameras
from infer_app.tables.day.illness import KINDS, Illness
from infer_app.tables.day.notices import OF_PROJECT, notices_of_day, notices_of_project
from infer_app.tables.queries.pending_images import PendingDays

ROW = {"state": "done", "exit_code": 0, "error": None, "throughput": None, "selected": 1}
NEW, TOO_MANY = DayCounts(9, 0, 0, 9), DayCounts(100, 89, 11, 0)
ALL_WELL = DayFacts(date(2026, 11, 20), DayCounts(1000, 1000, 0, 0), [ROW], "5%")


def test_when_all_is_well_there_is_nothing_to_do():
    assert notices_of_day(ALL_WELL) == []


@pytest.mark.parametrize(
    ("changed", "command"),
    [
        ({"problems": ["2 images have both"]}, "infer verify --date 2026-11-20"),
        ({"runs": [ROW | {"state": "failed", "exit_code": 10, "error": "gone"}]}, "infer doctor"),
        ({"counts": NEW}, "infer run --date 2026-11-20"),
        ({"counts": NEW, "is_running": True}, "infer status"),
        (
            {"older": PendingDays(date(2026, 11, 2), date(2026, 11, 9), 3)},
            "infer backfill --from 2026-11-02 --to 2026-11-09",
        ),
        (
            {"counts": DayCounts(100, 89, 11, 0), "reasons": {"truncated": 11}},
            "infer list --state rejected --date 2026-11-20",
        ),
        ({"reasons": {"truncated": 2}}, "infer list --state rejected --date 2026-11-20"),
    ],
)
def test_what_to_do_is_one_notice_with_its_command(changed, command):
    assert [notice.command for notice in notices_of_day(replace(ALL_WELL, **changed))] == [command]


def test_rejections_are_told_by_what_helps():
    (notice,) = notices_of_day(replace(ALL_WELL, reasons={"truncated": 2, "not_found": 3, "location_not_allowed": 4}))
    retry = "infer retry --date 2026-11-20 --reason location_not_allowed"
    assert notice.text.split("; ") == [
        "2 rejected for content: fix or remove the files",
        "3 rejected for now: the next run retries them",
        f"4 rejected for a setting: correct the images, or change it and run `{retry}`",
    ]


@pytest.mark.parametrize("reason", Reason)
def test_a_rejection_is_told_by_the_class_of_its_reason_or_by_what_retries_it(reason):
    """Whatever the class, what the next run tries again by itself is told as such."""
    (notice,) = notices_of_day(replace(ALL_WELL, reasons={reason.value: 2}))
    told = {"the model": ReasonClass.MODEL, "a setting": ReasonClass.SETTING, "content": ReasonClass.CONTENT}
    found = next((of for text, of in told.items() if notice.text.startswith(f"2 rejected for {text}:")), None)
    is_retried = reason in TRANSIENT_REASONS or reason in DECODER_MODULES
    assert found == (None if is_retried else reason.of)
    assert found is not None or notice.text.startswith(("2 rejected for now", "2 rejected for want of a decoder"))


def test_one_image_that_was_replaced_is_told_as_one():
    nothing = ProjectFacts(None, NONE_ILL, (), 0, None, {}, late_left=False)
    told = [one.text for number in range(3) for one in OF_PROJECT["replaced"](replace(nothing, replaced=number))]
    assert [text.partition(":")[0] for text in told] == [
        "1 image was replaced since it was predicted",
        "2 images were replaced since they were predicted",
    ]


def ill(kind, *cameras, since=20):
    return [Illness(kind, camera, date(2026, 11, since), "18 of 20 images are black", 1e-12) for camera in cameras]


def of_cameras(found, num_cameras):
    facts = ProjectFacts(None, IllCameras(found, num_cameras), (), 0, None, {}, late_left=False)
    return [(one.kind, one.subject, one.key, one.text) for one in notices_of_project(facts)]


def test_what_is_wrong_with_a_camera_is_told_with_figures_that_may_change_untold():
    dark = KINDS[3]
    text = "camera b has black images since 2026-11-20: 18 of 20 images are black (by chance 1 in 1,000,000,000)"
    expected = [("dark camera", "b", "", f"{text}; does its flash work?")]
    assert of_cameras(ill(dark, "b"), 9) == expected
    assert of_cameras(ill(dark, "b"), 1) == expected


def test_what_most_cameras_have_since_the_same_day_is_one_notice():
    dark, covered = KINDS[3], KINDS[6]
    found = [*ill(dark, "a", "b", "c"), *ill(dark, "d", since=21), *ill(covered, "e")]
    (all_of_them, *others) = of_cameras(found, 5)
    text = "3 of 5 cameras have black images since 2026-11-20: a, b, c"
    assert all_of_them == ("dark camera", "", "2026-11-20", text)
    assert [(kind, camera) for kind, camera, *_ in others] == [("dark camera", "d"), ("covered camera", "e")]
    assert len(of_cameras(found, 6)) == 5  # not most
    assert len(of_cameras(ill(dark, "a", "b"), 2)) == 2  # too few
    many = [f"cam{number:02}" for number in range(20)]
    ((*_, text),) = of_cameras(ill(dark, *many), 30)
    assert text.endswith("cam10, cam11, …")
