"""Every way in which a worker can die, and what becomes of the chunk it had in hand."""

import signal
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_app.domain import TRANSIENT_REASONS, Broken, Chunk, FileFacts, ImageRef, Reason
from infer_app.workers.heartbeat import NOTHING, STAGES, CurrentStep
from infer_app.workers.retry_policy import (
    CRASH_SIGNALS,
    DEVICE_LOST,
    KILLS_BEFORE_REJECTION,
    KILLS_BEFORE_SPLIT,
    Decision,
    Task,
    WorkerExit,
    decide,
)

A, B, C = (ImageRef(name, f"/{name}.jpg") for name in "abc")
FACTS = FileFacts(7, 1.5, "ab" * 32)
CRASHES = sorted(CRASH_SIGNALS)


def task(*refs, **changes):
    return replace(Task(5, Chunk(2, refs)), **changes)


def death(position=0, stage="decode", ended_by=signal.SIGSEGV, timed_out=False, number=5):
    return WorkerExit(-ended_by, timed_out, CurrentStep(number, position, stage, 0.0, FACTS))


def rejected(ref, reason, detail, stage="decode"):
    return Broken(ref, reason, detail, stage, FACTS)


def test_the_signals_of_a_crash_are_the_five_of_a_broken_decoder():
    assert {crash.name for crash in CRASH_SIGNALS} == {"SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE"}


@pytest.mark.parametrize("ended_by", CRASHES)
@pytest.mark.parametrize("stage", ["read", "decode", "transform"])
def test_an_image_the_decoder_died_on_is_tried_once_more_alone_after_the_others(ended_by, stage):
    verdict = decide(task(A, B, C, kills=2), death(1, stage, ended_by))
    assert verdict == Decision(retry=(task(A, C, kills=2), task(B, retried_alone=True)))


@pytest.mark.parametrize("ended_by", CRASHES)
def test_dying_twice_the_second_time_alone_is_a_decoder_crash(ended_by):
    detail = f"the decoder died twice by {ended_by.name}, the second time alone"
    verdict = decide(task(B, retried_alone=True), death(0, ended_by=ended_by))
    assert verdict == Decision((rejected(B, Reason.DECODER_CRASH, detail),))


def lost_device(number=5):
    return WorkerExit(DEVICE_LOST, False, CurrentStep(number, 0, "model", 0.0, FACTS))


def test_after_the_gpu_failed_each_image_is_tried_alone_and_never_rejected_for_good():
    assert decide(task(A, B), lost_device()) == Decision(retry=(task(A), task(B)))
    assert decide(task(A), lost_device()) == Decision(retry=(task(A, retried_alone=True),))
    (broken,) = decide(task(A, retried_alone=True), lost_device()).broken
    assert (broken.ref, broken.reason) == (A, Reason.OUT_OF_MEMORY)
    assert broken.reason in TRANSIENT_REASONS


def test_an_image_that_came_alone_is_tried_once_more_too():
    assert decide(task(B), death()) == Decision(retry=(task(B, retried_alone=True),))


@pytest.mark.parametrize(
    ("stage", "reason"),
    [("read", Reason.READ_TIMEOUT), ("decode", Reason.DECODE_TIMEOUT), ("transform", Reason.DECODE_TIMEOUT)],
)
@pytest.mark.parametrize("is_suspect", [False, True])
def test_a_step_without_end_rejects_its_image_at_once(stage, reason, is_suspect):
    verdict = decide(task(A, B, retried_alone=is_suspect), death(1, stage, signal.SIGKILL, timed_out=True))
    detail = f"{stage} exceeded the time limit"
    assert verdict == Decision((rejected(B, reason, detail, stage),), (task(A, retried_alone=is_suspect),))


@pytest.mark.parametrize("ending", [{}, {"ended_by": signal.SIGKILL, "timed_out": True}], ids=["crash", "hang"])
def test_a_failure_of_the_model_makes_the_chunk_be_tried_image_by_image(ending):
    verdict = decide(task(A, B, C, kills=1), death(0, "model", **ending))
    assert verdict == Decision(retry=(task(A), task(B), task(C)))


@pytest.mark.parametrize(
    ("ending", "cause"),
    [({}, "died by SIGSEGV"), ({"ended_by": signal.SIGKILL, "timed_out": True}, "took too long")],
    ids=["crash", "hang"],
)
def test_an_image_the_model_fails_on_alone_is_a_model_error(ending, cause):
    assert decide(task(B), death(0, "model", **ending)) == Decision(retry=(task(B, retried_alone=True),))
    verdict = decide(task(B, retried_alone=True), death(0, "model", **ending))
    detail = f"the model {cause} twice on this image alone"
    assert verdict == Decision((rejected(B, Reason.MODEL_ERROR, detail, "model"),))


