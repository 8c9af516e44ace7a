"""Every way in which a worker can die, and what becomes of the chunk it had in hand."""

import signal
from collections import Counter
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_app.base.domain import Broken, Chunk, ChunkResult, FileFacts, ImageRef, Output, Prediction, Reason
from infer_app.predict.workers.heartbeat import NOTHING, STAGES, CurrentStep
from infer_app.predict.workers.retry_policy import (
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


OFTEN, TOO_OFTEN = KILLS_BEFORE_SPLIT - 1, KILLS_BEFORE_REJECTION - 1
KILL, HANG = {"ended_by": signal.SIGKILL}, {"ended_by": signal.SIGKILL, "timed_out": True}
LOST_DEVICE = WorkerExit(DEVICE_LOST, False, CurrentStep(5, 0, "model", 0.0, FACTS))


@pytest.mark.parametrize("ended_by", CRASHES)
@pytest.mark.parametrize("stage", ["read", "decode", "transform"])
def test_an_image_the_decoder_died_on_is_tried_once_more_alone_after_the_others(ended_by, stage):
    verdict = decide(task(A, B, C, kills=2), death(1, stage, ended_by))
    assert verdict == Decision(retry=(task(A, C, kills=2), task(B, retried_alone=True)))


@pytest.mark.parametrize("is_suspect", [False, True])
def test_a_step_without_end_rejects_its_image_at_once(is_suspect):
    verdict = decide(task(A, B, retried_alone=is_suspect), death(1, "read", **HANG))
    broken = Broken(B, Reason.READ_TIMEOUT, "read exceeded the time limit", "read", FACTS)
    assert verdict == Decision((broken,), (task(A, retried_alone=is_suspect),))


@pytest.mark.parametrize(
    ("tried", "ended", "retry"),
    [
        pytest.param(task(B), death(), [task(B, retried_alone=True)], id="decoder, and it came alone"),
        pytest.param(task(A, B, kills=1), death(0, "model"), [task(A), task(B)], id="crash of the model"),
        pytest.param(task(A, B, kills=1), death(0, "model", **HANG), [task(A), task(B)], id="hang of the model"),
        pytest.param(task(B), death(0, "model"), [task(B, retried_alone=True)], id="model, and it came alone"),
        pytest.param(task(A, B), LOST_DEVICE, [task(A), task(B)], id="GPU"),
        pytest.param(task(A), LOST_DEVICE, [task(A, retried_alone=True)], id="GPU, and it came alone"),
        # what no image can cause blames none
        pytest.param(task(A, B), death(1, "decode", **KILL), [task(A, B, kills=1)], id="killed"),
        pytest.param(task(A, B), death(1, "model", signal.SIGTERM), [task(A, B, kills=1)], id="terminated"),
        pytest.param(task(A, B), death(1, "read", -1), [task(A, B, kills=1)], id="exit code 1"),
        # it died between two tasks, or before its first step
        pytest.param(task(A, B), death(1, number=4), [task(A, B, kills=1)], id="mark of another task"),
        pytest.param(task(A, B), death(1, number=NOTHING), [task(A, B, kills=1)], id="mark of no task"),
        # perhaps one of them takes all the memory
        pytest.param(task(A, B, kills=OFTEN - 1), death(**KILL), [task(A, B, kills=OFTEN)], id="killed again"),
        pytest.param(task(A, B, kills=OFTEN), death(**KILL), [task(A), task(B)], id="and again"),
        pytest.param(task(A, kills=TOO_OFTEN - 1), death(**KILL), [task(A, kills=TOO_OFTEN)], id="killed again alone"),
    ],
)
def test_what_may_have_another_cause_is_tried_again(tried, ended, retry):
    assert decide(tried, ended) == Decision(retry=tuple(retry))


@pytest.mark.parametrize(
    ("ended", "reason", "detail"),
    [
        *((death(0, "decode", crash), Reason.DECODER_CRASH, f"died twice by {crash.name}") for crash in CRASHES),
        (death(0, "decode", **HANG), Reason.DECODE_TIMEOUT, "decode exceeded the time limit"),
        (death(0, "transform", **HANG), Reason.DECODE_TIMEOUT, "transform exceeded the time limit"),
        (death(0, "model"), Reason.MODEL_ERROR, "the model died by SIGSEGV twice on this image alone"),
        (death(0, "model", **HANG), Reason.MODEL_ERROR, "the model took too long twice on this image alone"),
        (LOST_DEVICE, Reason.OUT_OF_MEMORY, "the GPU failed twice with this image alone"),
        (death(**KILL), Reason.OUT_OF_MEMORY, f"ended {KILLS_BEFORE_REJECTION} times (SIGKILL)"),
        (death(ended_by=-3), Reason.OUT_OF_MEMORY, "(exit code 3)"),
        (death(ended_by=64), Reason.OUT_OF_MEMORY, "(SIGRTMAX)"),
        (death(ended_by=99), Reason.OUT_OF_MEMORY, "(signal 99)"),
    ],
)
def test_an_image_on_which_it_happens_again_alone_is_rejected_with_what_happened(ended, reason, detail):
    """What it may not be the cause of is tried by later runs."""
    verdict = decide(task(B, retried_alone=True, kills=TOO_OFTEN), ended)
    (broken,) = verdict.broken
    assert verdict == Decision((Broken(B, reason, broken.detail, ended.current_step.stage, FACTS),))
    assert detail in broken.detail


@st.composite
def any_death_of_a_task(draw):
    refs = tuple(ImageRef(str(i), f"/{i}.jpg") for i in range(draw(st.integers(1, 6))))
    number = draw(st.integers(0, 3))
    models = tuple(range(draw(st.integers(1, 4))))
    chunk = Chunk(draw(st.integers(0, 9)), refs, models)
    any_task = Task(number, chunk, draw(st.booleans()), draw(st.integers(0, 6)))
    stage = draw(st.sampled_from([stage for stage in STAGES if stage]))
    exitcode = draw(st.one_of(st.integers(-70, 3), st.sampled_from([-crash for crash in CRASHES])))
    current_step = CurrentStep(draw(st.integers(-1, 3)), draw(st.integers(0, len(refs) - 1)), stage, 0.0, FACTS)
    current_step = replace(current_step, models=draw(st.frozensets(st.integers(0, 5))))
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
    """The same death, of each task that is tried again, rejects every image at last, or leaves it to other models.

    Each image has one outcome for each model.
    """
    judged, ended = case
    open_tasks, outcomes = [judged], Counter()
    for _ in range(200):
        if not open_tasks:
            break
        one = open_tasks.pop()
        current_step = replace(ended.current_step, position=min(ended.current_step.position, len(one.chunk.refs) - 1))
        models = current_step.models
        if models and not models.intersection(one.chunk.model_indices):  # it ends well for the models that are left
            done = [Prediction(*pair) for pair in product(one.chunk.refs, [Output()], [FACTS], one.chunk.model_indices)]
            result = one.finish(ChunkResult.of(0, done, one.chunk.model_indices))
        else:
            verdict = decide(one, replace(ended, current_step=current_step))
            open_tasks += verdict.retry
            result = ChunkResult(0, (), verdict.broken, one.model_indices)
        outcomes.update(
            (found.ref, index)
            for index in judged.chunk.model_indices
            for part in [result.of_model(index)]
            for found in (*part.broken, *part.predictions)
        )
    every = {(ref, index): 1 for ref in judged.chunk.refs for index in judged.chunk.model_indices}
    assert (open_tasks, outcomes) == ([], every)
