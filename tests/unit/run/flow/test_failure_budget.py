"""What may be rejected of a day: results come in, and what may be written comes out, in one row of calls."""

from dataclasses import replace

import pytest

from infer_app.base.domain import Broken, ChunkResult, ImageRef, Output, Prediction, Reason
from infer_app.base.settings.sections import RunSettings
from infer_app.run.flow.failure_budget import FEW_ALIKE, FEW_FAILURES, PROBATION_IMAGES, EarlierResults, FailureBudget

CHUNK = 10


def chunk(reason=None, stage="model", num_images=CHUNK):
    """One with as many predictions, or as many images that failed alike."""
    refs = [ImageRef(str(number), f"/photos/{number}.jpg") for number in range(num_images)]
    if reason is None:
        return ChunkResult(0, tuple(Prediction(ref, Output()) for ref in refs), ())
    return ChunkResult(0, (), tuple(Broken(ref, reason, "ValueError: no", stage) for ref in refs))


FINE = chunk()
FAULT = chunk(Reason.MODEL_ERROR)
CUT_OFF = chunk(Reason.TRUNCATED, "read")
GONE = chunk(Reason.NOT_FOUND, "read")
NOTHING, BY_MODEL, CUT = EarlierResults(), ("model_error", "model"), ("truncated", "read")
ONE_FAILURE = replace(FINE, broken=chunk(Reason.MODEL_ERROR, num_images=1).broken)


def admit(results, max_rejected="5%", earlier=NOTHING):
    """The budget, and how many predictions and rejections were written, those of the day's end included."""
    budget, written = FailureBudget(RunSettings(max_rejected=max_rejected), lambda: earlier), []
    for result in results:
        written += budget.admit(result)
    written += budget.decide()
    return budget, sum(len(one.predictions) for one in written), sum(len(one.broken) for one in written)


FAULTS = {
    "model": FAULT,
    "preprocess": chunk(Reason.MODEL_ERROR, "transform"),
    "no number": chunk(Reason.NON_FINITE_OUTPUT, "outputs"),
    "no memory for any": chunk(Reason.OUT_OF_MEMORY),
    "preprocess that crashes": chunk(Reason.DECODER_CRASH, "transform"),
    "preprocess that hangs": chunk(Reason.DECODE_TIMEOUT, "transform"),
}


@pytest.mark.parametrize(
    ("day", "max_rejected"),
    [
        *(pytest.param([fault] * n, "5%", id=f"{name}, {n}") for name, fault in FAULTS.items() for n in (2, 20, 200)),
        pytest.param([FINE] * 500 + [FAULT] * 100, "5%", id="model begins to fail"),
        pytest.param([FINE] * 500 + [FAULT] * 20, "5%", id="end of a large day"),
        pytest.param([chunk(Reason.MODEL_ERROR, num_images=2)], "5%", id="two of two"),
        pytest.param([chunk(Reason.MODEL_ERROR, num_images=FEW_FAILURES)], "5%", id="all of a few"),
        pytest.param([chunk(num_images=1), chunk(Reason.MODEL_ERROR, num_images=9)], "5%", id="most of a few"),
        # what an earlier run left of the day is less than it takes to stop a day early
        pytest.param([FINE, FINE, FINE, FAULT, FAULT] * 2, "5%", id="some, in the next run too"),
        # a large budget is no leave to reject all
        pytest.param([FINE] * 4 + [FAULT] * 36, "500", id="large number allowed"),
        pytest.param([FINE] * 4 + [FAULT] * 36, "60%", id="most allowed"),
    ],
)
def test_a_fault_of_the_model_rejects_none(day, max_rejected):
    budget, predicted, rejected = admit(day, max_rejected)
    assert (predicted, rejected) == (sum(len(one.predictions) for one in day), 0)
    assert "images failed in the model or its preprocessing" in budget.stopped or "more than" in budget.stopped
    assert "ValueError: no" in budget.stopped


@pytest.mark.parametrize("beside", [GONE, chunk(Reason.TOO_MANY_PIXELS, "decode")], ids=["missing", "too large"])
def test_what_the_model_was_not_given_does_not_speak_for_it(beside):
    budget, _, rejected = admit([beside] * 3 + [chunk(Reason.MODEL_ERROR, num_images=5)])
    assert "5 of 5 images failed in the model or its preprocessing: the rest" in budget.stopped
    assert rejected == 3 * CHUNK


def test_missing_files_do_not_speak_for_a_decoder():
    budget, *_ = admit([GONE] * 3 + [chunk(Reason.CORRUPT, "decode", 5)])
    assert "5 of 5 images are corrupt, which may be one fault" in budget.stopped


@pytest.mark.parametrize(
    ("failed", "earlier", "is_fault"),
    [
        (chunk(Reason.MODEL_ERROR, num_images=1), EarlierResults(0, {BY_MODEL: 1}), True),
        (chunk(Reason.MODEL_ERROR, num_images=1), EarlierResults(200, {BY_MODEL: 10}), True),
        (chunk(Reason.MODEL_ERROR, num_images=1), EarlierResults(400, {BY_MODEL: 10}), False),
        (chunk(Reason.MODEL_ERROR, num_images=1), EarlierResults(0, {CUT: 9}), False),
        (chunk(Reason.TRUNCATED, "read", 3), EarlierResults(5, {CUT: 3}), True),
        (chunk(Reason.TRUNCATED, "read", 3), EarlierResults(6, {CUT: 3}), False),
        (chunk(Reason.TRUNCATED, "read", 3), EarlierResults(0, {BY_MODEL: 9}), False),
        (FINE, EarlierResults(0, {BY_MODEL: 9, CUT: 9}), False),  # it was removed
    ],
)
def test_several_runs_of_a_day_decide_as_one_would(failed, earlier, is_fault):
    budget, _, rejected = admit([failed], earlier=earlier)
    assert (budget.stopped is not None, rejected) == (is_fault, 0 if is_fault else len(failed.broken))