@pytest.mark.parametrize("ended_by", [signal.SIGKILL, signal.SIGTERM, -1], ids=["SIGKILL", "SIGTERM", "exit code 1"])
@pytest.mark.parametrize("stage", ["read", "decode", "model"])
def test_an_end_that_no_image_can_cause_blames_none(ended_by, stage):
    assert decide(task(A, B, C), death(1, stage, ended_by)) == Decision(retry=(task(A, B, C, kills=1),))


@pytest.mark.parametrize("number", [4, NOTHING])
def test_a_mark_of_another_task_blames_no_image(number):
    """The worker died between two tasks, or before its first step."""
    verdict = decide(task(A, B), death(1, number=number))
    assert verdict == Decision(retry=(task(A, B, kills=1),))


def test_a_chunk_that_is_killed_again_and_again_is_tried_image_by_image():
    """Perhaps one of them takes all the memory."""
    almost = task(A, B, kills=KILLS_BEFORE_SPLIT - 2)
    assert decide(almost, death(ended_by=signal.SIGKILL)).retry == (replace(almost, kills=KILLS_BEFORE_SPLIT - 1),)
    last = task(A, B, kills=KILLS_BEFORE_SPLIT - 1)
    assert decide(last, death(ended_by=signal.SIGKILL)) == Decision(retry=(task(A), task(B)))


def test_an_image_that_is_killed_alone_again_and_again_is_out_of_memory():
    almost = task(A, kills=KILLS_BEFORE_REJECTION - 2)
    assert decide(almost, death(ended_by=signal.SIGKILL)) == Decision(retry=(replace(almost, kills=almost.kills + 1),))
    last = task(A, kills=KILLS_BEFORE_REJECTION - 1)
    detail = f"its worker was ended {KILLS_BEFORE_REJECTION} times (SIGKILL) while it processed this image alone"
    assert decide(last, death(ended_by=signal.SIGKILL)) == Decision((rejected(A, Reason.OUT_OF_MEMORY, detail),))


@pytest.mark.parametrize(("exitcode", "name"), [(3, "exit code 3"), (-64, "SIGRTMAX"), (-99, "signal 99")])
def test_any_end_has_a_name(exitcode, name):
    ended = WorkerExit(exitcode, False, CurrentStep(5, 0, "read", 0.0, FACTS))
    assert f"({name})" in decide(task(A, kills=9), ended).broken[0].detail


@st.composite
def any_death_of_a_task(draw):
    refs = tuple(ImageRef(str(i), f"/{i}.jpg") for i in range(draw(st.integers(1, 6))))
    number = draw(st.integers(0, 3))
    any_task = Task(number, Chunk(draw(st.integers(0, 9)), refs), draw(st.booleans()), draw(st.integers(0, 6)))
    stage = draw(st.sampled_from([stage for stage in STAGES if stage]))
    exitcode = draw(st.one_of(st.integers(-70, 3), st.sampled_from([-crash for crash in CRASHES])))
    current_step = CurrentStep(draw(st.integers(-1, 3)), draw(st.integers(0, len(refs) - 1)), stage, 0.0, FACTS)
    return any_task, WorkerExit(exitcode, draw(st.booleans()), current_step)


@given(any_death_of_a_task())
def test_every_image_ends_in_exactly_one_part_of_the_verdict(case):
    judged, ended = case
    verdict = decide(judged, ended)
    parts = [broken.ref for broken in verdict.broken] + [ref for retry in verdict.retry for ref in retry.chunk.refs]
    assert Counter(parts) == Counter(judged.chunk.refs)
    assert all(retry.chunk.refs and retry.chunk.number == judged.chunk.number for retry in verdict.retry)


@given(any_death_of_a_task())
def test_whatever_happens_again_and_again_comes_to_an_end(case):
    """The same death, of each task that is tried again, rejects every image at last."""
    judged, ended = case
    open_tasks, rejections = [judged], 0
    for _ in range(200):
        if not open_tasks:
            break
        one = open_tasks.pop()
        current_step = replace(ended.current_step, position=min(ended.current_step.position, len(one.chunk.refs) - 1))
        verdict = decide(one, replace(ended, current_step=current_step))
        open_tasks += verdict.retry
        rejections += len(verdict.broken)
    assert (open_tasks, rejections) == ([], len(judged.chunk.refs))
