"""Which variants a run takes, by what was measured: no network is loaded."""

from dataclasses import replace
from itertools import takewhile
from math import comb
from types import SimpleNamespace

import pytest

from infer_app.base.model_variants import CUDA_FP16, OPENVINO_BF16, OPENVINO_FP32, OPENVINO_INT8
from infer_app.predict.verification.agreement import MARGIN, MIN_JUDGED, why_unfit
from infer_app.predict.verification.parity import Parity

PARITY = Parity(300, 0.999, 0.0, 0.0)


def why(kept, num_images, needed=0.99, variant=OPENVINO_INT8, kind="classification", is_quantised=False):
    """Why no run takes a variant that keeps so many labels of so many images, or objects."""
    manifest = SimpleNamespace(output=SimpleNamespace(kind=kind), is_quantised=is_quantised, num_outputs=3)
    parity = replace(PARITY, num_images=num_images, label_agreement=kept / num_images)
    if kind == "detection":
        parity = replace(parity, num_objects=10 * num_images, object_agreement=kept / num_images)
    return why_unfit(manifest, variant, {"calibration": parity.to_json(), "min_agreement": needed})


@pytest.mark.parametrize("variant", [OPENVINO_INT8, OPENVINO_BF16])
def test_no_run_takes_what_was_judged_on_fewer_than_300_images(variant):
    assert why(299, 299, variant=variant) == "it was judged on 299 images of yours, 300 are needed"
    assert why(300, 300, variant=variant) is None
    manifest = SimpleNamespace(is_quantised=False)
    assert why_unfit(manifest, variant, {}) == "it was judged on 0 images of yours, 300 are needed"
    assert why_unfit(manifest, OPENVINO_FP32, {}) is None


@pytest.mark.parametrize(("num_images", "most_lost"), [(300, 0), (400, 1), (600, 3), (1000, 7), (2000, 19), (5000, 50)])
@pytest.mark.parametrize("variant", [OPENVINO_INT8, OPENVINO_BF16])
def test_the_fewer_images_judge_the_fewer_labels_may_be_lost(num_images, most_lost, variant):
    assert why(num_images - most_lost, num_images, variant=variant) is None
    told = why(num_images - most_lost - 1, num_images, variant=variant)
    assert ("are needed" if num_images == 5000 else "the lower end must reach 98.5%") in told


@pytest.mark.parametrize("needed", [0.99, 0.97, 0.9])
@pytest.mark.parametrize("num_images", [MIN_JUDGED, 600, 1000, 2000])
def test_of_variants_that_keep_half_a_point_less_than_promised_fewer_than_one_in_twenty_pass(needed, num_images):
    lost = 1 - needed + MARGIN
    passing = list(takewhile(lambda one: why(num_images - one, num_images, needed) is None, range(num_images)))
    chance = sum(comb(num_images, one) * lost**one * (1 - lost) ** (num_images - one) for one in passing)
    assert 0.005 < chance < 0.025


def test_the_reason_tells_the_share_and_what_is_needed():
    assert why(976, 1000) == "keeps 976 of 1,000 labels: between 96.4 and 98.5 %; 99.0% are needed (--min-agreement)"
    told = "keeps 299 of 300 labels: between 98.2 and 99.992 %; the lower end must reach 98.5%"
    assert why(299, 300) == told


def test_objects_count_by_images_and_images_without_any_tell_nothing():
    assert "the lower end must reach 96.5%" in why(295, 300, 0.97, kind="detection")  # 2,950 of 3,000 objects
    assert why(296, 300, 0.97, kind="detection") is None
    manifest = SimpleNamespace(output=SimpleNamespace(kind="detection"), is_quantised=False)
    nothing = {"calibration": replace(PARITY, num_objects=0).to_json(), "min_agreement": 0.97}
    assert "no object was found on 300 images" in why_unfit(manifest, OPENVINO_INT8, nothing)


def test_of_an_embedding_the_worst_cosine_of_300_images_decides():
    assert [why(0, 300, needed, kind="embedding") is None for needed in (0.999, 0.9991)] == [True, False]
    assert why(0, 300, float("nan"), kind="embedding") is not None


@pytest.mark.parametrize("kind", [{"variant": CUDA_FP16}, {"is_quantised": True}])
def test_half_precision_of_a_gpu_and_a_quantised_source_are_taken_until_a_judgement_tells_otherwise(kind):
    assert [why(kept, 20, **kind) is None for kept in (20, 19)] == [True, False]
    assert why_unfit(SimpleNamespace(is_quantised=kind.get("is_quantised")), CUDA_FP16, {}) is None