def test_no_image_is_asked_for_once_a_fault_is_sure():
    budget = FailureBudget(RunSettings())
    num_chunks = 0
    while budget.stopped is None:
        list(budget.admit(FAULT))
        num_chunks += 1
    assert num_chunks * CHUNK == PROBATION_IMAGES


@pytest.mark.parametrize(
    ("day", "max_rejected"),
    [
        # nothing can be told from it, and it must not wait for ever
        pytest.param([chunk(Reason.MODEL_ERROR, num_images=1)], "5%", id="only image of a day"),
        pytest.param([FINE, FINE, FINE, chunk(Reason.MODEL_ERROR, num_images=FEW_FAILURES)], "5%", id="a few"),
        pytest.param([FINE, ONE_FAILURE, FINE, FINE] * 100, "5%", id="single images"),
        pytest.param([FINE] * 200 + [FAULT] * 10 + [FINE] * 200, "5%", id="camera overexposed for a while"),
        pytest.param([FINE, CUT_OFF, FAULT] * 100, "100%", id="all allowed"),
        # the exit code tells of it
        pytest.param([replace(FINE, broken=CUT_OFF.broken[:1])] * 5, "0", id="one broken where none is allowed"),
        pytest.param([FINE, GONE] * 100, "5%", id="tried again by themselves"),
    ],
)
def test_failures_beside_images_that_succeed_are_rejections(day, max_rejected):
    budget, predicted, rejected = admit(day, max_rejected)
    assert (budget.stopped, predicted) == (None, sum(len(one.predictions) for one in day))
    assert rejected == sum(len(one.broken) for one in day)


def test_only_the_broken_files_wait_for_what_becomes_of_the_others():
    budget = FailureBudget(RunSettings())
    assert list(budget.admit(replace(FINE, broken=CUT_OFF.broken[:3]))) == [FINE]
    assert [broken for result in budget.decide() for broken in result.broken] == [*CUT_OFF.broken[:3]]


@pytest.mark.parametrize("reason", [Reason.CORRUPT, Reason.UNSUPPORTED_FORMAT, Reason.EMPTY, Reason.DECODER_CRASH])
@pytest.mark.parametrize(("num_fine", "num_refused"), [(0, 4), (3, 4), (9, 10), (0, 200), (140, 159), (0, 3000)])
@pytest.mark.parametrize("max_rejected", ["5%", "50%", "5000"])
def test_most_images_of_a_day_refused_alike_are_one_fault_and_no_rejection(reason, num_fine, num_refused, max_rejected):
    """A Pillow without WebP, a server that answers with a page to log in."""
    day = [chunk(num_images=1)] * num_fine + [chunk(reason, "decode", 1)] * num_refused
    budget, predicted, rejected = admit(day, max_rejected)
    assert (predicted, rejected) == (num_fine, 0)
    assert f"images are {reason}, which may be one fault: the rest stays pending (the last: /photos/" in budget.stopped


@pytest.mark.parametrize(
    ("num_fine", "refused", "options"),
    [
        pytest.param(6, [chunk(Reason.TRUNCATED, "read", 1)], {}, id="quickstart"),
        pytest.param(0, [chunk(Reason.CORRUPT, "decode", 1)], {}, id="only one"),
        pytest.param(0, [chunk(Reason.CORRUPT, "decode", FEW_ALIKE)], {}, id="few"),
        pytest.param(
            5, [chunk(r, "decode", 1) for r in (Reason.CORRUPT, Reason.TRUNCATED, Reason.EMPTY)], {}, id="3/8"
        ),
        pytest.param(0, [chunk(r, "decode", 3) for r in (Reason.CORRUPT, Reason.TRUNCATED)], {}, id="not alike"),
        pytest.param(10, [CUT_OFF], {}, id="half"),
        pytest.param(0, [CUT_OFF] * 2, {"earlier": EarlierResults(20)}, id="rest of a day"),
        pytest.param(0, [CUT_OFF] * 40, {"max_rejected": "100%"}, id="all allowed"),
        pytest.param(4, [chunk(Reason.CORRUPT, "decode", 6)], {"max_rejected": "60%"}, id="most allowed"),
        pytest.param(0, [chunk(Reason.HEIC_DECODER_MISSING, "decode", 200)], {}, id="until a decoder is installed"),
        pytest.param(0, [chunk(Reason.TOO_MANY_PIXELS, "decode", 200)], {}, id="sure"),
    ],
)
def test_files_that_may_be_broken_themselves_are_rejected(num_fine, refused, options):
    budget, predicted, rejected = admit([chunk(num_images=1)] * num_fine + refused, **options)
    assert (budget.stopped, predicted) == (None, num_fine)
    assert rejected == sum(len(result.broken) for result in refused)


def test_too_many_broken_files_stop_the_day_after_some_hundred():
    budget, predicted, rejected = admit([FINE, CUT_OFF] * 100)
    assert budget.stopped
    assert "more than --max-rejected 5% allows" in budget.stopped
    assert predicted == 100 * CHUNK  # what is in flight when it stops is written still
    assert rejected < PROBATION_IMAGES
